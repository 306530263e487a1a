"""A pipeline as values: where rows come from, where they go, and what happens on the way.

`form_text` parses the file that users write; nothing here knows YAML.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.errors import InvalidValueError

RANGE_ROWS_DEFAULT = 50_000
NAME_CHARACTERS_MAX = 100
"""A sink name is made of the pipeline's name, and has a limit."""


class SchemaBehavior(StrEnum):
    """What happens when the columns of a source table change."""

    EXCEPTION = "exception"
    EVOLVE = "evolve"
    TRY_EVOLVE = "try_evolve"
    LENIENT = "lenient"
    IGNORE = "ignore"


class SchemaChange(StrEnum):
    """A kind of change that the sink can be told to take or to leave."""

    ADD_COLUMN = "add.column"
    DROP_COLUMN = "drop.column"
    TRUNCATE_TABLE = "truncate.table"


class ErrorHandling(StrEnum):
    """What happens to a row that cannot be converted."""

    STOP = "stop"
    DEAD_LETTER = "dead-letter"


class IngestStart(StrEnum):
    """Which rows a pipeline begins with."""

    INITIAL = "initial"
    LATEST_OFFSET = "latest-offset"


@dataclass(frozen=True, slots=True, order=True)
class SourceTable:
    """A table of the source database."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


# A dot separates schema and table, so one that belongs to the expression is written `\.`.
_UNESCAPED_DOT = re.compile(r"(?<!\\)\.")
_PARTS = 2


@dataclass(frozen=True, slots=True)
class TablePattern:
    r"""Tables by name, as Flink CDC writes them: `shop.orders`, `shop.\.*`, `shop\d+.orders_\d+`.

    Each side of the dot is a regular expression, in which `\.` means any character.
    """

    text: str
    _compiled: tuple[re.Pattern[str], re.Pattern[str]] = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> "TablePattern":
        """Parse a pattern; raises if it does not name a schema and a table."""
        parts = _UNESCAPED_DOT.split(text)
        if len(parts) != _PARTS or not all(parts):
            raise InvalidValueError(
                f"The pattern '{text}' does not name a schema and a table.",
                hint=r"Write schema.table; within a name, write `\.*` for any characters.",
            )
        try:
            schema, name = (re.compile(part.replace(r"\.", ".")) for part in parts)
        except re.error as fault:
            raise InvalidValueError(f"The pattern '{text}' is wrong: {fault}.") from None
        return cls(text, (schema, name))

    def matches(self, table: SourceTable) -> bool:
        """Tell whether a table is meant."""
        schema, name = self._compiled
        return bool(schema.fullmatch(table.schema) and name.fullmatch(table.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSource:
    """Where a PostgreSQL is, and which of its tables are read."""

    host: str
    port: int
    user: str
    password: str | None = field(default=None, repr=False)
    database: str
    tables: tuple[TablePattern, ...]
    tables_exclude: tuple[TablePattern, ...] = ()
    slot: str
    publication: str
    ssl_mode: str = "prefer"
    startup: IngestStart = IngestStart.INITIAL
    range_rows: int = RANGE_ROWS_DEFAULT
    """Rows of a range that one task reads."""

    def wants(self, table: SourceTable) -> bool:
        """Tell whether a table is read."""
        if any(each.matches(table) for each in self.tables_exclude):
            return False
        return any(each.matches(table) for each in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlussSink:
    """Where rows go."""

    servers: tuple[str, ...]
    buckets: Mapping[str, int] = field(default_factory=dict)
    """Number of buckets by table; the empty name stands for all others."""
    bucket_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    """Options of the tables that are created."""
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the server is reached: options of the client, such as a login."""
    taken: frozenset[SchemaChange] = frozenset(SchemaChange)
    """Changes of columns that tables follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRule:
    """What becomes of the columns of some tables."""

    tables: TablePattern
    columns: tuple[str, ...] | None = None
    """The columns that are taken; None for all."""
    partition_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRule:
    """Where the rows of some tables go."""

    tables: TablePattern
    sink_table: str
    symbol: str | None = None
    """What stands for the name of the source table in the name of the sink table."""

    def target(self, table: SourceTable) -> str:
        """The table that rows of a source table go to."""
        if self.symbol is None:
            return self.sink_table
        return self.sink_table.replace(self.symbol, table.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """The name of a pipeline, and how it deals with what comes."""

    name: str
    parallelism: int = 2
    behavior: SchemaBehavior = SchemaBehavior.LENIENT
    errors: ErrorHandling = ErrorHandling.STOP
    dead_letters: str = "headwater.dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineForm:
    """A whole pipeline, checked."""

    source: PostgresSource
    sink: FlussSink
    transforms: tuple[TransformRule, ...] = ()
    routes: tuple[RouteRule, ...] = ()
    handling: Handling

    def target(self, table: SourceTable) -> str:
        """The table that rows of a source table go to: the first route that fits decides."""
        for rule in self.routes:
            if rule.tables.matches(table):
                return rule.target(table)
        return str(table)

    def transform(self, table: SourceTable) -> TransformRule | None:
        """What becomes of the columns of a table: the first rule that fits decides."""
        return first_that(self.transforms, lambda rule: rule.tables.matches(table))

    def buckets(self, target: str) -> int | None:
        """The number of buckets that a table is created with; None for the server's default."""
        return self.sink.buckets.get(target, self.sink.buckets.get(""))


def first_that(
    rules: Sequence[TransformRule], fits: Callable[[TransformRule], bool]
) -> TransformRule | None:
    """The first rule that fits."""
    return next((rule for rule in rules if fits(rule)), None)
