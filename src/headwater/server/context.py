"""What every handler may use: the services of the server, one request, and names from the wire."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headwater.config.server import ServerSettings
from headwater.metrics.tallies import Tallies
from headwater.model.acl import Operation
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.rows.sieve import ValueSieve
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.connection import Session
from headwater.server.disk_space import DiskSpace
from headwater.server.lake import ServerLake
from headwater.server.logins import Logins
from headwater.server.memory import Answers
from headwater.server.permissions.authorizer import Authorizer
from headwater.server.permissions.needs import Target
from headwater.server.permissions.rules import Restriction
from headwater.server.permissions.trail import AuditTrail
from headwater.server.quotas import Quotas
from headwater.server.readers import FetchTurns, Scanners, SharedReads
from headwater.server.remote.copy import RemoteCopy
from headwater.server.security.tls import Certificates
from headwater.server.tablets import Tablets
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey

_events = Events("requests")
# How long a client waits for an error that it would otherwise provoke again at once.
FAULT_DELAY_S = 0.1


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a running server."""

    catalog: ServerCatalog
    tablets: Tablets
    settings: ServerSettings
    clock: Clock
    scanners: Scanners
    lake: ServerLake
    space: DiskSpace
    answers: Answers
    # One log line per API and error code in a while.
    refusals: Sparing
    logins: Logins | None = None
    # None where nothing is limited.
    quotas: Quotas | None = None
    certificates: Certificates | None = None
    # None where nothing is shipped.
    remote: RemoteCopy | None = None
    # None where nobody's permissions are checked.
    authorizer: Authorizer | None = None
    # None where nothing is recorded.
    trail: AuditTrail | None = None
    tallies: Tallies = field(default_factory=Tallies)
    # Set when automatic partitions should be checked early.
    partitions_due: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    # Set when this process has lost the data directory.
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    # Long polls wait to be called; a stopping server calls them all.
    polls: set[Callable[[], None]] = field(default_factory=set)
    turns: FetchTurns = field(default_factory=FetchTurns)
    reads: SharedReads = field(default_factory=SharedReads)

    @property
    def is_stopping(self) -> bool:
        """Tell whether waits should end."""
        return self.stopping.is_set()


@dataclass(frozen=True, slots=True)
class Context:
    """The services of the server and the session of the client."""

    services: Services
    session: Session

    def bucket_refused(self, api: ApiKey, code: int, reason: str) -> None:
        """Count a bucket whose part of a response is an error, and log it."""
        self.services.tallies.requests.bucket_refused(api, code)
        if (left_out := self.services.refusals.turn((api, code))) is not None:
            peer = self.session.peer
            _events.info("refused", api=api.name, code=code, peer=peer, reason=reason, **left_out)

    def may(self, operation: Operation, target: Target) -> bool:
        """Tell whether the client may do something."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.may(self.session, operation, target)

    def may_see(self, database: str) -> bool:
        """Tell whether the client may know of a database."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.may_see(self.session, database)

    def require(self, operation: Operation, target: Target) -> None:
        """Refuse what the client may not do."""
        if self.services.authorizer is not None:
            self.services.authorizer.require(self.session, operation, target)

    @property
    def permissions_version(self) -> int:
        """Grows with every change of permissions."""
        authorizer = self.services.authorizer
        return 0 if authorizer is None else authorizer.version

    @property
    def has_rules(self) -> bool:
        """Tell whether anybody may read only some columns or rows of a table."""
        authorizer = self.services.authorizer
        return authorizer is not None and authorizer.has_rules

    def restriction(self, table_id: int) -> Restriction | None:
        """Return what the client may read of a table; None if that is all of it."""
        authorizer = self.services.authorizer
        return None if authorizer is None else authorizer.restriction(self.session, table_id)

    def is_restricted(self, target: Target) -> bool:
        """Tell whether the client may not read all of a table."""
        authorizer = self.services.authorizer
        return authorizer is not None and authorizer.is_restricted(self.session, target)

    def require_whole(self, target: Target, *, what: str) -> None:
        """Refuse what would show more of a table than the client may read."""
        if self.services.authorizer is not None:
            self.services.authorizer.require_whole(self.session, target, what=what)

    def values_sieve(self, table_id: int, asked: Sequence[int]) -> ValueSieve | None:
        """Return what takes rows and columns out of values; None if all may be read."""
        restriction = self.restriction(table_id)
        if restriction is None:
            return None
        restriction.require_columns(asked or None)
        return restriction.values(self.tablets.schemas(table_id), asked)

    @property
    def catalog(self) -> ServerCatalog:
        """The catalog of the server."""
        return self.services.catalog

    @property
    def tablets(self) -> Tablets:
        """The tablets of the server."""
        return self.services.tablets

    @property
    def lake(self) -> ServerLake:
        """The lake of the server."""
        return self.services.lake


_BucketRequest = pb.FetchLogBucketRequest | pb.TableStatsBucketRequest


def table_path(message: pb.TablePath | pb.PhysicalTablePath) -> TablePath:
    """Parse a table path."""
    return TablePath(message.database_name, message.table_name)


def spec_of(message: pb.PartitionSpec) -> dict[str, str]:
    """Parse a partition spec; its pairs come in any order."""
    return {pair.key: pair.value for pair in message.partition_key_values}


def bucket_of(table_id: int, message: _BucketRequest | pb.LimitScanRequest) -> TableBucket:
    """Parse a bucket."""
    return TableBucket(table_id, message.bucket_id, partition_of(message))


def partition_of(
    message: _BucketRequest | pb.LimitScanRequest | pb.ListOffsetsRequest,
) -> int | None:
    """Parse a partition id, if there is one."""
    return message.partition_id if message.HasField("partition_id") else None
