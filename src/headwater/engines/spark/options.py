"""The options of the Spark source and sink: declared, checked for typos, parsed."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum

from headwater.config.client import Security
from headwater.config.values import (
    BOOLEAN,
    DURATION,
    LONG_MAX,
    MEMORY,
    NAMES,
    TEXT,
    Kind,
    Option,
    choice,
    shown,
    whole_number,
)
from headwater.errors import InvalidOptionError

SERVERS_DEFAULT = "localhost:9123"
_COUNT = whole_number(low=1, high=LONG_MAX)


class SecurityProtocol(StrEnum):
    """Whether to log in, in the words of Fluss."""

    PLAINTEXT = "plaintext"
    SASL = "sasl"


class StartupMode(StrEnum):
    """Where reading can begin."""

    FULL = "full"
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"
    CURSOR = "cursor"


class ScanMode(StrEnum):
    """Which part of a table with a lake is read."""

    UNION = "union"
    LAKE = "lake"
    LOG = "log"


class Nanoseconds(StrEnum):
    """What happens to times that are finer than Spark's microseconds."""

    FAIL = "fail"
    TRUNCATE = "truncate"


def read_moment_ms(text: str) -> int | None:
    """Parse a moment: milliseconds since 1970, or a date and time, in UTC if no zone is given."""
    if text.strip().isdigit():
        millis = int(text)
        return millis if millis <= LONG_MAX else None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def read_offsets(text: str) -> Mapping[str, int] | None:
    """Parse offsets as shown in a query's progress: `{"0": 12, "day=2026-11-16/0": 3}`."""
    try:
        given = json.loads(text)
    except ValueError:
        return None
    if not isinstance(given, dict) or not given:
        return None
    # bool is an int in Python, but not an offset.
    is_right = all(type(offset) is int and offset >= 0 for offset in given.values())
    return given if is_right else None


def read_texts(text: str) -> Mapping[str, str] | None:
    """Parse options within an option: `{"s3.region": "eu-west-1"}`."""
    try:
        given = json.loads(text)
    except ValueError:
        return None
    is_right = isinstance(given, dict) and all(isinstance(each, str) for each in given.values())
    return given if is_right else None


_MOMENT = Kind("moment", "milliseconds, or a time such as '2026-11-16 08:00:00'", read_moment_ms)
_OFFSETS = Kind("offsets", 'JSON such as {"0": 120, "1": 98}', read_offsets)
_TEXTS = Kind("options", 'JSON such as {"s3.region": "eu-west-1"}', read_texts)

SERVERS = Option(
    name="bootstrap.servers",
    kind=NAMES,
    default=SERVERS_DEFAULT,
    description=(
        "Addresses of the server, or of some servers of an Apache Fluss cluster, comma-separated."
    ),
)
TABLE = Option(
    name="table",
    kind=TEXT,
    description="Table as `database.table`; `load(…)` and `save(…)` take it as well. The suffix "
    "`$changelog` or `$binlog` reads its changes.",
)
USER = Option(
    name="client.security.sasl.username",
    kind=TEXT,
    description=("User name to log in with, if any."),
)
PASSWORD = Option(
    name="client.security.sasl.password", kind=TEXT, description="Password of that user."
)
PROTOCOL = Option(
    name="client.security.protocol",
    kind=choice(SecurityProtocol),
    description="`sasl` to log in, as in Fluss; may be left out if a user or token is given. "
    "`plaintext`: without.",
)
MECHANISM = Option(
    name="client.security.sasl.mechanism",
    kind=TEXT,
    description="How to log in: `SCRAM-SHA-512`, `SCRAM-SHA-256`, `PLAIN` or `OAUTHBEARER`. By "
    "default the strongest that the server has; PLAIN only with TLS or on one machine.",
)
TOKEN_FILE = Option(
    name="client.security.sasl.token-file",
    kind=TEXT,
    description="File with a token to log in with, on the driver and on every worker.",
)
TLS = Option(
    name="client.security.ssl.enabled",
    kind=BOOLEAN,
    default="false",
    description="Encrypt the connection, and check that the server is the right one.",
)
TLS_CA = Option(
    name="client.security.ssl.ca-file",
    kind=TEXT,
    description="PEM file with the CAs that may vouch for the server, on the driver and on every "
    "worker; by default those of the system.",
)
TLS_CERTIFICATE = Option(
    name="client.security.ssl.certificate-file",
    kind=TEXT,
    description="PEM file with a certificate to log in with, on the driver and on every worker.",
)
TLS_KEY = Option(
    name="client.security.ssl.key-file",
    kind=TEXT,
    description="PEM file with the key of that certificate.",
)
TLS_SERVER_NAME = Option(
    name="client.security.ssl.server-name",
    kind=TEXT,
    description="Name that the server's certificate must have; by default the host of its address.",
)
DEADLINE = Option(
    name="client.deadline",
    kind=DURATION,
    default="120 s",
    description="Time limit for one call, including all retries.",
)
CONNECT_TIMEOUT = Option(
    name="client.connect-timeout",
    kind=DURATION,
    default="10 s",
    description="Time limit for connecting to a server.",
)

STARTUP_MODE = Option(
    name="scan.startup.mode",
    kind=choice(StartupMode),
    default="full",
    description=(
        "Where a streaming read begins: `full` (all current rows in the first "
        "micro-batch, from lake and log if there is a lake, then the changes), "
        "`earliest` (the first row still in the log; rows that are only in the "
        "lake are not read), `latest`, `timestamp`, `offsets`, or the position "
        "of a `cursor`."
    ),
)
STARTUP_TIMESTAMP = Option(
    name="scan.startup.timestamp",
    kind=_MOMENT,
    description=(
        "Moment from which to read, with the mode `timestamp`: milliseconds or "
        "`2026-11-16 08:00:00`, in UTC unless a zone is given."
    ),
)
STARTUP_OFFSETS = Option(
    name="scan.startup.offsets",
    kind=_OFFSETS,
    description=(
        'Offset of each bucket, with the mode `offsets`: `{"0": 120}`, for a '
        'partition `{"day=2026-11-16/0": 3}`. Buckets that are left out begin at '
        "their earliest row."
    ),
)
STARTUP_CURSOR = Option(
    name="scan.startup.cursor",
    kind=TEXT,
    description=(
        "Name of the cursor whose committed offsets are the start, with the mode `cursor`."
    ),
)
LAKE = Option(
    name="lake.options",
    kind=_TEXTS,
    description=(
        "Options of the lake's catalog, such as credentials, as JSON. They "
        "override those that the server sends."
    ),
)
SCAN_MODE = Option(
    name="scan.mode",
    kind=choice(ScanMode),
    default="union",
    description=(
        "What a batch reads of a table with a lake: `union` (the lake, then the "
        "log from where the lake ends: every row once), `lake` (only its newest "
        "snapshot) or `log` (only what the servers hold)."
    ),
)
SNAPSHOT_ID = Option(
    name="scan.snapshot-id",
    kind=whole_number(low=0, high=LONG_MAX),
    description="Read exactly the rows that a snapshot of the lake holds, by its id.",
)
TIMESTAMP_MILLIS = Option(
    name="scan.timestamp-millis",
    kind=_MOMENT,
    description=(
        "Read the table in a batch as it was at this moment, as far back as its "
        "log goes. Tiering does not change the result."
    ),
)
TOKEN = Option(
    name="scan.token",
    kind=TEXT,
    description=(
        "Read the table at the position of a token from `view.token()`: the same "
        "rows in every engine, also later."
    ),
)
OFFSETS = Option(
    name="scan.offsets",
    kind=_OFFSETS,
    description='Read each bucket in a batch up to an offset: `{"0": 120}`, for a partition '
    '`{"day=2026-11-16/0": 3}`. Buckets that are left out are read to their ends.',
)
COLUMNS = Option(
    name="scan.columns",
    kind=NAMES,
    description=(
        "Columns to read, comma-separated. With the catalog, Spark selects the "
        "columns it needs by itself."
    ),
)
FILTER = Option(
    name="scan.filter",
    kind=TEXT,
    description=(
        'Rows to read, as JSON: `[["amount", ">", 10], ["city", "in", '
        '["Bern"]]]`; all conditions must hold. In a list of such lists, any of '
        "them must hold."
    ),
)
LIMIT = Option(
    name="scan.limit",
    kind=whole_number(low=0, high=LONG_MAX),
    description="Maximum number of rows that a batch reads.",
)
PARTITIONS = Option(
    name="scan.partitions",
    kind=NAMES,
    description="Partitions to read, such as `day=2026-11-16`, comma-separated.",
)
CHANGELOG = Option(
    name="scan.changelog",
    kind=BOOLEAN,
    default="false",
    description=(
        "Read the changes, with `_change_type`, `_log_offset` and "
        "`_commit_timestamp`; the same as the suffix `$changelog` after the "
        "table name."
    ),
)
SPLIT_ROWS = Option(
    name="scan.split.rows",
    kind=_COUNT,
    default="2000000",
    description=(
        "Maximum number of rows of one bucket's log that one task reads; a larger range is split."
    ),
)
DISCOVERY = Option(
    name="scan.partition.discovery.interval",
    kind=DURATION,
    default="10 s",
    description="How often a streaming read looks for new partitions.",
)
NANOSECONDS = Option(
    name="scan.nanoseconds",
    kind=choice(Nanoseconds),
    default="fail",
    description="What to do with a time that is finer than Spark's microseconds.",
)
MAX_ROWS = Option(
    name="maxRowsPerTrigger",
    kind=_COUNT,
    description="Maximum number of rows per micro-batch.",
)
MAX_BYTES = Option(
    name="maxBytesPerTrigger",
    kind=MEMORY,
    description="Approximate size of a micro-batch, estimated from the rows read before.",
)
FAIL_ON_DATA_LOSS = Option(
    name="failOnDataLoss",
    kind=BOOLEAN,
    default="true",
    description=(
        "Fail when unread rows are gone because of retention or a dropped "
        "partition; `false` continues with the rows that are left."
    ),
)

CHANGE_COLUMN = Option(
    name="sink.change-type-column",
    kind=TEXT,
    default="_change_type",
    description=(
        "Column that says what to do with each row, used if the rows have it and "
        "the table does not: insert and update rows are upserted, `delete` rows "
        "deleted, rows before an update skipped."
    ),
)
IGNORE_DELETE = Option(
    name="sink.ignore-delete",
    kind=BOOLEAN,
    default="false",
    description="Ignore deletes.",
)
PARTIAL_UPDATE = Option(
    name="sink.partial-update",
    kind=BOOLEAN,
    default="false",
    description=(
        "Allow rows with only some of the table's columns, including the key; "
        "the other columns keep their values."
    ),
)
WRITE_ID = Option(
    name="write.id",
    kind=TEXT,
    description=(
        "Name of a batch write. Rows written under a name are written once, "
        "however often the job runs."
    ),
)
WRITE_EPOCH = Option(
    name="write.epoch",
    kind=whole_number(low=0, high=LONG_MAX),
    default="0",
    description=(
        "Number of a write within one `write.id`, increasing from write to "
        "write: in `foreachBatch`, the number of the micro-batch."
    ),
)

GROUP_ID = Option(
    name="properties.group.id",
    kind=TEXT,
    description=(
        "The name that Kafka's connector has for `scan.startup.cursor`; the mode is then `cursor`, "
        "unless one is given."
    ),
)

SECURITY_OPTIONS: tuple[Option[object], ...] = (
    USER,
    PASSWORD,
    PROTOCOL,
    MECHANISM,
    TOKEN_FILE,
    TLS,
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    TLS_SERVER_NAME,
)
SHARED_OPTIONS: tuple[Option[object], ...] = (
    SERVERS,
    TABLE,
    *SECURITY_OPTIONS,
    DEADLINE,
    CONNECT_TIMEOUT,
)
SOURCE_OPTIONS: tuple[Option[object], ...] = (
    *SHARED_OPTIONS,
    STARTUP_MODE,
    STARTUP_TIMESTAMP,
    STARTUP_OFFSETS,
    STARTUP_CURSOR,
    GROUP_ID,
    SCAN_MODE,
    TIMESTAMP_MILLIS,
    SNAPSHOT_ID,
    TOKEN,
    OFFSETS,
    LAKE,
    COLUMNS,
    FILTER,
    LIMIT,
    PARTITIONS,
    CHANGELOG,
    SPLIT_ROWS,
    DISCOVERY,
    NANOSECONDS,
    MAX_ROWS,
    MAX_BYTES,
    FAIL_ON_DATA_LOSS,
)
SINK_OPTIONS: tuple[Option[object], ...] = (
    *SHARED_OPTIONS,
    CHANGE_COLUMN,
    IGNORE_DELETE,
    PARTIAL_UPDATE,
    WRITE_ID,
    WRITE_EPOCH,
)
# What Spark itself adds to the options of a source or sink, or takes from them.
_OF_SPARK = frozenset({"path", "paths", "checkpointlocation", "outputmode", "queryname"})


def security_of(options: Mapping[str, str]) -> Security:
    """Read how to encrypt and log in from validated options."""
    protocol, has_login = PROTOCOL.of(options), bool(USER.of(options) or TOKEN_FILE.of(options))
    if protocol is not None and (protocol is SecurityProtocol.SASL) != has_login:
        raise InvalidOptionError(
            f"'{PROTOCOL.name}' is {protocol.value}, but "
            + ("a user or token is given." if has_login else "no user or token is given."),
            hint=f"Set '{USER.name}' and '{PASSWORD.name}' with sasl, and neither without.",
        )
    given: dict[str, str | bool | None] = {
        "tls": TLS.of(options),
        "tls_ca_file": TLS_CA.of(options),
        "tls_certificate_file": TLS_CERTIFICATE.of(options),
        "tls_key_file": TLS_KEY.of(options),
        "tls_server_name": TLS_SERVER_NAME.of(options),
        "mechanism": (MECHANISM.of(options) or "").upper(),
        "token_file": TOKEN_FILE.of(options),
    }
    return tuple((name, value) for name, value in given.items() if value)


def given_options(options: Mapping[str, str], declared: Iterable[Option[object]]) -> dict[str, str]:
    """Match options to their declared names, ignoring case; raises with a suggestion."""
    names = {option.name.lower(): option.name for option in declared}
    given: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower in names:
            given[names[lower]] = text
        elif lower not in _OF_SPARK and not lower.startswith(("spark.", "__")):
            raise _unknown(name, names)
    if TABLE.name not in given and (path := _path(options)):
        given[TABLE.name] = path
    return given


def _path(options: Mapping[str, str]) -> str | None:
    return next((text for name, text in options.items() if name.lower() == "path"), None)


def _unknown(name: str, names: Mapping[str, str]) -> InvalidOptionError:
    close = get_close_matches(name[:200].lower(), names, n=1)
    hint = (
        f"Did you mean '{names[close[0]]}'?"
        if close
        else f"The options are {', '.join(sorted(names.values()))}."
    )
    return InvalidOptionError(f"There is no option {shown(name)} here.", hint=hint)
