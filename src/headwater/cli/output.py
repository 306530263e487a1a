"""What commands print: rows and documents as a table, as JSON or as CSV."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cli.layout import NULL, Layout, Look, clean
from headwater.cli.texts import dumps, json_objects, plain_texts

Value: TypeAlias = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"] | None
Document: TypeAlias = Mapping[str, Value]
_CSV_QUOTED = r'[",\r\n]'


class Output(StrEnum):
    """Name the forms in which results are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Form(Protocol):
    """Turn batches of rows into text, one after the other."""

    def rows(self, batch: pa.RecordBatch) -> str:
        """Return the text of a batch, behind the head before the first one."""
        ...

    def head(self, schema: pa.Schema) -> str:
        """Return what stands above rows where there are none."""
        ...


class JsonForm:
    """Write one JSON object for each row."""

    def rows(self, batch: pa.RecordBatch) -> str:
        """Return one line for each row."""
        return _lines(json_objects(batch.schema.names, batch.columns))

    def head(self, schema: pa.Schema) -> str:  # noqa: ARG002 - rows name their columns
        """Return nothing: every row names its columns."""
        return ""


class CsvForm:
    """Write a line of names, then a line for each row; null is nothing, no text is `""`."""

    def __init__(self) -> None:
        self._begun = False

    def rows(self, batch: pa.RecordBatch) -> str:
        """Return one record for each row."""
        cells = [_csv_texts(plain_texts(column)) for column in batch.columns]
        return self.head(batch.schema) + _lines(pc.binary_join_element_wise(*cells, ","))

    def head(self, schema: pa.Schema) -> str:
        """Return the names of the columns, once."""
        if self._begun:
            return ""
        self._begun = True
        return ",".join(_csv_texts(pa.array(schema.names, pa.string())).to_pylist()) + "\n"


class TableForm:
    """Write columns side by side; the first rows decide how wide they are."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._layout: Layout | None = None

    def rows(self, batch: pa.RecordBatch) -> str:
        """Return one line for each row, and two lines of head above the first."""
        cells = [plain_texts(column).to_pylist() for column in batch.columns]
        head = self._begin(batch.schema, cells)
        assert self._layout is not None
        return head + "".join(self._layout.line(row) for row in zip(*cells, strict=True))

    def head(self, schema: pa.Schema) -> str:
        """Return the names of the columns, once."""
        return self._begin(schema, [[] for _ in schema])

    def _begin(self, schema: pa.Schema, cells: list[list[str | None]]) -> str:
        if self._layout is not None:
            return ""
        self._layout = Layout.of(schema, cells, self._look)
        return self._layout.head()


def form_of(output: Output, look: Look) -> Form:
    """Return the form that an output asks for; tables have a look."""
    match output:
        case Output.JSON:
            return JsonForm()
        case Output.CSV:
            return CsvForm()
        case Output.TABLE:
            return TableForm(look)


def table_of(documents: Iterable[Document], *, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return documents as rows; what is not text or number is shown as JSON."""
    rows = [{name: _flat(document.get(name)) for name in columns} for document in documents]
    schema = pa.schema(list(columns.items()))
    return pa.Table.from_pylist(rows, schema=schema)


def document_text(document: Document, *, output: Output) -> str:
    """Return one thing: a JSON document, or a line for each of its fields."""
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
    # The bytes of the joined texts lie one behind the other: they are the answer.
    lines = pc.binary_join_element_wise(texts, "\n", "")
    return "" if not len(lines) else lines.buffers()[2].to_pybytes().decode()
