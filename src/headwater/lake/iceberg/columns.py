"""How the rows of a table stand in data files of its Iceberg table."""

from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import InvalidValueError, LakeRewrittenError
from headwater.lake.iceberg.arrays import fitted
from headwater.lake.iceberg.types import parquet_schema
from headwater.lake.iceberg.values import Place
from headwater.lake.table import LakeTableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """Match the columns of a table with the fields of data files."""

    schema: pa.Schema
    """That of data files: every field of the Iceberg table, with its id."""
    sources: tuple[int | None, ...]
    """The position of each field among the columns of the table; None if it is none of them."""

    @classmethod
    def of(cls, place: Place, spec: LakeTableSpec) -> "FileColumns":
        """Match columns by their ids."""
        positions: dict[int, int] = {}
        for at, column in enumerate(spec.schema.columns):
            if column.column_id not in place.ids.fields:
                raise LakeRewrittenError(
                    f"The Iceberg table of {spec.path} has no column '{column.name}' any more."
                )
            positions[place.ids.fields[column.column_id]] = at
        fields = place.schema.fields
        return cls(
            schema=parquet_schema(fields),
            sources=tuple(positions.get(field.field_id) for field in fields),
        )

    def fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they stand in data files."""
        columns = [
            pa.nulls(rows.num_rows, field.type)
            if source is None
            else _checked(rows.column(source), field)
            for field, source in zip(self.schema, self.sources, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _checked(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return fitted(values, field.type)
    except pa.ArrowInvalid as fault:
        raise InvalidValueError(
            f"The column '{field.name}' holds a value that Iceberg cannot hold: {fault}"
        ) from fault
