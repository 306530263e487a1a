"""How the rows of a table stand in the data files of its lake table."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pypaimon.schema.data_types import DataTypeParser, PyarrowFieldParser

from headwater.lake.paimon.schema import LakeSchema
from headwater.lake.paimon.types import file_type, to_file_rows
from headwater.lake.table import LakeTableSpec

KEY_PREFIX = "_KEY_"
SEQUENCE = "_SEQUENCE_NUMBER"
KIND = "_VALUE_KIND"
INSERTED, DELETED = 0, 3
_SYSTEM_FIELDS = (
    pa.field(SEQUENCE, pa.int64(), nullable=False),
    pa.field(KIND, pa.int8(), nullable=False),
)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Say which column of the rows becomes which field of the files."""

    schema_id: int
    fields: pa.Schema
    """The fields of the lake table, with the types of its files."""
    sources: tuple[int | None, ...]
    """For each field the position of its column; None for one that the table does not know."""
    keys: tuple[str, ...]
    """The fields that tell the rows of one partition apart."""

    @classmethod
    def of(cls, spec: LakeTableSpec, schema: LakeSchema) -> "FileLayout":
        """Lay out the rows of a table under a schema of its lake table."""
        positions = {
            field.field_id: position
            for position, column in enumerate(spec.schema.columns)
            if (field := schema.field_of(column)) is not None
        }
        sources = tuple(positions.get(field.field_id) for field in schema.fields)
        fields = [
            pa.field(
                field.name,
                _foreign_type(field.type)
                if source is None
                else file_type(spec.schema.columns[source].type),
            )
            for field, source in zip(schema.fields, sources, strict=True)
        ]
        return cls(schema.schema_id, pa.schema(fields), sources, schema.row_keys)

    @property
    def key_types(self) -> list[pa.DataType]:
        """Return the types of the key fields."""
        return [self.fields.field(key).type for key in self.keys]

    @property
    def keyed_fields(self) -> pa.Schema:
        """Return the fields of files with rows by key: keys, what orders them, and values."""
        keys = [
            pa.field(f"{KEY_PREFIX}{key}", self.fields.field(key).type, nullable=False)
            for key in self.keys
        ]
        return pa.schema([*keys, *_SYSTEM_FIELDS, *self.fields])

    def values(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the table as files hold them."""
        columns = [
            pa.nulls(rows.num_rows, field.type) if source is None else rows.column(source)
            for field, source in zip(self.fields, self.sources, strict=True)
        ]
        names = self.fields.names
        return to_file_rows(pa.RecordBatch.from_arrays(columns, names=names), self.fields)

    def keyed(self, values: pa.Table, sequences: pa.Array, kinds: pa.Array) -> pa.Table:
        """Return values as files with rows by key hold them."""
        keys = [values.column(key) for key in self.keys]
        return pa.Table.from_arrays(
            [*keys, sequences, kinds, *values.columns], schema=self.keyed_fields
        )


def key_columns(rows: pa.Table, keys: Sequence[str]) -> list[pa.ChunkedArray]:
    """Return the columns that tell rows apart."""
    return [rows.column(key) for key in keys]


def _foreign_type(node: object) -> pa.DataType:
    return PyarrowFieldParser.from_paimon_type(DataTypeParser.parse_data_type(node))
