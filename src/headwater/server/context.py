"""What every handler may use."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.config.server import ServerSettings
from headwater.metrics.tallies import Tallies
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events, Sparing
from headwater.server.answers import Answers
from headwater.server.catalog.catalog import Catalog
from headwater.server.disk_space import DiskSpace
from headwater.server.fan_out import FetchTurns, SharedReads
from headwater.server.lake.lake import ServerLake
from headwater.server.logins import Logins
from headwater.server.scanners import Scanners
from headwater.server.session import Session
from headwater.server.tablets import Tablets
from headwater.wire.apis import ApiKey

_events = Events("requests")
# How long a client waits for a refusal that it would otherwise provoke again at once.
FAULT_DELAY_S = 0.1


@dataclass(frozen=True, slots=True)
class Services:
    """Hold the parts of a running server."""

    catalog: Catalog
    tablets: Tablets
    settings: ServerSettings
    clock: Clock
    scanners: Scanners
    lake: ServerLake
    space: DiskSpace
    answers: Answers
    # One line for each API and code of error in a while.
    refusals: Sparing
    logins: Logins | None = None
    tallies: Tallies = field(default_factory=Tallies)
    # Set when automatic partitions should be looked at before their regular time.
    partitions_due: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    # Set when the data directory does not belong to this process any more.
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
    """Hold the services of the server and the session of the client that asks."""

    services: Services
    session: Session

    def bucket_refused(self, api: ApiKey, code: int, reason: str) -> None:
        """Count a bucket whose part of an answer is an error, and tell the log."""
        self.services.tallies.requests.bucket_refused(api, code)
        if (left_out := self.services.refusals.turn((api, code))) is not None:
            peer = self.session.peer
            _events.info("refused", api=api.name, code=code, peer=peer, reason=reason, **left_out)

    @property
    def catalog(self) -> Catalog:
        """Return the catalog."""
        return self.services.catalog

    @property
    def tablets(self) -> Tablets:
        """Return the tablets."""
        return self.services.tablets

    @property
    def lake(self) -> ServerLake:
        """Return the lake behind the tables."""
        return self.services.lake
