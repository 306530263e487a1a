"""Options under the names that other systems give them, and names that are free for anybody.

People bring options from Kafka, Flink, Paimon and older versions of Fluss. A name in `SPELLINGS`
is taken and stored under ours; one in `REFUSED` is rejected with what to use instead; names in
`FREE_PREFIXES` and `FREE_NAMES` are kept for whoever wrote them; anything else is rejected with the
most similar name. The server applies this to every new table and every change, whoever sends it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from headwater.config import options, values
from headwater.errors import InvalidOptionError
from headwater.model.table import TableDescriptor

_NUMBER = re.compile(r"-?[0-9]{1,19}\Z")
UNITS = {"h": "hours", "min": "minutes", "ms": "milliseconds", "b": "bytes"}
_UNSET = "unset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """Another name of an option; a bare number has the unit of that name."""

    name: str
    option: values.Option[object]
    unit: str | None = None
    unlimited: str | None = None
    """What -1 stands for, if it is a value."""

    def value(self, text: str) -> str | None:
        """Translate a value to one of our option; None means that the option is left unset."""
        plain = text.strip()
        if self.unlimited is not None and plain == "-1":
            return None if self.unlimited is _UNSET else self.unlimited
        told = f"{plain} {self.unit}" if self.unit and _NUMBER.match(plain) else plain
        value = self.option.kind.read(told)
        if value is None:
            raise InvalidOptionError(
                f"'{self.name}' cannot be {values.shown(text)}.", hint=f"Expected {self.expected}."
            )
        if self.option is options.LOG_TTL and value == 0:
            # Ours keeps rows forever if it is 0, theirs not at all.
            return "1 ms"
        return told

    @property
    def expected(self) -> str:
        """What a value looks like."""
        if self.unit is None:
            return self.option.kind.expected
        rest = ", or -1 for no limit" if self.unlimited is not None else ""
        return f"a number of {UNITS[self.unit]}, or {self.option.kind.expected}{rest}"


def _spelled(
    option: values.Option[object], unit: str | None, *names: str, unlimited: str | None = None
) -> tuple[Spelling, ...]:
    return tuple(
        Spelling(name=name, option=option, unit=unit, unlimited=unlimited) for name in names
    )


_ALL = (
    *_spelled(options.LOG_TTL, "h", "log.retention.hours", unlimited="0 ms"),
    *_spelled(options.LOG_TTL, "min", "log.retention.minutes", unlimited="0 ms"),
    *_spelled(options.LOG_TTL, "ms", "log.retention.ms", "retention.ms", unlimited="0 ms"),
    *_spelled(
        options.LOG_RETENTION_BYTES, "b", "log.retention.bytes", "retention.bytes", unlimited=_UNSET
    ),
    *_spelled(
        options.LOG_SEGMENT_BYTES,
        "b",
        "log.segment.bytes",
        "segment.bytes",
        "log.segment.file-size",
    ),
    *_spelled(options.LOG_ROLL, "h", "log.roll.hours"),
    *_spelled(options.LOG_ROLL, "ms", "log.roll.ms", "segment.ms"),
    *_spelled(
        options.LOG_DELETE_DELAY, "ms", "log.segment.delete.delay.ms", "file.delete.delay.ms"
    ),
    *_spelled(options.KV_COMPACTION_ENABLED, None, "log.compaction.enabled", "log.cleaner.enable"),
    *_spelled(
        options.KV_COMPACTION_INTERVAL,
        "ms",
        "log.compaction.interval.ms",
        "log.compaction.interval",
        "log.cleaner.backoff.ms",
    ),
    *_spelled(
        options.KV_COMPACTION_DIRTY_RATIO,
        None,
        "log.compaction.min.cleanable.ratio",
        "log.compaction.min.dirty.ratio",
        "log.compaction.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        "min.cleanable.dirty.ratio",
    ),
    *_spelled(options.DATALAKE_FRESHNESS, "ms", "log.tiering.interval.ms", "log.tiering.interval"),
    *_spelled(
        options.REPLICATION_FACTOR,
        None,
        "table.replication-factor",
        "replication-factor",
        "replication.factor",
        "default.replication.factor",
    ),
    *_spelled(options.KV_TTL, None, "table.kv.row.ttl", "table.row.ttl"),
    *_spelled(
        options.KV_TTL_TIME_COLUMN,
        None,
        "table.kv.row.ttl.time-column",
        "table.row.ttl.time-column",
    ),
)
SPELLINGS: Mapping[str, Spelling] = {each.name: each for each in _ALL}

BUCKET_COUNT_NAMES = ("bucket.num", "bucket-num", "bucket")
BUCKET_KEY_NAMES = ("bucket.key", "bucket-key")
_BUCKET_NAMES = (*BUCKET_COUNT_NAMES, *BUCKET_KEY_NAMES)
AUTO_INCREMENT = "auto-increment.fields"
_BUCKETS: values.Kind[int] = values.whole_number(low=1)

_DELETED = "Rows of a log are deleted by 'table.log.ttl' and 'table.log.retention.bytes'."
_EXPIRED = "Rows that expire are deletes in the changelog too. Leave it out."
REFUSED: Mapping[str, str] = {
    "remote.data.dir": "Logs are kept on the server's disk. Where the lake is, is a setting of "
    "the server: start it with --lake.",
    "remote.data.dirs": "Logs are kept on the server's disk. Where the lake is, is a setting of "
    "the server: start it with --lake.",
    "properties.group.id": "A group is named where rows are read: 'properties.group.id' or "
    "'scan.startup.cursor' of a Spark stream, table.cursor(name) in Python.",
    "group.id": "A group is named where rows are read: 'properties.group.id' or "
    "'scan.startup.cursor' of a Spark stream, table.cursor(name) in Python.",
    "cleanup.policy": f"{_DELETED} To keep the last row of each key, give the table a primary key.",
    "log.cleanup.policy": f"{_DELETED} To keep the last row of each key, give the table a primary "
    "key.",
    "compression.type": "Use 'table.log.arrow.compression.type'.",
    "num.partitions": "Use 'bucket.num': buckets are what Kafka calls partitions.",
    "partitions": "Use 'bucket.num': buckets are what Kafka calls partitions.",
    "default.bucket.number": "Use 'bucket.num'.",
    "min.insync.replicas": "There is one server, so there is one replica. Leave it out.",
    "max.message.bytes": "It is a setting of the server: --limit batch_bytes_max=….",
    "log.retention.check-interval": "Retention is checked every 60 seconds, for all tables.",
    "log.retention.check.interval.ms": "Retention is checked every 60 seconds, for all tables.",
    "kv.snapshot.interval": "Snapshots of states are a setting of the server, for all tables.",
    "primary.key": "The primary key is part of the schema: primary_key=… in Python, PRIMARY KEY "
    "in SQL.",
    "table.name": "A table has the name that it is created with. Leave it out.",
    "table.kv.ttl.changelog-mode": _EXPIRED,
    "table.kv.row.ttl.changelog-mode": _EXPIRED,
    "table.row.ttl.changelog-mode": _EXPIRED,
    "table.kv.ttl.time-column-id": "Use 'table.kv.ttl.time-column'.",
    "table.kv.row.ttl.time-column-id": "Use 'table.kv.ttl.time-column'.",
    "table.row.ttl.time-column-id": "Use 'table.kv.ttl.time-column'.",
}

FREE_PREFIXES: Mapping[str, str] = {
    "custom.": "yours",
    "client.": "settings of clients that read or write the table, kept by Flink",
    "scan.": "how Flink reads the table",
    "lookup.": "how Flink looks up its rows",
    "sink.": "how Flink writes it",
    "schema.": "computed columns and watermarks of Flink",
    "materialized-table.": "materialized tables of Flink",
    "_internal.": "internal options of Flink's connector",
    "flink.": "other options of Flink",
    "spark.": "other options of Spark",
    "fields.": "aggregate functions of columns",
    "iceberg.": "options of the Iceberg table behind it; unknown ones are refused",
    "paimon.": "options of the Paimon table behind it; unknown ones are refused",
    "lance.": "options of a Lance table, which Apache Fluss knows",
    "hudi.": "options of a Hudi table, which Apache Fluss knows",
}
FREE_NAMES = (
    AUTO_INCREMENT,
    "bootstrap.servers",
    "comment",
    "connector",
    "description",
    "owner",
    "provider",
    "tags",
    "team",
    "headwater.bucket-hash",
)

NO_EFFECT: Mapping[str, str] = {
    options.LOG_LOCAL_TTL.name: "Rows are not read from remote storage: 'table.log.ttl' decides.",
    options.LOG_TIERED_LOCAL_SEGMENTS.name: "Rows are not read from remote storage.",
    options.KV_STANDBY_REPLICA_ENABLED.name: "There is one server, so there is no standby.",
}
"""Options of Fluss that are taken for the sake of its clients, and why they do nothing here."""


def is_free(name: str) -> bool:
    """Tell whether a name that is not an option is kept for whoever wrote it."""
    return name in FREE_NAMES or name.startswith(tuple(FREE_PREFIXES))


def as_declared(table: TableDescriptor) -> TableDescriptor:
    """Put what a new table says under other names where it belongs, and reject the rest."""
    custom = dict(table.custom_properties)
    table = _with_auto_increment(_with_buckets(table, custom), custom)
    said: dict[str, tuple[str, str | None]] = {}
    for name, text in {**table.properties, **custom}.items():
        key, value = as_option(name, text)
        if key in said and said[key][1] != value:
            raise InvalidOptionError(
                f"'{said[key][0]}' and '{name}' both set '{key}', to different values.",
                hint="Leave one of them out.",
            )
        said[key] = (name, value)
    given = {key: value for key, (_, value) in said.items() if value is not None}
    return replace(
        table,
        properties={key: value for key, value in given.items() if options.is_table_option(key)},
        custom_properties={
            key: value for key, value in given.items() if not options.is_table_option(key)
        },
    )


def as_option(name: str, text: str) -> tuple[str, str | None]:
    """Translate a name and its value to ours; None means unset. Raises for an unknown name."""
    if spelling := SPELLINGS.get(name):
        return spelling.option.name, spelling.value(text)
    check_known(name)
    return name, text


def option_name(name: str) -> str:
    """Translate a name to ours; raises for an unknown one."""
    if spelling := SPELLINGS.get(name):
        return spelling.option.name
    check_known(name)
    return name


def check_known(name: str) -> None:
    """Reject a name that is neither an option nor free, with the name to use."""
    if name in options.TABLE_OPTIONS or is_free(name):
        return
    if hint := REFUSED.get(name):
        raise InvalidOptionError(f"A table cannot have the option {values.shown(name)}.", hint=hint)
    raise InvalidOptionError(f"There is no table option {values.shown(name)}.", hint=nearest(name))


def check_database_option(name: str) -> None:
    """Reject options of tables on a database, whose tables would not follow them."""
    if name in (*options.TABLE_OPTIONS, *SPELLINGS, *_BUCKET_NAMES, *REFUSED):
        raise InvalidOptionError(
            f"{values.shown(name)} is an option of tables, not of databases.",
            hint="Set it for each table.",
        )


def nearest(name: str) -> str:
    """Suggest the option that somebody may have meant."""
    cut = name[:200].lower()
    known = {name.removeprefix(options.TABLE_PREFIX): name for name in options.TABLE_OPTIONS}
    known |= {name: name for name in (*options.TABLE_OPTIONS, *SPELLINGS, *_BUCKET_NAMES)}
    close = get_close_matches(cut, known, n=1)
    meant = f"Did you mean '{known[close[0]]}'?" if close else "See the reference of table options."
    return (
        meant
        if options.is_table_option(name)
        else f"{meant} Names of your own begin with 'custom.'."
    )


def without_effect(table: TableDescriptor) -> dict[str, str]:
    """Map options of a table that do nothing to the reason.

    Earlier versions kept any name; such tables are used as they are.
    """
    held = {
        name: f"'{spelling.option.name}' is the option; this one was kept by an earlier version."
        if (spelling := SPELLINGS.get(name))
        else REFUSED.get(name, nearest(name))
        for name in table.custom_properties
        if not is_free(name)
    }
    return held | {name: why for name, why in NO_EFFECT.items() if name in table.properties}


def _with_buckets(table: TableDescriptor, custom: dict[str, str]) -> TableDescriptor:
    """Take the number of buckets and their key out of the options."""
    for name in BUCKET_COUNT_NAMES:
        if (text := custom.pop(name, None)) is not None:
            count = _BUCKETS.read(text)
            if count is None:
                raise InvalidOptionError(
                    f"'{name}' cannot be {values.shown(text)}.",
                    hint=f"Expected {_BUCKETS.expected}.",
                )
            if table.bucket_count not in (None, count):
                raise _contradicts(name, text, f"{table.bucket_count} buckets")
            table = replace(table, bucket_count=count)
    for name in BUCKET_KEY_NAMES:
        if (text := custom.pop(name, None)) is not None:
            keys = _names(text)
            if table.bucket_keys not in ((), keys):
                raise _contradicts(name, text, f"buckets by {', '.join(table.bucket_keys)}")
            table = replace(table, bucket_keys=keys)
    return table


def _with_auto_increment(table: TableDescriptor, custom: Mapping[str, str]) -> TableDescriptor:
    """Take auto-increment columns from the option; Flink gives them in both places."""
    if AUTO_INCREMENT not in custom:
        return table
    columns = _names(custom[AUTO_INCREMENT])
    if table.schema.auto_increment not in ((), columns):
        told = f"the auto-increment column {', '.join(table.schema.auto_increment)}"
        raise _contradicts(AUTO_INCREMENT, custom[AUTO_INCREMENT], told)
    return replace(table, schema=replace(table.schema, auto_increment=columns))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _contradicts(name: str, text: str, told: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"'{name}' is {values.shown(text)}, but the table has {told}.",
        hint="Leave one of them out.",
    )
