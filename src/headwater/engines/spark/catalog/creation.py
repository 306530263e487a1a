"""What CREATE TABLE asks for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from py4j.java_gateway import JavaObject

from headwater.engines.spark.catalog.properties import (
    BUCKET_COUNT,
    BUCKET_KEY,
    COMMENT,
    FIXED,
    FORMAT,
    PRIMARY_KEY,
    PROVIDER,
)
from headwater.errors import InvalidTableError

# What Spark adds by itself, or repeats: OPTIONS come with and without the prefix.
_OF_SPARK = frozenset({"owner", "is_managed_location", "table_type", "collation"})
_OPTION_PREFIX = "option."
_PLACES = ("location", "external")


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """Say what a new table is to be."""

    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    bucket_by: tuple[str, ...] = ()
    buckets: int | None = None
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clauses:
    """Hold what is said of a table beside its TBLPROPERTIES."""

    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    bucket_by: tuple[str, ...] = ()
    buckets: int | None = None


def creation_of(properties: Mapping[str, str], clauses: Clauses) -> Creation:
    """Return what clauses and TBLPROPERTIES ask for together, or say what is wrong with them."""
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
    """Return names that have commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_provider(given: Mapping[str, str]) -> None:
    provider = given.get(PROVIDER, FORMAT)
    if provider.lower() != FORMAT:
        raise InvalidTableError(
            f"The tables of this catalog are kept by Headwater, not by {provider}.",
            hint=f"Leave USING {provider} out, or in Python add .format('{FORMAT}').",
        )
    if place := next((name for name in _PLACES if name in given), None):
        raise InvalidTableError(
            f"A table of this catalog cannot have the property '{place}'.", hint="Leave it out."
        )


def _check_said_once(given: Mapping[str, str], clauses: Clauses) -> None:
    for name, said in ((PRIMARY_KEY, clauses.primary_key), (BUCKET_KEY, clauses.bucket_by)):
        # SHOW CREATE TABLE says the key in both ways.
        if said and name in given and names_of(given[name]) != said:
            raise InvalidTableError(
                f"The property '{name}' is {given[name]}, and a clause says {', '.join(said)}.",
                hint="Leave one of them out.",
            )


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdigit():
        raise InvalidTableError(
            f"'{BUCKET_COUNT}' is a whole number, not '{text}'.",
            hint=f"Write TBLPROPERTIES ('{BUCKET_COUNT}' = '4').",
        )
    return int(text)


def read_clauses(transforms: Iterable[JavaObject], constraints: Iterable[JavaObject]) -> Clauses:
    """Read PARTITIONED BY, CLUSTERED BY and PRIMARY KEY, or say what a table cannot have."""
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
                hint="Its one constraint is PRIMARY KEY.",
            )
        key = _columns(constraint.columns())
    return key


def _columns(references: Iterable[JavaObject]) -> tuple[str, ...]:
    return tuple(".".join(reference.fieldNames()) for reference in references)
