"""Deciding how a lake table has to change to hold a table, or that it cannot."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import LakeTableDiffersError, UnsupportedError
from headwater.lake.paimon.options import ALLOWED
from headwater.lake.paimon.schema import COLUMN_IDS_OPTION, LakeField, LakeSchema
from headwater.lake.paimon.types import paimon_type, type_text
from headwater.lake.table import SYSTEM_COLUMNS, LakeTableSpec
from headwater.model.schema import Column
from headwater.model.type_json import Json

_RENAMING_PREFIX = "__headwater_renaming_"
# Set by the layout of the table, so that nobody else may.
_STRUCTURAL = ("bucket", "bucket-key", "partition.legacy-name", COLUMN_IDS_OPTION)
_DEFAULTS = {
    "file.format": "parquet",
    "metadata.stats-mode": "full",
    "partition.legacy-name": "false",
}
# What our files do not hold: with these on, readers would look for more, or elsewhere.
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
    """Take a field out."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameField:
    """Call a field otherwise."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class AddField:
    """Put a field, which may be null, behind the others, or before a certain one."""

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
    """Return the fields of a new lake table, and its options."""
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
    """Return the options of a new lake table, or say which one cannot be."""
    for key, value in spec.properties.items():
        if key in _STRUCTURAL:
            raise UnsupportedError(
                f"The option 'paimon.{key}' of {spec.path} follows from the table.",
                hint="Remove it from the properties of the table.",
            )
        if key in _UNHELD and value not in _UNHELD[key]:
            raise UnsupportedError(
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
    """Return what to change so that the lake table has the columns of a table.

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
    """Tell whether the lake table has columns, or lost some, that the table does not know of."""
    columns = {column.column_id for column in spec.schema.columns}
    highest = max(spec.schema.highest_field_id, *columns)
    return any(
        (field >= 0 and column > highest) or (field < 0 and column in columns)
        for column, field in ids.items()
    )


def _changes_by_name(spec: LakeTableSpec, held: LakeSchema) -> tuple[Change, ...]:
    names = {column.name for column in spec.schema.columns}
    if foreign := [field.name for field in held.fields if field.name not in names]:
        raise _differs(spec, [f"it has the columns {', '.join(foreign)}, the table has not"])
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
    """Foretell the ids that added fields get: the next ones, and room for what lies in them."""
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
    """Rename by a detour where a new name is still another field's."""
    taken = {field.name for field in held.fields} & set(renames.values())
    for old, new in renames.items():
        yield RenameField(old, f"{_RENAMING_PREFIX}{new}" if taken else new)
    if taken:
        for new in renames.values():
            yield RenameField(f"{_RENAMING_PREFIX}{new}", new)


def _added(column: Column, held: LakeSchema) -> AddField:
    text = paimon_type(column.type, iter(range(2**31)).__next__)
    # Apache Fluss takes the last fields for its own, whatever they are called.
    system = [field.name for field in held.fields if field.name in SYSTEM_COLUMNS]
    before = system[0] if system and column.name not in SYSTEM_COLUMNS else None
    return AddField(column.name, _nullable(text), column.comment, before)


def _nullable(node: Json) -> Json:
    # Older rows have no value for a column that comes later.
    match node:
        case str():
            return node.removesuffix(" NOT NULL")
        case dict() if isinstance(name := node.get("type"), str):
            return {**node, "type": name.removesuffix(" NOT NULL")}
        case _:
            return node


def _check_layout(spec: LakeTableSpec, held: LakeSchema) -> None:
    """Say in which way rows are laid out otherwise."""
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
            faults.append(f"its column '{field.name}' cannot be null")
    if faults:
        raise _differs(spec, faults)


def _check_keys_stay(spec: LakeTableSpec, held: LakeSchema, touched: Sequence[str]) -> None:
    keys = {*held.primary_key, *held.partition_keys, *held.options.get("bucket-key", "").split(",")}
    if moved := sorted(keys & set(touched)):
        raise _differs(spec, [f"its key column {', '.join(moved)} was renamed or dropped"])


def _differs(spec: LakeTableSpec, faults: Sequence[str]) -> LakeTableDiffersError:
    return LakeTableDiffersError(
        f"The lake table {spec.path} is not that of the table: {'; '.join(faults)}.",
        hint="Rename or drop the table in the lake, then it is made anew;"
        " or give the table another name.",
    )


def _named(keys: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(key, key) for key in keys)


def _shown(values: Sequence[str]) -> str:
    return ", ".join(values) or "none"


def _ids_text(ids: Mapping[int, int]) -> str:
    return json.dumps({str(key): value for key, value in ids.items()}, separators=(",", ":"))
