"""The reference page of the Python API, from the signatures and docstrings in the code."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from textwrap import dedent
from types import ModuleType

import headwater
from headwater import aio
from headwater.cluster import schema_in
from headwater.read import filters
from headwater.read import offsets as log_batch
from headwater.read import offsets as starts
from headwater.write import rows_in

SIGNATURE_CHARS_MAX = 96
# Every public name stands in one of these, or the page cannot be made.
OPENING = ("open", "connect")
CLASSES = ("Client", "Table", "Scan", "View", "Tail", "Writer", "Cursor", "Cursors", "Acls")
VALUES = (
    "Receipt",
    "BucketReceipt",
    "EpochReceipt",
    "LogBatch",
    "ChangeType",
    "Place",
    "CursorState",
    "CursorSummary",
    "PlaceState",
    "MemberState",
    "TableView",
    "ViewedSnapshot",
    "ReadPlan",
    "UnionSplit",
    "Tier",
    "NativePlan",
    "FileGroup",
    "Explanation",
    "Acl",
)
ELSEWHERE = ("ClientSettings", "ServerSettings", "HeadwaterError", "errors", "Offsets")
# Clients are made by `open` and `connect`; what lies below them is not for everybody.
_HIDDEN = frozenset({"__init__", "start", "cluster", "shown", "of", "rows"})
_SHOWN = frozenset({"__iter__", "__aiter__"})


def python_reference() -> Iterator[str]:
    """Yield the parts of the page."""
    _check_complete()
    yield "# Python API"
    yield (
        "`import headwater` has calls that block; [`headwater.aio`](#headwateraio) has the same for"
        " those who await. The examples run in the tests, one after the other: `hw` is a storage,"
        " `directory` a path. How it works inside: [the client](../explanation/client.md)."
    )
    yield "## Open and connect"
    for name in OPENING:
        yield from function_text(getattr(headwater, name), called=f"headwater.{name}")
    for name in CLASSES:
        yield from _class(getattr(headwater, name))
    yield from _arguments()
    yield "## Values"
    for name in VALUES:
        yield from value_text(getattr(headwater, name))
    yield from _elsewhere()
    yield from _aio()


def _check_complete() -> None:
    shown = {*OPENING, *CLASSES, *VALUES, *ELSEWHERE}
    assert shown == set(headwater.__all__), shown ^ set(headwater.__all__)


def _elsewhere() -> Iterator[str]:
    yield "## Settings and errors"
    yield (
        "`ClientSettings` are [here](client-settings.md), `ServerSettings`"
        " [here](server-settings.md). Every error is a `HeadwaterError` of the tree"
        " [`headwater.errors`](errors.md), with `code`, `retriable`, `message` and `hint`."
    )


def _aio() -> Iterator[str]:
    yield "## headwater.aio"
    yield (
        "The same names and arguments. What asks a server is awaited; `scan`, `writer` and `cursor`"
        " only prepare something and are not. An embedded storage runs on the loop of the caller."
    )
    for name in OPENING:
        yield from function_text(getattr(aio, name), called=f"headwater.aio.{name}", is_short=True)
    for name in sorted(set(aio.__all__) - set(OPENING)):
        yield from _class(getattr(aio, name), is_short=True)


# ---- classes and functions


def _class(kind: type, *, is_short: bool = False) -> Iterator[str]:
    yield f"## {kind.__name__}" if not is_short else f"### {kind.__name__}"
    yield from _text(inspect.getdoc(kind))
    members = [
        (name, member)
        for name, member in vars(kind).items()
        if name not in _HIDDEN and (not name.startswith("_") or name in _SHOWN)
    ]
    if is_short:
        yield _code("\n".join(_signature(member, called=name) for name, member in members))
        return
    for name, member in members:
        yield from function_text(member, called=_call(kind, name))


def _call(kind: type, name: str) -> str:
    noun = kind.__name__.lower()
    return f"for … in {noun}" if name == "__iter__" else f"{noun}.{name}"


def function_text(member: object, *, called: str, is_short: bool = False) -> Iterator[str]:
    yield f"### {called}"
    if "…" not in called:
        yield _code(_signature(member, called=called.rpartition(".")[2]))
    parts = list(_text(inspect.getdoc(member)))
    yield from parts[:1] if is_short else parts


def _signature(member: object, *, called: str) -> str:
    """Return how something is called, with its types as they stand in the source."""
    function = member.fget if isinstance(member, property) else member
    assert callable(function)
    node = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    assert node.returns is not None
    returns = _type(node.returns)
    if isinstance(member, property):
        return f"{called}: {returns}"
    arguments = _arguments_of(node.args, vars(sys.modules[function.__module__]))
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    line = f"{prefix} {called}({', '.join(arguments)}) -> {returns}"
    if len(line) <= SIGNATURE_CHARS_MAX:
        return line
    return "\n".join(
        (f"{prefix} {called}(", *(f"    {each}," for each in arguments), f") -> {returns}")
    )


def _arguments_of(given: ast.arguments, names: Mapping[str, object]) -> list[str]:
    """Return each argument with type and default."""
    defaults = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    places = [
        _argument(argument, default, names)
        for argument, default in zip(given.args, defaults, strict=True)
        if argument.arg not in ("self", "cls")
    ]
    keywords = [
        _argument(argument, default, names)
        for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    others = [f"**{_argument(given.kwarg, None, names)}"] if given.kwarg else []
    return [*places, *(("*", *keywords) if keywords else ()), *others]


def _argument(argument: ast.arg, default: ast.expr | None, names: Mapping[str, object]) -> str:
    assert argument.annotation is not None
    shown = f"{argument.arg}: {_type(argument.annotation)}"
    if default is None:
        return shown
    value = _value(default, names)
    # A function has no other value than its name.
    return f"{shown} = {value.__name__ if inspect.isfunction(value) else repr(value)}"


def _value(default: ast.expr, names: Mapping[str, object]) -> object:
    """Return what a default stands for: a name, a name in a module, or a literal."""
    if isinstance(default, ast.Name):
        return names[default.id]
    if isinstance(default, ast.Attribute):
        return getattr(_value(default.value, names), default.attr)
    return ast.literal_eval(default)


def _type(annotation: ast.expr) -> str:
    # A class with a method called `list` has to give the type another name.
    return ast.unparse(annotation).strip("'\"").replace("List[", "list[")


# ---- what arguments are


def _arguments() -> Iterator[str]:
    yield "## What can be given"
    yield "### SchemaLike"
    _, *schemas = _text(schema_in.__doc__)
    yield from schemas
    _, *rows, keys = _text(rows_in.__doc__)
    yield "### RowsLike"
    yield from rows
    yield "### KeysLike"
    yield keys
    yield "### Where"
    yield (
        'A term is a column, an operator and a value, such as `("amount", ">", 10)`, or a column'
        ' with `"is null"` or `"is not null"`. Give one, or a list of terms that must all hold; a'
        " list of lists holds where any of its lists does. The operators are"
        f" {', '.join(f'`{each}`' for each in filters.OPERATORS)}."
    )
    yield "### Start"
    yield f'`"earliest"`, `"latest"`, a `datetime`. {_told(starts, "Start")}'
    yield "### Offsets"
    yield f"A mapping from `Place` to int. {_told(log_batch, 'Offsets')}"


def _told(module: ModuleType, name: str) -> str:
    """Return the text below an assignment in a module."""
    body = ast.parse(inspect.getsource(module)).body
    for node, below in pairwise(body):
        is_named = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
        if is_named and (text := _constant(below)):
            return text
    raise AssertionError(f"{module.__name__} does not say what {name} is")


# ---- values


def value_text(kind: type) -> Iterator[str]:
    """Yield the parts that tell of a value: its fields, and what it works out."""
    yield f"### {kind.__name__}"
    yield from _text(inspect.getdoc(kind))
    node = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(node, ast.ClassDef)
    lines = []
    for field, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign | ast.Assign):
            told = "" if below is None else _constant(below)
            lines.append(f"{ast.unparse(field)}{f'  # {told}' if told else ''}")
    lines += [
        f"{_signature(member, called=name)}  # {_noun(inspect.getdoc(member))}"
        for name, member in vars(kind).items()
        if isinstance(member, property)
    ]
    yield _code("\n".join(lines))


def _noun(docstring: str | None) -> str:
    text = (docstring or "").removeprefix("Return ")
    return text[:1].upper() + text[1:]


def _constant(node: ast.stmt) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return " ".join(str(node.value.value).split()) if is_text else ""


# ---- text


def _text(docstring: str | None) -> Iterator[str]:
    """Yield the paragraphs of a docstring, its examples as a block of a Python prompt."""
    assert docstring, "a public name has no docstring"
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        if paragraph.startswith(">>>"):
            yield f"```pycon\n{paragraph}\n```"
        else:
            yield paragraph


def _code(text: str) -> str:
    # Tagged so that it is coloured as Python, and not run as a snippet of a page.
    return f"```py\n{text}\n```"
