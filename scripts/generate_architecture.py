"""Write the layers and paths into ARCHITECTURE.md and CONTRIBUTING.md; part of `make docs`.

The layers come from the import-linter contract in pyproject.toml and from what each package says of
itself, the paths from a trace (scripts/trace_paths.py). Both stand between markers, so the text
around them is written by hand. tests/test_paths.py fails when they are out of date.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.trace_paths import PACKAGE, Trace, traced_paths

ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ARROW = " → "
# Values, limits and errors, which every path uses, and what runs in the background.
LEFT_OUT = ("config/", "errors/", "metrics/", "model/", "runtime/", "wire/limits", "server/upkeep")


def layers() -> list[list[str]]:
    """Return the layers from top to bottom, each with its packages; absent ones are left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (stack,) = (each["layers"] for each in contracts if each["id"] == "layers")
    rows = [[name.strip(" ()") for name in row.split("|")] for row in stack]
    present = [[name for name in row if _source(name).exists()] for row in rows]
    return [row for row in present if row]


def _source(name: str) -> Path:
    package = PACKAGE / name / "__init__.py"
    return package if package.exists() else PACKAGE / f"{name}.py"


def layer_list() -> str:
    """Return the layers as text, one per line."""
    return "```text\n" + "\n".join(" | ".join(row) for row in layers()) + "\n```"


def layer_table() -> str:
    """Return the layers as a table, with the first sentence of each package's docstring."""
    lines = ["| layer | what it holds |", "|---|---|"]
    for row in layers():
        names = "<br>".join(f"`{name}`" for name in row)
        lines.append(f"| {names} | {'<br>'.join(map(_purpose, row))} |")
    return "\n".join(lines)


def _purpose(name: str) -> str:
    text = ast.get_docstring(ast.parse(_source(name).read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].replace("|", "\\|")


def path_table(traces: Mapping[str, Trace]) -> str:
    """Return the paths as a table: calls rounded, all files counted, those of note named."""
    lines = ["| path | calls | files | through |", "|---|---|---|---|"]
    for name, trace in traces.items():
        cells = (name, f"{rounded(trace.calls):,}", str(len(trace.files)), _way(trace))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def rounded(calls: int) -> int:
    """Return a number with its two leading digits, as the others vary from run to run."""
    unit = 10 ** max(len(str(calls)) - 2, 0)
    return round(calls / unit) * unit


def _way(trace: Trace) -> str:
    packages: dict[str, list[str]] = {}
    for file in way_files(trace):
        package, _, name = file.partition("/")
        packages.setdefault(package, []).append(name)
    return ARROW.join(f"**{package}** {', '.join(names)}" for package, names in packages.items())


def way_files(trace: Trace) -> list[str]:
    """Return the files of a trace that a path table names, in the order of first entry."""
    return [file for file in trace.files if not file.startswith(LEFT_OUT)]


def named_files(page: str) -> dict[str, set[str]]:
    """Return the files that the path table of a page names, by the name of the path."""
    rows = (line.strip("| ").split(" | ") for line in between(page, "paths").splitlines()[2:])
    return {path: set(_files_in(way)) for path, _, _, way in rows}


def _files_in(way: str) -> Iterator[str]:
    for step in way.split(ARROW):
        package, _, names = step.partition(" ")
        yield from (f"{package.strip('*')}/{name}" for name in names.split(", "))


def between(page: str, part: str) -> str:
    """Return what stands between the markers of a generated part."""
    found = _marked(part).search(page)
    assert found is not None, f"the page has no markers of the part {part!r}"
    return found[2].strip()


def replaced(page: str, part: str, text: str) -> str:
    """Return a page with another text between the markers of a generated part."""
    between(page, part)
    return _marked(part).sub(lambda found: f"{found[1]}\n\n{text}\n\n{found[3]}", page)


def _marked(part: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {part}: .*?-->)(.*?)(<!-- end of {part} -->)", re.DOTALL)


def main() -> None:
    contributing = CONTRIBUTING.read_text(encoding="utf-8")
    CONTRIBUTING.write_text(replaced(contributing, "layers", layer_list()), encoding="utf-8")
    print("wrote the layers in CONTRIBUTING.md")
    page = replaced(ARCHITECTURE.read_text(encoding="utf-8"), "layers", layer_table())
    ARCHITECTURE.write_text(replaced(page, "paths", path_table(traced_paths())), encoding="utf-8")
    print("wrote layers and paths in ARCHITECTURE.md")


if __name__ == "__main__":
    main()
