"""The corpus: statements, each with what becomes of it as a stream and as a batch.

Statements are separated by empty lines. Comments above a statement say what its plan is in a mode:
an output mode (`append`, `update`, `complete`), `changes`, `set`, or `refused "words"`. Without
one it can be planned.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.pipelines.sql.names import ScriptNames

FOLDER = Path(__file__).parent / "corpus"
NEXMARK = Path(__file__).parents[3] / "examples" / "nexmark"
MODES = ("streaming", "batch")
_EXPECTED = re.compile(r"-- (streaming|batch): (\w+)(?: \"(.*)\")?$")


@dataclass(frozen=True)
class Entry:
    """One statement in one mode."""

    file: str
    mode: str
    text: str
    kind: str = ""
    words: str = ""


def entries(*, refused: bool | None = None) -> list[Entry]:
    """All statements in both modes."""
    found = [each for file in sorted(FOLDER.glob("*.sql")) for each in _entries(file)]
    return [each for each in found if refused in (None, each.kind == "refused")]


def _entries(file: Path) -> Iterator[Entry]:
    if file.stem == "tables":
        return
    for block in file.read_text().strip().split("\n\n"):
        lines = block.split("\n")
        text = "\n".join(line for line in lines if not line.startswith("-- "))
        said = {
            found[1]: (found[2], found[3] or "")
            for line in lines
            if (found := _EXPECTED.match(line)) is not None
        }
        for mode in MODES:
            kind, words = said.get(mode, ("", ""))
            yield Entry(file.stem, mode, text, kind, words)


def names_for(mode: str) -> ScriptNames:
    """The tables of the corpus, in a mode."""
    names = ScriptNames().run((FOLDER / "tables.sql").read_text())
    names.settings["execution.runtime-mode"] = mode
    return names


def nexmark_names(mode: str) -> ScriptNames:
    """The tables of Nexmark, in a mode."""
    names = ScriptNames()
    for file in ("tables.sql", "queries.sql"):
        names.run((NEXMARK / file).read_text())
    names.settings["execution.runtime-mode"] = mode
    return names
