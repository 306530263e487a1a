"""The Paimon table of a table: its schema, file columns, options, and how they evolve."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pypaimon.schema.data_types import DataTypeParser, PyarrowFieldParser

from headwater import errors
from headwater.lake.paimon.options import ALLOWED
from headwater.lake.paimon.types import file_type, paimon_type, to_file_rows, type_text
from headwater.lake.spi import SYSTEM_COLUMNS, LakeTableSpec
from headwater.model import Column
from headwater.model.type_json import Json, int_of, list_of, object_of, text_of

# The schema of a lake table from its schema file, and which column is which field.

COLUMN_IDS_OPTION = "headwater.column-ids"
"""Which column of the table became which field: JSON, field ids by column ids."""


@dataclass(frozen=True, slots=True)
class LakeField:
    """One field of a lake table; the id stays when the name changes."""

    field_id: int
    name: str
    type: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSchema:
    """A lake table under one version of its schema."""

    schema_id: int
    fields: tuple[LakeField, ...]
    partition_keys: tuple[str, ...]
    primary_key: tuple[str, ...]
    options: Mapping[str, str]
    highest_field_id: int
    """The last id given to a field, of this schema or of an earlier one."""

    @property
    def column_ids(self) -> Mapping[int, int] | None:
        """Field ids by column ids; None for a table that others created.

        A dropped column keeps its field id with the bits inverted, a negative number, so that
        nobody adds it again and older snapshots still find its values.
        """
        text = self.options.get(COLUMN_IDS_OPTION)
        if text is None:
            return None
        try:
            return {int(column): int(field) for column, field in json.loads(text).items()}
        except (ValueError, AttributeError, TypeError) as fault:
            raise errors.CorruptFileError(
                f"The option '{COLUMN_IDS_OPTION}' of a lake table cannot be read: {text}."
            ) from fault

    def field_of(self, column: Column) -> LakeField | None:
        """The field that holds a column of the table; None if it has none."""
        field_id = self.field_id_of(column)
        return None if field_id is None else self.field(field_id)

    def field_id_of(self, column: Column) -> int | None:
        """Id of the field that holds a column, or held it until it was dropped."""
        ids = self.column_ids
        if ids is not None:
            found = ids.get(column.column_id)
            return ~found if found is not None and found < 0 else found
        return next((each.field_id for each in self.fields if each.name == column.name), None)

    def field(self, field_id: int) -> LakeField | None:
        """A field by its id; None if this schema has no such field."""
        return next((each for each in self.fields if each.field_id == field_id), None)

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The primary key without partition columns: it identifies rows within a partition."""
        return tuple(name for name in self.primary_key if name not in self.partition_keys)


def schema_from_json(text: str | bytes) -> LakeSchema:
    """Decode a schema file, or raise CorruptFileError."""
    try:
        node = object_of(json.loads(text), what="schema")
        options = node.get("options") or {}
        return LakeSchema(
            schema_id=int_of(node, "id"),
            fields=tuple(_field(each) for each in list_of(node, "fields")),
            partition_keys=tuple(map(str, list_of(node, "partitionKeys"))),
            primary_key=tuple(map(str, list_of(node, "primaryKeys"))),
            highest_field_id=int_of(node, "highestFieldId"),
            options={key: str(value) for key, value in object_of(options, what="options").items()},
        )
    except (ValueError, errors.InvalidTableError) as fault:
        raise errors.CorruptFileError(
            f"A schema of a lake table cannot be read: {fault}."
        ) from fault


def _field(node: Json) -> LakeField:
    members = object_of(node, what="field")
    return LakeField(int_of(members, "id"), text_of(members, "name"), members.get("type"))


# How a table's rows appear in data files of its lake table.

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
    """Which column of the rows becomes which field of the files."""

    schema_id: int
    fields: pa.Schema
    """The fields of the lake table, with the types of its files."""
    sources: tuple[int | None, ...]
    """Position of each field among the table's columns; None if it has no column."""
    keys: tuple[str, ...]
    """The fields that identify rows within one partition."""

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
        """Types of the key fields."""
        return [self.fields.field(key).type for key in self.keys]

    @property
    def keyed_fields(self) -> pa.Schema:
        """The fields of keyed files: keys, what orders them, and values."""
        keys = [
            pa.field(f"{KEY_PREFIX}{key}", self.fields.field(key).type, nullable=False)
            for key in self.keys
        ]
        return pa.schema([*keys, *_SYSTEM_FIELDS, *self.fields])

    def values(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows of the table to the columns of data files."""
        columns = [
            pa.nulls(rows.num_rows, field.type) if source is None else rows.column(source)
            for field, source in zip(self.fields, self.sources, strict=True)
        ]
        names = self.fields.names
        return to_file_rows(pa.RecordBatch.from_arrays(columns, names=names), self.fields)

    def keyed(self, values: pa.Table, sequences: pa.Array, kinds: pa.Array) -> pa.Table:
        """Convert values to the columns of keyed files."""
        keys = [values.column(key) for key in self.keys]
        return pa.Table.from_arrays(
            [*keys, sequences, kinds, *values.columns], schema=self.keyed_fields
        )


def key_columns(rows: pa.Table, keys: Sequence[str]) -> list[pa.ChunkedArray]:
    """The columns that identify rows."""
    return [rows.column(key) for key in keys]


def _foreign_type(node: object) -> pa.DataType:
    return PyarrowFieldParser.from_paimon_type(DataTypeParser.parse_data_type(node))


# How a lake table has to change to hold a table: decided, not done.

_RENAMING_PREFIX = "__headwater_renaming_"
# Derived from the table, so nobody else may set these.
_STRUCTURAL = ("bucket", "bucket-key", "partition.legacy-name", COLUMN_IDS_OPTION)
_DEFAULTS = {
    "file.format": "parquet",
    "metadata.stats-mode": "full",
    "partition.legacy-name": "false",
}
# Our files do not support these: readers would look for more, or elsewhere.
_UNHELD = {
    "file.format": ("parquet",),
    "merge-engine": ("deduplicate",),
    "deletion-vectors.enabled": ("false",),
    "row-tracking.enabled": ("false",),
    "data-evolution.enabled": ("false",),
    "primary-key.nullable": ("false",),
    "sequence.field": (),
    "rowkind.field": (),
    "data-file.external-paths": (),
}


@dataclass(frozen=True, slots=True)
class DropField:
    """Drop a field."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameField:
    """Rename a field."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class AddField:
    """Add a nullable field, at the end or before a certain one."""

    name: str
    type: Json
    comment: str | None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set an option of the table."""

    key: str
    value: str


Change = DropField | RenameField | AddField | SetOption


def new_fields(spec: LakeTableSpec) -> tuple[list[LakeField], dict[str, str]]:
    """The fields of a new lake table, and its options."""
    ids = iter(range(2**31))
    fields = [
        LakeField(next(ids), column.name, paimon_type(column.type, ids.__next__))
        for column in spec.schema.columns
    ]
    column_ids = {
        column.column_id: field.field_id
        for column, field in zip(spec.schema.columns, fields, strict=True)
    }
    return fields, {**table_options(spec), COLUMN_IDS_OPTION: _ids_text(column_ids)}


def table_options(spec: LakeTableSpec) -> dict[str, str]:
    """The options of a new lake table; raises for one that is not allowed."""
    for key, value in spec.properties.items():
        if key in _STRUCTURAL:
            raise errors.UnsupportedError(
                f"The option 'paimon.{key}' of {spec.path} cannot be set: it follows from "
                "the table.",
                hint="Remove it from the properties of the table.",
            )
        if key in _UNHELD and value not in _UNHELD[key]:
            raise errors.UnsupportedError(
                f"Tables with the Paimon option {key}={value} cannot be tiered.",
                hint=f"Remove 'paimon.{key}' from the properties of {spec.path}.",
            )
    ALLOWED.check(spec.properties)
    return {**_DEFAULTS, **spec.properties, **_layout(spec)}


def _layout(spec: LakeTableSpec) -> dict[str, str]:
    if not (spec.bucket_keys or spec.is_keyed):
        return {"bucket": "-1"}
    keys = spec.bucket_keys or spec.row_keys
    return {"bucket": str(spec.bucket_count), "bucket-key": ",".join(keys)}


def plan_changes(spec: LakeTableSpec, held: LakeSchema) -> tuple[Change, ...]:
    """Decide what to change so that the lake table has the columns of a table.

    Raises `LakeTableDiffersError` for what cannot be changed.
    """
    ids = held.column_ids
    if ids is None:
        _check_layout(spec, held)
        _check_types(spec, held)
        return _changes_by_name(spec, held)
    if _is_later(spec, ids):
        return ()
    _check_layout(spec, held)
    _check_types(spec, held)
    return _changes_by_id(spec, held, ids)


def _is_later(spec: LakeTableSpec, ids: Mapping[int, int]) -> bool:
    """Tell whether the lake table has added or dropped columns that the spec does not know."""
    columns = {column.column_id for column in spec.schema.columns}
    highest = max(spec.schema.highest_field_id, *columns)
    return any(
        (field >= 0 and column > highest) or (field < 0 and column in columns)
        for column, field in ids.items()
    )


def _changes_by_name(spec: LakeTableSpec, held: LakeSchema) -> tuple[Change, ...]:
    names = {column.name for column in spec.schema.columns}
    if foreign := [field.name for field in held.fields if field.name not in names]:
        raise _differs(
            spec, [(f"it has the columns {', '.join(foreign)}, which the table does not have")]
        )
    missing = [column for column in spec.schema.columns if held.field_of(column) is None]
    return tuple(_added(column, held) for column in missing)


def _changes_by_id(
    spec: LakeTableSpec, held: LakeSchema, ids: Mapping[int, int]
) -> tuple[Change, ...]:
    wanted = {column.column_id for column in spec.schema.columns}
    fields = {field.field_id: field for field in held.fields}
    dropped = [
        DropField(fields[field].name)
        for column, field in ids.items()
        if column not in wanted and field in fields
    ]
    kept = [(column, held.field_of(column)) for column in spec.schema.columns]
    renames = {
        field.name: column.name
        for column, field in kept
        if field is not None and field.name != column.name
    }
    _check_keys_stay(spec, held, [*renames, *(each.name for each in dropped)])
    added = [_added(column, held) for column, field in kept if field is None]
    changes: list[Change] = [*dropped, *_renamed(renames, held), *added]
    if not changes:
        return ()
    return (*changes, SetOption(COLUMN_IDS_OPTION, _ids_text(_ids_with(spec, held, ids))))


def _ids_with(spec: LakeTableSpec, held: LakeSchema, ids: Mapping[int, int]) -> Mapping[int, int]:
    """Predict the ids that added fields get: the next ones, plus one for each field inside."""
    wanted = [column.column_id for column in spec.schema.columns]
    result = {
        column: ~field if field >= 0 and column not in wanted else field
        for column, field in ids.items()
    }
    highest = held.highest_field_id
    for column in spec.schema.columns:
        if column.column_id in ids:
            continue
        highest += 1
        result[column.column_id] = highest
        highest += sum(1 for _ in _nested_fields(paimon_type(column.type, lambda: 0)))
    return result


def _nested_fields(node: Json) -> Iterator[Json]:
    match node:
        case {"fields": [*fields]}:
            for each in fields:
                yield each
                yield from _nested_fields(each)
        case dict():
            for key in ("type", "element", "key", "value"):
                yield from _nested_fields(node.get(key))
        case _:
            return


def _renamed(renames: Mapping[str, str], held: LakeSchema) -> Iterator[RenameField]:
    """Rename through a temporary name if the new name is still another field's."""
    taken = {field.name for field in held.fields} & set(renames.values())
    for old, new in renames.items():
        yield RenameField(old, f"{_RENAMING_PREFIX}{new}" if taken else new)
    if taken:
        for new in renames.values():
            yield RenameField(f"{_RENAMING_PREFIX}{new}", new)


def _added(column: Column, held: LakeSchema) -> AddField:
    text = paimon_type(column.type, iter(range(2**31)).__next__)
    # Apache Fluss takes the last fields for its own, whatever their names.
    system = [field.name for field in held.fields if field.name in SYSTEM_COLUMNS]
    before = system[0] if system and column.name not in SYSTEM_COLUMNS else None
    return AddField(column.name, _nullable(text), column.comment, before)


def _nullable(node: Json) -> Json:
    # Older rows have no value for a column that is added later.
    match node:
        case str():
            return node.removesuffix(" NOT NULL")
        case dict() if isinstance(name := node.get("type"), str):
            return {**node, "type": name.removesuffix(" NOT NULL")}
        case _:
            return node


def _check_layout(spec: LakeTableSpec, held: LakeSchema) -> None:
    """Raise if rows are laid out differently."""
    names = {
        column.name: field.name
        for column in spec.schema.columns
        if (field := held.field_of(column)) is not None
    }
    faults = [
        f"its {what} is {_shown(there)}, not {_shown(wanted)}"
        for what, there, wanted in (
            ("primary key", held.primary_key, _named(spec.schema.primary_key, names)),
            ("partition key", held.partition_keys, _named(spec.partition_keys, names)),
            *_bucket_layouts(spec, held, names),
        )
        if tuple(there) != tuple(wanted)
    ]
    faults += [
        f"it has the system column '{field.name}' of an older version of Apache Fluss"
        for field in held.fields
        if field.name in SYSTEM_COLUMNS and field.name not in spec.schema.names
    ]
    faults += [
        f"its option {key} is {held.options[key]}"
        for key, allowed in _UNHELD.items()
        if key in held.options and held.options[key] not in allowed
    ]
    if faults:
        raise _differs(spec, faults)


def _bucket_layouts(
    spec: LakeTableSpec, held: LakeSchema, names: Mapping[str, str]
) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    layout = _layout(spec)
    wanted_keys = _named(tuple(layout.get("bucket-key", "").split(",")), names)
    default = ",".join(held.row_keys)
    keys = tuple(held.options.get("bucket-key", default).split(","))
    return [
        ("number of buckets", (held.options.get("bucket", "-1"),), (layout["bucket"],)),
        ("bucket key", keys, wanted_keys),
    ]


def _check_types(spec: LakeTableSpec, held: LakeSchema) -> None:
    faults = []
    for column in spec.schema.columns:
        if (field := held.field_of(column)) is None:
            continue
        wanted = paimon_type(column.type, iter(range(2**31)).__next__)
        there = type_text(field.type, with_nullability=False)
        if there != type_text(wanted, with_nullability=False):
            faults.append(f"its column '{field.name}' is {there}, not {column.type}")
        elif column.type.nullable and type_text(field.type).endswith(" NOT NULL"):
            faults.append(f"its column '{field.name}' is NOT NULL")
    if faults:
        raise _differs(spec, faults)


def _check_keys_stay(spec: LakeTableSpec, held: LakeSchema, touched: Sequence[str]) -> None:
    keys = {*held.primary_key, *held.partition_keys, *held.options.get("bucket-key", "").split(",")}
    if moved := sorted(keys & set(touched)):
        raise _differs(spec, [f"its key column {', '.join(moved)} was renamed or dropped"])


def _differs(spec: LakeTableSpec, faults: Sequence[str]) -> errors.LakeTableDiffersError:
    return errors.LakeTableDiffersError(
        f"The lake table {spec.path} does not match the table: {'; '.join(faults)}.",
        hint=(
            "Rename or drop the table in the lake, so that it is created again; or "
            "rename the table."
        ),
    )


def _named(keys: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(key, key) for key in keys)


def _shown(values: Sequence[str]) -> str:
    return ", ".join(values) or "none"


def _ids_text(ids: Mapping[int, int]) -> str:
    return json.dumps({str(key): value for key, value in ids.items()}, separators=(",", ":"))
