"""What CREATE TABLE and ALTER TABLE ask for, and what Spark SQL shows of a table."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructField, StructType

from headwater.client.sync.table import Table
from headwater.cluster.schema_in import columns_of_struct
from headwater.engines.spark.types import spark_schema
from headwater.errors import InvalidAlterError, InvalidTableError
from headwater.model import Schema, TableDescriptor
from headwater.model.arrow import arrow_schema

# What Spark SQL shows of a table: columns and TBLPROPERTIES.

# The names that the catalog of Apache Fluss uses.
PRIMARY_KEY = "primary.key"
BUCKET_KEY = "bucket.key"
BUCKET_COUNT = "bucket.num"
COMMENT = "comment"
PROVIDER = "provider"
FORMAT = "headwater"
FIXED = frozenset({PRIMARY_KEY, BUCKET_KEY, BUCKET_COUNT, COMMENT, PROVIDER})


def properties_of(descriptor: TableDescriptor) -> dict[str, str]:
    """What SHOW TBLPROPERTIES shows of a table."""
    lists = {PRIMARY_KEY: descriptor.schema.primary_key, BUCKET_KEY: descriptor.bucket_keys}
    shown = {name: ",".join(names) for name, names in lists.items() if names}
    if descriptor.bucket_count is not None:
        shown[BUCKET_COUNT] = str(descriptor.bucket_count)
    if descriptor.comment:
        shown[COMMENT] = descriptor.comment
    return {**descriptor.custom_properties, **descriptor.properties, **shown, PROVIDER: FORMAT}


def read_schema(rows: pa.Schema, *, name: str) -> StructType:
    """The columns of a table as its readers return them, all nullable."""
    return spark_schema(rows, columns=None, path=name)


def table_schema(declared: Schema, *, name: str) -> StructType:
    """The columns of a table as declared, with NOT NULL and comments."""
    read = read_schema(arrow_schema(declared), name=name)
    return StructType(
        [
            StructField(
                each.name,
                each.dataType,
                nullable=column.type.nullable,
                metadata=_metadata(column.comment),
            )
            for each, column in zip(read, declared.columns, strict=True)
        ]
    )


def _metadata(comment: str | None) -> dict[str, str]:
    return {} if comment is None else {"comment": comment}


# CREATE TABLE.

# Added or repeated by Spark: OPTIONS come with and without the prefix.
_OF_SPARK = frozenset({"owner", "is_managed_location", "table_type", "collation"})
_OPTION_PREFIX = "option."
_PLACES = ("location", "external")


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """What a new table should be."""

    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    bucket_by: tuple[str, ...] = ()
    buckets: int | None = None
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clauses:
    """What is said about a table outside its TBLPROPERTIES."""

    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    bucket_by: tuple[str, ...] = ()
    buckets: int | None = None


def creation_of(properties: Mapping[str, str], clauses: Clauses) -> Creation:
    """Combine clauses and TBLPROPERTIES; raises if they are wrong or contradict each other."""
    given = {
        name: text
        for name, text in properties.items()
        if name.lower() not in _OF_SPARK and not name.startswith(_OPTION_PREFIX)
    }
    lower = {name.lower(): text for name, text in given.items()}
    _check_provider(lower)
    _check_said_once(lower, clauses)
    return Creation(
        primary_key=clauses.primary_key or names_of(lower.get(PRIMARY_KEY, "")),
        partition_by=clauses.partition_by,
        bucket_by=clauses.bucket_by or names_of(lower.get(BUCKET_KEY, "")),
        buckets=clauses.buckets or _count(lower.get(BUCKET_COUNT)),
        comment=lower.get(COMMENT),
        options={name: text for name, text in given.items() if name.lower() not in FIXED},
    )


def names_of(text: str) -> tuple[str, ...]:
    """Split comma-separated names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_provider(given: Mapping[str, str]) -> None:
    provider = given.get(PROVIDER, FORMAT)
    if provider.lower() != FORMAT:
        raise InvalidTableError(
            f"Tables of this catalog are stored by Headwater, not by {provider}.",
            hint=f"Remove USING {provider}, or in Python add .format('{FORMAT}').",
        )
    if place := next((name for name in _PLACES if name in given), None):
        raise InvalidTableError(
            f"A table of this catalog cannot have the property '{place}'.", hint=("Remove it.")
        )


def _check_said_once(given: Mapping[str, str], clauses: Clauses) -> None:
    for name, clause in ((PRIMARY_KEY, clauses.primary_key), (BUCKET_KEY, clauses.bucket_by)):
        # SHOW CREATE TABLE prints the key both ways.
        if clause and name in given and names_of(given[name]) != clause:
            raise InvalidTableError(
                f"The property '{name}' is {given[name]}, but a clause says {', '.join(clause)}.",
                hint="Remove one of them.",
            )


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdigit():
        raise InvalidTableError(
            f"'{BUCKET_COUNT}' must be a whole number, not '{text}'.",
            hint=f"Write TBLPROPERTIES ('{BUCKET_COUNT}' = '4').",
        )
    return int(text)


def read_clauses(transforms: Iterable[JavaObject], constraints: Iterable[JavaObject]) -> Clauses:
    """Parse PARTITIONED BY, CLUSTERED BY and PRIMARY KEY; raises for what is not supported."""
    partition_by: list[str] = []
    bucket_by: tuple[str, ...] = ()
    buckets = None
    for transform in transforms:
        match transform.name():
            case "identity":
                partition_by.extend(_columns(transform.references()))
            case "bucket":
                bucket_by = _columns(transform.references())
                buckets = int(transform.arguments()[0].value())
            case name:
                raise InvalidTableError(
                    f"A table cannot be partitioned by {name}(…).",
                    hint="Partition it by columns: PARTITIONED BY (day).",
                )
    return Clauses(
        primary_key=_primary_key(constraints),
        partition_by=tuple(partition_by),
        bucket_by=bucket_by,
        buckets=buckets,
    )


def _primary_key(constraints: Iterable[JavaObject]) -> tuple[str, ...]:
    key: tuple[str, ...] = ()
    for constraint in constraints:
        if constraint.getClass().getSimpleName() != "PrimaryKey":
            raise InvalidTableError(
                f"A table cannot have the constraint {constraint.toDDL()}.",
                hint="The only constraint is PRIMARY KEY.",
            )
        key = _columns(constraint.columns())
    return key


def _columns(references: Iterable[JavaObject]) -> tuple[str, ...]:
    return tuple(".".join(reference.fieldNames()) for reference in references)


# ALTER TABLE.


def alter(table: Table, changes: Iterable[JavaObject]) -> None:
    """Apply changes one after the other; all are validated before the first."""
    read = [_reader(change)(change) for change in changes]
    for apply in read:
        apply(table)


Change = Callable[[Table], None]


def _reader(change: JavaObject) -> Callable[[JavaObject], Change]:
    kind = str(change.getClass().getSimpleName())
    if kind not in _READERS:
        raise InvalidAlterError(
            f"Tables cannot be altered by {_spelled(kind)}.",
            hint=("Supported are ADD, DROP and RENAME COLUMN, and SET and UNSET TBLPROPERTIES."),
        )
    return _READERS[kind]


def _spelled(kind: str) -> str:
    return "".join(f" {each.lower()}" if each.isupper() else each for each in kind).strip()


def _add_column(change: JavaObject) -> Change:
    name = _name(change)
    if change.position() is not None:
        raise InvalidAlterError(
            f"The position of the column '{name}' cannot be chosen.",
            hint="Remove FIRST or AFTER: it becomes the last column.",
        )
    field = {
        "name": name,
        "type": json.loads(change.dataType().json()),
        "nullable": bool(change.isNullable()),
        "metadata": {},
    }
    (column,) = columns_of_struct({"fields": [field]})
    comment = change.comment()
    return lambda table: table.add_column(name, column.type, comment=comment)


def _drop_column(change: JavaObject) -> Change:
    name, missing_ok = _name(change), bool(change.ifExists())

    def drop(table: Table) -> None:
        if not missing_ok or name in table.schema.names:
            table.drop_column(name)

    return drop


def _rename_column(change: JavaObject) -> Change:
    name, new = _name(change), str(change.newName())
    return lambda table: table.rename_column(name, new)


def _set_property(change: JavaObject) -> Change:
    name, text = _property(change), str(change.value())
    return lambda table: table.set_options({name: text})


def _remove_property(change: JavaObject) -> Change:
    name = _property(change)
    return lambda table: table.reset_options(name)


def _property(change: JavaObject) -> str:
    name = str(change.property())
    if name.lower() in FIXED:
        raise InvalidAlterError(
            f"'{name}' of a table cannot be changed.", hint="Create another table."
        )
    return name


def _name(change: JavaObject) -> str:
    names = tuple(change.fieldNames())
    if len(names) > 1:
        raise InvalidAlterError(
            f"{'.'.join(names)} is a field inside a column, which cannot be altered.",
            hint="Add a column of the new type.",
        )
    return str(names[0])


_READERS: Mapping[str, Callable[[JavaObject], Change]] = {
    "AddColumn": _add_column,
    "DeleteColumn": _drop_column,
    "RenameColumn": _rename_column,
    "SetProperty": _set_property,
    "RemoveProperty": _remove_property,
}
