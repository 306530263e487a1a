"""The options of a read, as one value that travels to its tasks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from headwater.config.values import Option
from headwater.engines.spark import options as spark_options
from headwater.engines.spark.clients import SparkConnection
from headwater.errors import InvalidOptionError
from headwater.read.filters import Where
from headwater.read.virtual import VirtualKind, split_virtual

# Internal: how a read that Spark shares with us says which splits are ours.
PLANNED = "__headwater.planned"
_MS = 1000
_SUFFIX = f"${VirtualKind.CHANGELOG}"
# The mode that each of these options belongs to.
_STARTS: Mapping[spark_options.StartupMode, Option[object]] = {
    spark_options.StartupMode.TIMESTAMP: spark_options.STARTUP_TIMESTAMP,
    spark_options.StartupMode.OFFSETS: spark_options.STARTUP_OFFSETS,
    spark_options.StartupMode.CURSOR: spark_options.STARTUP_CURSOR,
}
# Each of these options sets the position of a batch.
_POSITIONS: tuple[Option[object], ...] = (
    spark_options.TOKEN,
    spark_options.SNAPSHOT_ID,
    spark_options.TIMESTAMP_MILLIS,
    spark_options.OFFSETS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakePosition:
    """At which position a table with a lake is read, and which part of it."""

    mode: spark_options.ScanMode = spark_options.ScanMode.UNION
    token: str | None = None
    snapshot_id: int | None = None
    as_of_ms: int | None = None
    ends: Mapping[str, int] | None = None
    """End offset of each bucket, by bucket name."""

    @property
    def needs_view(self) -> bool:
        """Tell whether this needs a view of lake and log, whatever the table is."""
        named = (self.token, self.snapshot_id, self.ends)
        return self.mode is spark_options.ScanMode.LAKE or any(each is not None for each in named)

    @property
    def is_latest(self) -> bool:
        """Tell whether rows are read as they are now."""
        return self.as_of_ms is None and not self.needs_view


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a read."""

    connection: SparkConnection
    table: str
    """The path, with the suffix of a virtual table if its changes are read."""
    columns: tuple[str, ...] | None = None
    where: Where | None = None
    limit: int | None = None
    partitions: tuple[str, ...] | None = None
    mode: spark_options.StartupMode = spark_options.StartupMode.FULL
    timestamp_ms: int | None = None
    offsets: Mapping[str, int] | None = None
    cursor: str | None = None
    position: LakePosition = LakePosition()
    split_rows: int = 2_000_000
    discovery_s: float = 10.0
    rows_max: int | None = None
    bytes_max: int | None = None
    fails_on_loss: bool = True
    truncates_nanoseconds: bool = False
    planned: str | None = None
    """Splits that were planned before, in encoded form."""

    @property
    def path(self) -> str:
        """Path of the table itself."""
        return split_virtual(self.table)[0]

    @property
    def virtual(self) -> VirtualKind | None:
        """Form in which changes are read, if they are."""
        return split_virtual(self.table)[1]

    @property
    def as_of_ms(self) -> int | None:
        """The moment of the rows, if one is given."""
        return self.position.as_of_ms

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Parse a user's options; raises if something is wrong."""
        given = _with_group(spark_options.given_options(options, spark_options.SOURCE_OPTIONS))
        _check_start(given)
        _check_position(given)
        return cls(
            connection=SparkConnection.of(given),
            table=_table(given),
            columns=spark_options.COLUMNS.of(given),
            where=read_where(given),
            limit=spark_options.LIMIT.of(given),
            partitions=spark_options.PARTITIONS.of(given),
            mode=spark_options.STARTUP_MODE.required(given),
            timestamp_ms=spark_options.STARTUP_TIMESTAMP.of(given),
            offsets=spark_options.STARTUP_OFFSETS.of(given),
            cursor=spark_options.STARTUP_CURSOR.of(given),
            position=LakePosition(
                mode=spark_options.SCAN_MODE.required(given),
                token=spark_options.TOKEN.of(given),
                snapshot_id=spark_options.SNAPSHOT_ID.of(given),
                as_of_ms=spark_options.TIMESTAMP_MILLIS.of(given),
                ends=spark_options.OFFSETS.of(given),
            ),
            split_rows=spark_options.SPLIT_ROWS.required(given),
            discovery_s=spark_options.DISCOVERY.required(given) / _MS,
            rows_max=spark_options.MAX_ROWS.of(given),
            bytes_max=spark_options.MAX_BYTES.of(given),
            fails_on_loss=spark_options.FAIL_ON_DATA_LOSS.required(given),
            truncates_nanoseconds=spark_options.NANOSECONDS.required(given)
            is spark_options.Nanoseconds.TRUNCATE,
            planned=_planned(options),
        )


def _with_group(given: Mapping[str, str]) -> dict[str, str]:
    """Read a group id of Kafka as the cursor to begin at."""
    name, mode = spark_options.STARTUP_CURSOR.name, spark_options.STARTUP_MODE.name
    group = spark_options.GROUP_ID.of(given)
    if group is None:
        return dict(given)
    if given.get(name, group) != group:
        raise InvalidOptionError(
            f"'{spark_options.GROUP_ID.name}' is {group}, but '{name}' is {given[name]}.",
            hint="Leave one of them out.",
        )
    rest = {each: given[each] for each in given if each != spark_options.GROUP_ID.name}
    return {mode: str(spark_options.StartupMode.CURSOR), **rest, name: group}


def position_option(position: LakePosition) -> str | None:
    """Name of the option that sets the position of a batch, if one does."""
    given = {
        spark_options.TOKEN.name: position.token,
        spark_options.SNAPSHOT_ID.name: position.snapshot_id,
        spark_options.TIMESTAMP_MILLIS.name: position.as_of_ms,
        spark_options.OFFSETS.name: position.ends,
        spark_options.SCAN_MODE.name: position.mode
        if position.mode is spark_options.ScanMode.LAKE
        else None,
    }
    return next((name for name, value in given.items() if value is not None), None)


def check_batch(options: SourceOptions) -> None:
    """Raise for options that only streams use: a batch starting at 'latest' would read all rows."""
    given = {
        spark_options.STARTUP_MODE.name: None
        if options.mode is spark_options.StartupMode.FULL
        else options.mode,
        spark_options.MAX_ROWS.name: options.rows_max,
        spark_options.MAX_BYTES.name: options.bytes_max,
    }
    if named := next((name for name, value in given.items() if value is not None), None):
        raise InvalidOptionError(
            f"'{named}' is for streams, but this is a batch read.",
            hint=f"Use '{spark_options.OFFSETS.name}' or '{spark_options.TIMESTAMP_MILLIS.name}'"
            f" for a position, '{spark_options.LIMIT.name}' or '{spark_options.FILTER.name}' for"
            " fewer rows, or spark.readStream.",
        )


def _planned(options: Mapping[str, str]) -> str | None:
    return next((text for name, text in options.items() if name.lower() == PLANNED), None)


def _table(given: Mapping[str, str]) -> str:
    table = required_table(given)
    if spark_options.CHANGELOG.required(given) and split_virtual(table)[1] is None:
        return f"{table}{_SUFFIX}"
    return table


def required_table(given: Mapping[str, str]) -> str:
    """The table's name; raises with an example if there is none."""
    table = spark_options.TABLE.of(given)
    if table is None:
        raise InvalidOptionError(
            "No table is given.", hint="Add .option('table', 'database.table')."
        )
    return table


def read_where(given: Mapping[str, str]) -> Where | None:
    """Parse a filter in JSON."""
    text = spark_options.FILTER.of(given)
    if text is None:
        return None
    try:
        where: Where = json.loads(text)
    except ValueError as fault:
        raise InvalidOptionError(
            f"'{spark_options.FILTER.name}' is not JSON: {fault}.",
            hint='Write it as [["amount", ">", 10], ["city", "in", ["Bern", "Oslo"]]].',
        ) from fault
    return where


def _check_start(given: Mapping[str, str]) -> None:
    mode = spark_options.STARTUP_MODE.required(given)
    for needed_by, option in _STARTS.items():
        if mode is needed_by and option.name not in given:
            raise InvalidOptionError(
                f"'{spark_options.STARTUP_MODE.name}' is {mode}, but '{option.name}' is missing.",
                hint=f"Add .option('{option.name}', …).",
            )
        if mode is not needed_by and option.name in given:
            raise InvalidOptionError(
                f"'{option.name}' is set, but '{spark_options.STARTUP_MODE.name}' is {mode}.",
                hint=f"Add .option('{spark_options.STARTUP_MODE.name}', '{needed_by}').",
            )


def _check_position(given: Mapping[str, str]) -> None:
    """Raise for two positions, and for a lake position on changes, which only the log has."""
    named = [option.name for option in _POSITIONS if option.name in given]
    if len(named) > 1:
        raise InvalidOptionError(
            f"'{named[0]}' and '{named[1]}' are both set, but only one position is possible.",
            hint="Remove one of them.",
        )
    of_view = [name for name in named if name != spark_options.TIMESTAMP_MILLIS.name]
    if spark_options.SCAN_MODE.required(given) is spark_options.ScanMode.LAKE:
        of_view.append(spark_options.SCAN_MODE.name)
    if of_view and split_virtual(_table(given))[1] is not None:
        raise InvalidOptionError(
            f"'{of_view[0]}' is for the rows of a table, but {_table(given)} reads its changes.",
            hint=f"Remove it, or read {split_virtual(_table(given))[0]}.",
        )
