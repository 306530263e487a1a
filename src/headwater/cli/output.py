"""Output of commands: rows and documents as a table that fits the terminal, as JSON or as CSV."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich import cells as rich_cells

from headwater.rows.compute import pc

# The columns of a printed table: widths, alignment, lines.

NULL = "NULL"
GAP = "  "
CUT = "…"
WIDTH_MIN = 6
WIDTH_USUAL = 12
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStyle:
    """What a table is printed for: a terminal of some width, rows that keep coming, colours."""

    width: int | None = None
    streams: bool = False
    styled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Names, widths and alignment of the columns of a table."""

    names: tuple[str, ...]
    widths: tuple[int, ...]
    numeric: tuple[bool, ...]
    look: TableStyle

    @classmethod
    def of(
        cls, schema: pa.Schema, cells: Sequence[Sequence[str | None]], look: TableStyle
    ) -> "Layout":
        """Lay out a table for the first rows, fitted to a width if there is one."""
        names = tuple(map(clean, schema.names))
        numeric = tuple(_is_numeric(field.type) for field in schema)
        # The header of a stream is printed before its later rows are known.
        least = WIDTH_USUAL if look.streams else 0
        wanted = [
            max([least, cell_len(name), *(cell_len(_shown(cell)) for cell in column)])
            for name, column in zip(names, cells, strict=True)
        ]
        widths = wanted if look.width is None else fitted(wanted, numeric, width=look.width)
        return cls(names=names, widths=tuple(widths), numeric=numeric, look=look)

    def head(self) -> str:
        """Format the line of names and the line below it."""
        names = _joined_cells([self._placed(i, name) for i, name in enumerate(self.names)])
        rule = GAP.join("─" * width for width in self.widths)
        return f"{_BOLD}{names}{_PLAIN}\n{rule}\n" if self.look.styled else f"{names}\n{rule}\n"

    def line(self, cells: Sequence[str | None]) -> str:
        """Format one row."""
        placed = [self._placed(i, _shown(cell)) for i, cell in enumerate(cells)]
        if self.look.styled:
            placed = [
                f"{_DIM}{text}{_PLAIN}" if cell is None else text
                for text, cell in zip(placed, cells, strict=True)
            ]
        return _joined_cells(placed) + "\n"

    def _placed(self, column: int, text: str) -> str:
        width, long = self.widths[column], cell_len(text)
        # A truncated number would be another number: it gets the width that it needs.
        if self.numeric[column]:
            return " " * (width - long) + text
        if long > width and self.look.width is not None:
            return rich_cells.set_cell_size(text, width - 1) + CUT
        return text + " " * (width - long)


def fitted(wanted: Sequence[int], kept: Sequence[bool], *, width: int) -> list[int]:
    """Narrow the widest columns until a line fits, or every column is narrow."""
    widths = list(wanted)
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        wide = [i for i, each in enumerate(widths) if each > WIDTH_MIN and not kept[i]]
        if not wide:
            break
        widest = max(wide, key=lambda place: widths[place])
        widths[widest] -= 1
        over -= 1
    return widths


def cell_len(text: str) -> int:
    """Count the terminal cells of a text; most letters take one, some two."""
    return len(text) if text.isascii() else rich_cells.cell_len(text)


def clean(text: str) -> str:
    """Remove characters that move the cursor or change the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _joined_cells(cells: Sequence[str]) -> str:
    return GAP.join(cells).rstrip(" ")


def _shown(cell: str | None) -> str:
    return NULL if cell is None else clean(cell)


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


# Arrow columns as columns of text: plain for tables and CSV, quoted for JSON.

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = r'[\x00-\x1f"\\]'
_CONTROL = r"[\x00-\x1f]"
_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def plain_texts(column: pa.Array) -> pa.StringArray:
    """Format each value as text, a nested one as JSON; nulls stay null."""
    kind = column.type
    if pa.types.is_nested(kind):
        return _nested_texts(column)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hex_texts(column)
    if pa.types.is_timestamp(kind):
        return pc.replace_substring(pc.cast(column, pa.string()), " ", "T", max_replacements=1)
    return pc.cast(column, pa.string())


def json_texts(column: pa.Array) -> pa.StringArray:
    """Format each value as JSON: numbers and booleans as they are, all others quoted."""
    kind = column.type
    if pa.types.is_floating(kind):
        texts = _float_texts(column)
    elif pa.types.is_nested(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = plain_texts(column)
    elif pa.types.is_string(kind):
        texts = _quoted(_escaped(column))
    else:
        texts = _quoted(plain_texts(column))
    return pc.fill_null(texts, "null")


def json_objects(names: list[str], columns: list[pa.Array]) -> pa.StringArray:
    """Format one JSON object for each row."""
    parts: list[pa.StringArray | str] = []
    for name, column in zip(names, columns, strict=True):
        parts += [f"{',' if parts else '{'}{dumps(name)}:", json_texts(column)]
    return pc.binary_join_element_wise(*parts, "}", "") if parts else pa.array([], pa.string())


def dumps(value: object) -> str:
    """Serialise to compact JSON, without escaping non-ASCII letters."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _nested_texts(column: pa.Array) -> pa.StringArray:
    kind = column.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        texts = json_objects(names, [pc.struct_field(column, [i]) for i in range(len(names))])
    elif pa.types.is_map(kind):
        texts = _joined_texts(
            column.offsets, json_objects(["key", "value"], [column.keys, column.items])
        )
    else:
        texts = _joined_texts(column.offsets, json_texts(column.values))
    return pc.if_else(pc.is_valid(column), texts, None)


def _joined_texts(offsets: pa.Int32Array, elements: pa.StringArray) -> pa.StringArray:
    lists = pa.ListArray.from_arrays(offsets, elements)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _hex_texts(column: pa.Array) -> pa.StringArray:
    # One call over all bytes: every byte becomes two digits, so every offset doubles.
    plain = pc.cast(column, pa.binary())
    offsets = _offsets(plain)
    data = plain.buffers()[2]
    digits = b"" if data is None else bytes(data)[offsets[0] : offsets[-1]].hex().encode()
    return pa.StringArray.from_buffers(
        len(plain),
        pa.py_buffer(((offsets - offsets[0]) * 2).astype(np.int32)),
        pa.py_buffer(digits),
        pc.is_valid(plain).buffers()[1],
    )


def _offsets(column: pa.BinaryArray) -> npt.NDArray[np.int64]:
    if not len(column):
        return np.zeros(1, np.int64)
    found = np.frombuffer(column.buffers()[1], np.int32)
    return found[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _float_texts(column: pa.Array) -> pa.StringArray:
    texts = pc.cast(column, pa.string())
    if pc.all(pc.is_finite(column), min_count=0).as_py():
        return texts
    for plain, quoted in _NOT_FINITE.items():
        texts = pc.if_else(pc.equal(texts, plain), quoted, texts)
    return texts


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        for raw, escaped in _ESCAPES.items():
            texts = pc.replace_substring(texts, raw, escaped)
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        texts = pa.array(map(_without_control, texts.to_pylist()), pa.string())
    return texts


def _without_control(text: str | None) -> str | None:
    """Escape the remaining control characters; they are rare."""
    if text is None:
        return None
    return "".join(each if each >= " " else f"\\u{ord(each):04x}" for each in text)


# Rows and documents.

Value: TypeAlias = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"] | None
Document: TypeAlias = Mapping[str, Value]
_CSV_QUOTED = r'[",\r\n]'


class Output(StrEnum):
    """Output formats."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Form(Protocol):
    """Format batches of rows, one after the other."""

    def rows(self, batch: pa.RecordBatch) -> str:
        """Format a batch; the first one comes with the header."""
        ...

    def head(self, schema: pa.Schema) -> str:
        """Format the header if there are no rows."""
        ...


class JsonForm:
    """One JSON object for each row."""

    def rows(self, batch: pa.RecordBatch) -> str:
        """Format one line for each row."""
        return _lines(json_objects(batch.schema.names, batch.columns))

    def head(self, schema: pa.Schema) -> str:  # noqa: ARG002 - rows name their columns
        """Return nothing: every row names its columns."""
        return ""


class CsvForm:
    """A line of names, then a line for each row; null is empty, empty text is `""`."""

    def __init__(self) -> None:
        self._begun = False

    def rows(self, batch: pa.RecordBatch) -> str:
        """Format one record for each row."""
        cells = [_csv_texts(plain_texts(column)) for column in batch.columns]
        return self.head(batch.schema) + _lines(pc.binary_join_element_wise(*cells, ","))

    def head(self, schema: pa.Schema) -> str:
        """Format the column names, once."""
        if self._begun:
            return ""
        self._begun = True
        return ",".join(_csv_texts(pa.array(schema.names, pa.string())).to_pylist()) + "\n"


class TableForm:
    """Aligned columns; the first rows decide their widths."""

    def __init__(self, look: TableStyle) -> None:
        self._look = look
        self._layout: Layout | None = None

    def rows(self, batch: pa.RecordBatch) -> str:
        """Format one line for each row, and two header lines before the first."""
        cells = [plain_texts(column).to_pylist() for column in batch.columns]
        head = self._begin(batch.schema, cells)
        assert self._layout is not None
        return head + "".join(self._layout.line(row) for row in zip(*cells, strict=True))

    def head(self, schema: pa.Schema) -> str:
        """Format the column names, once."""
        return self._begin(schema, [[] for _ in schema])

    def _begin(self, schema: pa.Schema, cells: list[list[str | None]]) -> str:
        if self._layout is not None:
            return ""
        self._layout = Layout.of(schema, cells, self._look)
        return self._layout.head()


def form_of(output: Output, look: TableStyle) -> Form:
    """Make the formatter of an output; tables have a style."""
    match output:
        case Output.JSON:
            return JsonForm()
        case Output.CSV:
            return CsvForm()
        case Output.TABLE:
            return TableForm(look)


def table_of(documents: Iterable[Document], *, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Convert documents to rows; what is not text or number becomes JSON."""
    rows = [{name: _flat(document.get(name)) for name in columns} for document in documents]
    schema = pa.schema(list(columns.items()))
    return pa.Table.from_pylist(rows, schema=schema)


def document_text(document: Document, *, output: Output) -> str:
    """Format one document: as JSON, or a line for each of its fields."""
    if output is Output.JSON:
        return dumps(document) + "\n"
    if output is Output.CSV:
        kinds = dict.fromkeys(document, pa.string())
        cells = {name: None if value is None else _text(value) for name, value in document.items()}
        return "".join(map(CsvForm().rows, table_of([cells], columns=kinds).to_batches()))
    wide = max(map(len, document), default=0)
    return "".join(f"{name:<{wide}}  {_field(value)}\n" for name, value in document.items())


def _flat(value: Value) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, str | int | float | bool) else dumps(value)


def _field(value: Value) -> str:
    return NULL if value is None else clean(_text(value))


def _text(value: Value) -> str:
    return value if isinstance(value, str) else dumps(value)


def _csv_texts(texts: pa.StringArray) -> pa.StringArray:
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    is_plain = pc.and_(
        pc.not_equal(texts, ""), pc.invert(pc.match_substring_regex(texts, _CSV_QUOTED))
    )
    return pc.fill_null(pc.if_else(is_plain, texts, quoted), "")


def _lines(texts: pa.StringArray) -> str:
    # The bytes of the joined texts are contiguous: they are the result.
    lines = pc.binary_join_element_wise(texts, "\n", "")
    return "" if not len(lines) else lines.buffers()[2].to_pybytes().decode()
