"""How much one user, and one connection of theirs, may take of a server.

The defaults are settings of the server, and 0 means no limit. A file may say otherwise for single
users, as JSON: `{"ann": {"user_connections_max": 8}}`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from headwater.config.server import ServerSettings
from headwater.config.values import MEMORY, shown
from headwater.errors import InvalidOptionError

# A slower rate would let one request wait for minutes.
RATE_BYTES_MIN = 1024
_RATE_ENDING = "_per_s_max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one user; 0 is no limit."""

    user_bytes_in_per_s_max: int = 0
    user_bytes_out_per_s_max: int = 0
    user_requests_max: int = 0
    user_connections_max: int = 0
    user_scans_max: int = 0
    user_tables_max: int = 0
    user_partitions_max: int = 0
    user_buckets_max: int = 0
    connection_bytes_in_per_s_max: int = 0
    connection_bytes_out_per_s_max: int = 0
    connection_scans_max: int = 0

    def __post_init__(self) -> None:
        for name in QUOTA_NAMES:
            value = getattr(self, name)
            if value < 0 or (name.endswith(_RATE_ENDING) and 0 < value < RATE_BYTES_MIN):
                least = f", {RATE_BYTES_MIN}" if name.endswith(_RATE_ENDING) else ", 1"
                raise InvalidOptionError(
                    f"'{name}' cannot be {value}.", hint=f"Use 0 for no limit{least} or more."
                )

    @property
    def is_unlimited(self) -> bool:
        """Tell whether nothing is limited."""
        return not any(getattr(self, name) for name in QUOTA_NAMES)

    def with_limits(self, limits: Mapping[str, int]) -> "Quota":
        """Replace some of the limits."""
        return replace(self, **limits)


QUOTA_NAMES = tuple(each.name for each in fields(Quota))


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """What one user has created; partitions and buckets count for the creator of their table."""

    tables: int = 0
    partitions: int = 0
    buckets: int = 0


def default_quota(settings: ServerSettings) -> Quota:
    """Return the limits of users that have none of their own."""
    return Quota(**{name: getattr(settings, name) for name in QUOTA_NAMES})


Limits = Mapping[str, int]


def quota_limits(given: Iterable[str]) -> dict[str, int]:
    """Parse limits such as `user_bytes_in_per_s_max=10mb`."""
    return dict(_limit(*each.partition("=")[::2]) for each in given)


def _limit(name: str, value: str) -> tuple[str, int]:
    if name not in QUOTA_NAMES or not value:
        raise InvalidOptionError(
            f"{shown(f'{name}={value}')} is not a limit of a user.",
            hint=f"Use NAME=VALUE with one of {', '.join(QUOTA_NAMES)}.",
        )
    read = int(value) if value.isdigit() and value.isascii() else MEMORY.read(value)
    if read is None:
        raise InvalidOptionError(
            f"{shown(value)} is not a valid value of '{name}'.",
            hint=f"Use a number, or {MEMORY.expected}.",
        )
    Quota().with_limits({name: read})
    return name, read


def read_quotas(text: str, *, source: str) -> dict[str, Limits]:
    """Parse a file of quotas: the limits of each user that has some, as JSON."""
    try:
        held = json.loads(text)
        return {
            user: dict(_limit(name, str(value)) for name, value in limits.items())
            for user, limits in held.items()
        }
    except (ValueError, AttributeError, RecursionError):
        raise InvalidOptionError(
            f"{source} is not a file of quotas.",
            hint=f"Write it with: headwater quota set {source} USER NAME=VALUE",
        ) from None
    except InvalidOptionError as fault:
        raise InvalidOptionError(f"In {source}: {fault}") from None


def write_quotas(quotas: Mapping[str, Limits]) -> str:
    """Write what `read_quotas` reads, sorted by user."""
    held = {user: dict(limits) for user, limits in quotas.items() if limits}
    return json.dumps(held, indent=2, sort_keys=True) + "\n"
