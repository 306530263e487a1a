"""Write the blocking API in client/sync from the classes that await: run it with `make sync`.

The blocking classes mirror the awaiting ones method by method, so signatures, docstrings and bodies
are generated. What is written by hand stays in the module and is carried over: everything outside
the mirrored classes, names with an underscore, the examples at the end of a docstring, and bodies
that say `# by hand:` and why. A method that the awaiting class does not have is refused, unless its
body says so too. tests/test_mirrors.py fails when the modules are out of date.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from textwrap import indent

SOURCE = Path(__file__).parents[1] / "src" / "headwater"
SYNC = SOURCE / "client" / "sync"
BY_HAND = "# by hand:"
INDENT = "    "
Method = ast.FunctionDef | ast.AsyncFunctionDef
# What a caller that does not await gets in place of something that awaits.
BLOCKING = {
    "AsyncTable": "Table",
    "AsyncWriter": "Writer",
    "AsyncScan": "Scan",
    "AsyncView": "View",
    "AsyncCursor": "Cursor",
    "AclAdmin": "Acls",
    "CursorAdmin": "Cursors",
    "LakeCoordinator": "Lake",
    "Tail | VirtualTail": "Tail",
}
# Names that readers of a signature would have to look up.
SPELLED_OUT = {
    "When": "Literal['earliest', 'latest'] | datetime",
    "Partitions": "Iterable[Mapping[str, str]]",
    "DISCOVERY_S": "10.0",
}
ROWS_OF = re.compile(r"AsyncGenerator\[(.+), None\]")
REMARK = re.compile(r"# noqa: .*")
LINE_CHARS_MAX = 88


@dataclass(frozen=True, slots=True)
class Twin:
    """A method that awaits, and the comment for the linter in the line of its name."""

    node: Method
    remark: str

    @property
    def returns(self) -> str:
        """What it returns, as its signature says."""
        assert self.node.returns is not None, f"{self.node.name} does not say what it returns"
        return ast.unparse(self.node.returns)


@dataclass(frozen=True, slots=True)
class Mirror:
    """Name a blocking class, the awaiting class behind it, and where it holds that."""

    blocking: str
    awaiting: str
    module: str
    held_as: str
    left_out: frozenset[str] = field(default_factory=frozenset)


MODULES = {
    "client.py": (
        Mirror("Acls", "AclAdmin", "client/acls.py", "_admin"),
        Mirror("Lake", "LakeCoordinator", "cluster/lake.py", "_coordinator"),
        Mirror(
            "Client", "AsyncClient", "client/client.py", "_client", frozenset({"cluster", "shown"})
        ),
    ),
    "table.py": (
        Mirror(
            "Writer",
            "AsyncWriter",
            "client/writer.py",
            "_writer",
            frozenset({"take", "take_delete", "check_log", "check_keyed"}),
        ),
        Mirror(
            "Table",
            "AsyncTable",
            "client/table.py",
            "_table",
            frozenset({"cluster", "get_now", "lookup_now", "short_writer", "upsert_if"}),
        ),
    ),
    "scan.py": (
        Mirror("Scan", "AsyncScan", "client/scan.py", "_scan", frozenset({"batches"})),
        Mirror("View", "AsyncView", "client/view.py", "_view", frozenset({"of", "rows"})),
    ),
    "tail.py": (
        Mirror("Tail", "Following", "client/sync/tail.py", "_tail", frozenset({"name", "columns"})),
        Mirror(
            "Cursor", "AsyncCursor", "client/cursors/cursor.py", "_cursor", frozenset({"shown"})
        ),
        Mirror("Cursors", "CursorAdmin", "client/cursors/admin.py", "_admin"),
    ),
}


def sync_modules() -> dict[Path, str]:
    """Return what each module of the blocking API should hold."""
    return {SYNC / name: generated(SYNC / name, mirrors) for name, mirrors in MODULES.items()}


def generated(path: Path, mirrors: tuple[Mirror, ...]) -> str:
    """Return a module with its mirrored classes written anew."""
    text = path.read_text(encoding="utf-8")
    origins: dict[str, str] = {}
    for mirror in mirrors:
        source = (SOURCE / mirror.module).read_text(encoding="utf-8")
        origins |= _origins(ast.parse(source), mirror.module)
        text = _with_class(text, mirror, _twins(source, mirror))
    return _tidied(_with_imports(text, origins), SYNC / path.name)


def _twins(source: str, mirror: Mirror) -> dict[str, Twin]:
    """Return the public methods of an awaiting class by name, without those that are left out."""
    lines = source.splitlines()
    found = {}
    for node in _methods(source, mirror.awaiting):
        if not node.name.startswith("_") and node.name not in mirror.left_out:
            remark = REMARK.search(lines[node.lineno - 1])
            found[node.name] = Twin(node, "" if remark is None else remark[0])
    return found


# ---- a class


def _with_class(text: str, mirror: Mirror, twins: Mapping[str, Twin]) -> str:
    """Return the text of a module with one class written anew, member by member."""
    lines = text.splitlines(keepends=True)
    ours = _methods(text, mirror.blocking)
    parts = {each.name: _member(lines, each, twins.get(each.name), mirror) for each in ours}
    for before, name in pairwise(["", *twins]):
        if name not in parts:
            parts = _inserted(parts, name, _method(twins[name], None, mirror), after=before)
    # What stands between two members, such as a heading, stays in front of the second.
    between = {
        each.name: "".join(lines[(before.end_lineno or 0) : _first_line(each) - 1])
        for before, each in pairwise(ours)
    }
    first, last = ours[0], ours[-1]
    body = "".join(
        part if name == first.name else between.get(name, "\n") + part
        for name, part in parts.items()
    )
    return "".join([*lines[: _first_line(first) - 1], body, *lines[last.end_lineno :]])


def _member(lines: list[str], ours: Method, twin: Twin | None, mirror: Mirror) -> str:
    """Return a member of a blocking class: kept as it is, or written anew from its twin."""
    text = "".join(lines[_first_line(ours) - 1 : ours.end_lineno])
    is_by_hand = BY_HAND in text
    if ours.name.startswith("_") or (twin is None and is_by_hand):
        return text
    if twin is None:
        # Never dropped: users may call it.
        raise LookupError(
            f"{mirror.awaiting} has no method {ours.name}: delete {mirror.blocking}.{ours.name},"
            f" or begin its body with {BY_HAND!r} and the reason."
        )
    if not is_by_hand:
        return _method(twin, ours, mirror)
    docstring_end = ours.body[0].end_lineno or 0
    return _head(twin, ours) + "".join(lines[docstring_end : ours.end_lineno])


def _inserted(parts: Mapping[str, str], name: str, text: str, *, after: str) -> dict[str, str]:
    names = list(parts)
    names.insert(names.index(after) + 1 if after in parts else len(names), name)
    return {each: text if each == name else parts[each] for each in names}


# ---- a method


def _method(twin: Twin, ours: Method | None, mirror: Mirror) -> str:
    return _head(twin, ours) + indent(_body(twin, mirror), INDENT * 2)


def _head(twin: Twin, ours: Method | None) -> str:
    """Return decorator, signature and docstring."""
    decorator = f"{INDENT}@property\n" if _is_property(twin.node) else ""
    arguments = ", ".join(_arguments(twin.node.args))
    if twin.remark:
        # The formatter leaves the remark in the line of the name if the arguments begin below.
        arguments = f"  {twin.remark}\n{arguments},\n"
    head = f"def {twin.node.name}({arguments}) -> {_returned(twin)}:\n"
    text = "\n\n".join(filter(None, (_without_example(twin.node), _example(ours))))
    quoted = f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'
    return decorator + indent(head, INDENT) + indent(quoted, INDENT * 2) + "\n"


def _body(twin: Twin, mirror: Mirror) -> str:
    call = f"self.{mirror.held_as}.{twin.node.name}"
    if not _is_property(twin.node):
        call += f"({', '.join(_passed(twin.node.args))})"
    if isinstance(twin.node, ast.AsyncFunctionDef) and not ROWS_OF.fullmatch(twin.returns):
        call = f"self._loop.run({call})"
    wrapper = "taken" if ROWS_OF.fullmatch(twin.returns) else BLOCKING.get(twin.returns)
    if wrapper is None:
        return f"{call}\n" if twin.returns == "None" else f"return {call}\n"
    if len(call) < LINE_CHARS_MAX - len(f"return {wrapper}(self._loop, )"):
        return f"return {wrapper}(self._loop, {call})\n"
    return f"found = {call}\nreturn {wrapper}(self._loop, found)\n"


def _returned(twin: Twin) -> str:
    if rows := ROWS_OF.fullmatch(twin.returns):
        return f"Iterator[{rows[1]}]"
    return BLOCKING.get(twin.returns) or _spelled(twin.returns)


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Yield the arguments as a signature has them, with types and defaults."""
    plain = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    for each, default in zip(given.args, plain, strict=True):
        yield _argument(each, default)
    if given.kwonlyargs:
        yield "*"
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(each, default)


def _argument(each: ast.arg, default: ast.expr | None) -> str:
    kind = "" if each.annotation is None else f": {_spelled(ast.unparse(each.annotation))}"
    return each.arg + kind + ("" if default is None else f" = {_spelled(ast.unparse(default))}")


def _passed(given: ast.arguments) -> Iterator[str]:
    yield from (each.arg for each in given.args[1:])
    yield from (f"{each.arg}={each.arg}" for each in given.kwonlyargs)


def _spelled(text: str) -> str:
    for name, meaning in SPELLED_OUT.items():
        text = re.sub(rf"\b{name}\b", meaning, text)
    return text


# ---- reading sources


def _without_example(method: Method) -> str:
    return (ast.get_docstring(method) or "").partition(">>>")[0].rstrip()


def _example(method: Method | None) -> str:
    text = "" if method is None else ast.get_docstring(method) or ""
    _, sign, rest = text.partition(">>>")
    return sign + rest


def _methods(source: str, name: str) -> list[Method]:
    """Return the methods of a class in the order of the source."""
    classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    (kind,) = (node for node in classes if node.name == name)
    return [node for node in kind.body if isinstance(node, Method)]


def _is_property(method: Method) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "property" for n in method.decorator_list)


def _first_line(method: Method) -> int:
    return min([method.lineno, *(each.lineno for each in method.decorator_list)])


# ---- names of other modules


def _origins(tree: ast.Module, module: str) -> dict[str, str]:
    """Return how each name of a module is imported by others."""
    dotted = "headwater." + module.removesuffix(".py").replace("/", ".")
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = f"from {dotted} import {node.name}"
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                found[each.asname or each.name] = f"from {node.module} import {each.name}"
    return found


def _with_imports(text: str, origins: Mapping[str, str]) -> str:
    """Return a module with imports of the names that its signatures came to use."""
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    missing = [origins[name] for name in sorted(used - _bound(tree)) if name in origins]
    lines = text.splitlines(keepends=True)
    after = tree.body[0].end_lineno or 0
    return "".join([*lines[:after], "\n", *(f"{each}\n" for each in missing), *lines[after:]])


def _bound(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
    return names


def _tidied(text: str, path: Path) -> str:
    """Return a text as the formatter wants it, with sorted imports and none that is not used."""
    ruff = Path(sys.executable).with_name("ruff")
    for words in (["check", "--fix-only", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        command = [str(ruff), *words, "--stdin-filename", str(path), "-"]
        text = subprocess.run(
            command, input=text, text=True, check=True, capture_output=True
        ).stdout
    return text


def main() -> None:
    for path, text in sync_modules().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(SOURCE.parents[1])}")


if __name__ == "__main__":
    main()
