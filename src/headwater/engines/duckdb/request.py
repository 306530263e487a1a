"""What a query asks of a table: where it is, in which mode, and at which position."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headwater.errors import InvalidScanError, RequestError
from headwater.model import TablePath
from headwater.model.type_json import Json, object_of
from headwater.read.offsets import Place

NO_QUERY = 2**64 - 1
"""What DuckDB says where it plans outside of a query."""
CHANGELOG = "changelog"
MODES = ("union", "lake", "log", CHANGELOG)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES = "Write MAP {0: 17} for bucket 0; with partitions MAP {'2026-11-16/0': 17}."
Offsets = dict[Place, int]


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Say which table of which storage is meant; None is the installed one."""

    bootstrap: str | None
    database: str
    table: str

    @property
    def path(self) -> TablePath:
        """Return database and name."""
        return TablePath(self.database, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Hold the arguments of `fluss_read`, and which query they stand in."""

    places: TableAddress
    mode: str = "union"
    token: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | None = None
    from_offsets: Offsets = field(default_factory=dict)
    to_offsets: Offsets = field(default_factory=dict)
    from_ts: datetime | None = None
    to_ts: datetime | None = None
    query: int = NO_QUERY

    @property
    def is_range(self) -> bool:
        """Tell whether rows of the log are wanted from somewhere on."""
        return bool(self.from_offsets) or self.from_ts is not None

    @property
    def is_elsewhere(self) -> bool:
        """Tell whether another position is wanted than that of now."""
        return self.moment is not None or any((self.token, self.snapshot_id, self.to_offsets))

    @property
    def moment(self) -> datetime | None:
        """Return the moment at which the table is wanted."""
        return self.as_of or self.to_ts


def tables_asked(text: str) -> str | None:
    """Return the storage whose tables are asked for; None for the installed one."""
    return _text(object_of(json.loads(text), what="request"), "bootstrap")


def table_asked(text: str) -> TableAddress:
    """Return the table of which something is asked."""
    return _places(object_of(json.loads(text), what="request"))


def request_of(text: str) -> Request:
    """Read a request from the JSON that the macro makes of its arguments."""
    node = object_of(json.loads(text), what="request")
    zone = node.get("zone")
    request = Request(
        places=_places(node),
        mode=_mode(node.get("mode")),
        token=_text(node, "token"),
        snapshot_id=_whole(node, "snapshot_id"),
        as_of=_moment(node, "as_of", zone),
        from_offsets=_offsets(node, "from_offsets"),
        to_offsets=_offsets(node, "to_offsets"),
        from_ts=_moment(node, "from_ts", zone),
        to_ts=_moment(node, "to_ts", zone),
        query=_whole(node, "query") or NO_QUERY,
    )
    _check_one(request)
    return request


def _check_one(request: Request) -> None:
    """Refuse two answers to one question."""
    ends = {
        "token": request.token,
        "snapshot_id": request.snapshot_id,
        "as_of": request.as_of,
        "to_ts": request.to_ts,
        "to_offsets": request.to_offsets or None,
    }
    given = [name for name, value in ends.items() if value is not None]
    starts = [name for name in ("from_offsets", "from_ts") if getattr(request, name)]
    if len(given) > 1 or len(starts) > 1:
        both = " and ".join(given if len(given) > 1 else starts)
        raise InvalidScanError(f"{both} are given together.", hint="Give one of them.")
    if starts and given and given[0] in ("token", "snapshot_id"):
        raise InvalidScanError(
            f"{given[0]} names a whole table, and {starts[0]} a part of its log.",
            hint="End the range with to_offsets or to_ts.",
        )


def _places(node: Mapping[str, Json]) -> TableAddress:
    """Read the names by their order: two are database and table of the installed storage."""
    first, second, third = (_text(node, name) for name in ("bootstrap", "database", "table"))
    bootstrap, database, table = (None, first, second) if third is None else (first, second, third)
    if not database or not table:
        raise RequestError(
            "The name of the database or of the table is NULL or empty.",
            hint="Write fluss_read('host:port', 'database', 'table').",
        )
    return TableAddress(bootstrap, database, table)


def _text(node: Mapping[str, Json], name: str) -> str | None:
    found = node.get(name)
    return found if found is None else str(found)


def _whole(node: Mapping[str, Json], name: str) -> int | None:
    match node.get(name):
        case None:
            return None
        case bool() | float() as wrong:
            raise RequestError(f"{name} is {wrong}, which is not a whole number.")
        case int(number):
            return number
        case str(text) if text.strip().lstrip("-").isdigit():
            return int(text)
        case wrong:
            raise RequestError(f"{name} is {wrong!r}, which is not a whole number.")


def _mode(given: Json) -> str:
    mode = str(given).lower()
    if mode not in MODES:
        known = ", ".join(f"'{each}'" for each in MODES)
        raise RequestError(f"There is no mode {given!r}.", hint=f"The modes are {known}.")
    return mode


def _moment(node: Mapping[str, Json], name: str, zone: Json) -> datetime | None:
    """Read a moment: milliseconds since 1970, or a text, without zone in that of the session."""
    match node.get(name):
        case None:
            return None
        case bool() | float() | list() | dict() as wrong:
            raise _no_moment(name, wrong)
        case int(milliseconds):
            return _EPOCH + timedelta(milliseconds=milliseconds)
        case str(text):
            return _moment_of(name, text, zone)


def _moment_of(name: str, text: str, zone: Json) -> datetime:
    if text.strip().isdigit():
        return _EPOCH + timedelta(milliseconds=int(text))
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _no_moment(name, text) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=ZoneInfo(str(zone or "UTC")))


def _no_moment(name: str, given: Json) -> RequestError:
    return RequestError(
        f"{name} is {given!r}, which is not a moment.",
        hint="Give a TIMESTAMPTZ, a TIMESTAMP, or milliseconds since 1970.",
    )


def _offsets(node: Mapping[str, Json], name: str) -> Offsets:
    given = node.get(name)
    if isinstance(given, str):
        given = _json_in(name, given)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise RequestError(f"{name} is {given!r}, which names no buckets.", hint=_PLACES)
    return {_place(name, key): _offset(name, value) for key, value in given.items()}


def _json_in(name: str, text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError:
        raise RequestError(f"{name} is {text!r}, which is not JSON.", hint=_PLACES) from None
    return found


def _place(name: str, key: str) -> Place:
    partition, _, bucket = key.rpartition("/")
    if not bucket.isdigit():
        raise RequestError(f"{name} names {key!r}, which is not a bucket.", hint=_PLACES)
    return Place(partition or None, int(bucket))


def _offset(name: str, value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RequestError(f"{name} has {value!r}, which is not an offset.", hint=_PLACES)
    return value
