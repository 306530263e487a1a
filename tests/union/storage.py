"""A real storage with a real lake below it, whose retention and upkeep a test has in hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import headwater
from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import PEER, InProcessDialer
from headwater.log.retention import LogSettings
from headwater.model.boundary import LakeBucket
from headwater.runtime.clock import SystemClock
from headwater.server.lake import tiered_end
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings

HOST = "127.0.0.1"
# One batch fills a segment, so that a log can be cut nearly anywhere.
ONE_BATCH_BYTES = 64
NEVER_S = 1e6
SOON_MS = 1


class StepClock(SystemClock):
    """Tell a time that only the test lets pass, so that moments are exact."""

    def __init__(self) -> None:
        self.ms = super().now_ms()

    def now_ms(self) -> int:
        return self.ms


@dataclass
class Storage:
    """A storage that listens, and the only client with which a test changes it."""

    client: Client
    server: Server
    clock: StepClock
    storage_id: str = ""
    _narrow: Client | None = None

    @classmethod
    def open(cls, directory: Path) -> "Storage":
        parts = _Parts(directory)
        client = Client.start(parts.opened())
        storage_id = client.lake.heartbeat().storage_id
        assert storage_id is not None
        return cls(client, parts.server, parts.clock, storage_id)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.server.port}"

    def close(self) -> None:
        if self._narrow is not None:
            self._narrow.close()
        self.client.close()

    @property
    def narrow(self) -> Client:
        """Return a client that keeps no tails, and has no memory to fold them in."""
        if self._narrow is None:
            settings = ClientSettings(union_memory_bytes_max=1, union_tail_bytes_max=0)
            self._narrow = headwater.connect(self.address, settings=settings)
        return self._narrow

    def pass_time(self) -> int:
        """Let time pass, and return a moment after all that was and before all that comes."""
        self.clock.ms += 10
        moment = self.clock.ms
        self.clock.ms += 10
        return moment

    # ---- retention

    def save_states(self) -> None:
        """Save the rows by key, so that what led to them need not be kept."""
        self.client.run(lambda _client: self.server.upkeep.save_states())

    def cut(
        self, table_id: int, *, kept: Mapping[LakeBucket, int] | None = None, checked: bool = True
    ) -> None:
        """Delete what is old of the logs: below `kept`, and below what the lake holds."""
        self.clock.ms += 10
        self.save_states()
        self.client.run(lambda _client: self._cut(table_id, kept, checked=checked))

    async def _cut(
        self, table_id: int, kept: Mapping[LakeBucket, int] | None, *, checked: bool
    ) -> None:
        services = self.server._services
        ends = services.catalog.lake.ends(table_id)
        for bucket, tablet in services.tablets.all_open():
            if bucket.table_id != table_id:
                continue
            held = tiered_end(bucket, ends) if checked else tablet.high_watermark
            place = LakeBucket(bucket.partition_id, bucket.bucket)
            wanted = held if kept is None else min(held, kept.get(place, 0))
            needed = services.tablets.keyed.needed_from(bucket)
            kept_from = wanted if needed is None else min(wanted, needed)
            await tablet.expire(ttl_ms=SOON_MS, bytes_max=None, kept_from=kept_from)


@dataclass
class _Parts:
    directory: Path
    clock: StepClock = field(default_factory=StepClock)

    async def opened(self) -> AsyncClient:
        settings = ServerSettings(
            port=0, retention_check_interval_s=NEVER_S, kv_snapshot_interval_s=NEVER_S
        )
        self.server = await Server.start(
            self.directory,
            settings,
            clock=self.clock,
            storage=StorageSettings(log=LogSettings(segment_bytes_max=ONE_BATCH_BYTES)),
        )
        cluster = Cluster(
            [Address(PEER, 0)],
            Pool(InProcessDialer(self.server.serve)),
            settings=ClientSettings(deadline_s=30.0),
            clock=SystemClock(),
        )
        await cluster.connect()
        address = f"{HOST}:{self.server.port}"
        return AsyncClient(
            cluster, address=address, directory=self.directory, on_close=self.server.stop
        )
