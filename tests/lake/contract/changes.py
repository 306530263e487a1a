"""Changes of a table's columns, as an ALTER would make them."""

from dataclasses import replace

from headwater.lake.spi import LakeTableSpec
from headwater.model.schema import Column
from headwater.model.types import DataType, StringType


def with_columns(spec: LakeTableSpec, *columns: Column) -> LakeTableSpec:
    """Return the table with these columns; ids of dropped ones are not used again."""
    highest = max([spec.schema.highest_field_id, *(each.column_id for each in columns)])
    schema = replace(spec.schema, columns=columns, highest_field_id=highest)
    return replace(spec, schema=schema)


def added(spec: LakeTableSpec, name: str, kind: DataType | None = None) -> LakeTableSpec:
    column = Column(
        name=name, type=kind or StringType(), column_id=spec.schema.highest_field_id + 1
    )
    return with_columns(spec, *spec.schema.columns, column)


def renamed(spec: LakeTableSpec, old: str, new: str) -> LakeTableSpec:
    columns = spec.schema.columns
    return with_columns(spec, *(replace(c, name=new) if c.name == old else c for c in columns))


def dropped(spec: LakeTableSpec, name: str) -> LakeTableSpec:
    return with_columns(spec, *(each for each in spec.schema.columns if each.name != name))
