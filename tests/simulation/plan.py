"""What a seed decides before a run begins: who takes part, and how small everything is."""

import random
from dataclasses import dataclass

from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.kv.store import KvSettings
from headwater.log.retention import LogSettings
from headwater.server.tablets import StorageSettings
from headwater.tiering.plan import TieringSettings
from tests.simulation.machine import Setup

LEASE_S = 6.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Hold what one run is made of."""

    buckets: int
    is_bucketed: bool
    has_lake: bool
    log_ttl_ms: int
    keys: int
    log_writers: int
    key_writers: int
    rounds: int
    pace_s: float
    """How long those who write rest at most."""
    work_s: float
    """How long threads take, such as those that sync."""
    fault_pause_s: float
    faults: int
    compacts: bool
    setup: Setup
    client: ClientSettings
    tiering: TieringSettings

    @property
    def options(self) -> dict[str, object]:
        """Return the options of the tables."""
        lake = {
            "table.datalake.enabled": True,
            "table.datalake.format": "iceberg",
            "table.datalake.freshness": "1s",
            "table.datalake.auto-compaction": self.compacts,
            "table.datalake.auto-expire-snapshot": self.compacts,
            "iceberg.history.expire.max-snapshot-age-ms": "4000",
        }
        return {"table.log.ttl": f"{self.log_ttl_ms}ms", **(lake if self.has_lake else {})}


def drawn_plan(chance: random.Random) -> Plan:
    """Draw everything small, so that limits are reached within a few rows."""
    has_lake = chance.random() < 0.85
    return Plan(
        buckets=chance.randint(1, 3),
        is_bucketed=chance.random() < 0.5,
        has_lake=has_lake,
        # Rows that no lake holds would be gone on purpose.
        log_ttl_ms=chance.choice((0, 2_000, 10_000)) if has_lake else 0,
        keys=chance.choice((2, 5, 12)),
        log_writers=chance.randint(1, 3),
        key_writers=chance.randint(1, 3),
        rounds=chance.randint(3, 10),
        pace_s=chance.choice((0.1, 0.5, 1.5)),
        work_s=chance.choice((0.005, 0.05, 0.3)),
        fault_pause_s=chance.choice((0.2, 0.5, 2.0)),
        faults=chance.choice((1, 3, 6, 10)),
        compacts=chance.random() < 0.6,
        setup=_setup(chance),
        client=_client(chance),
        tiering=_tiering(chance),
    )


def _setup(chance: random.Random) -> Setup:
    log = LogSettings(
        segment_bytes_max=chance.choice((64, 1_500, 6_000, 1 << 20)),
        index_interval_bytes=chance.choice((1, 1_000, 64 << 10)),
        checkpoint_interval_bytes=chance.choice((1, 2_000, 64 << 20)),
    )
    server = ServerSettings(
        retention_check_interval_s=chance.choice((1.0, 4.0)),
        kv_snapshot_interval_s=chance.choice((1.5, 6.0, 600.0)),
        kv_snapshot_rows_max=chance.choice((5, 5_000_000)),
        lake_tiering_lease_s=LEASE_S,
        # The lake of the simulation is in memory, where no server looks.
        lake_trusted_tierers="*",
    )
    kv = KvSettings(segment_bytes_max=chance.choice((128, 1_000, 32 << 20)))
    return Setup(server, StorageSettings(log=log, kv=kv), chance.choice((0.0, 0.3, 0.7)))


def _client(chance: random.Random) -> ClientSettings:
    return ClientSettings(
        deadline_s=chance.choice((5.0, 20.0, 60.0)),
        request_timeout_s=chance.choice((1.0, 4.0)),
        connect_timeout_s=5.0,
        batch_rows_max=chance.choice((2, 65_536)),
        fetch_bucket_bytes_max=chance.choice((500, 4 << 20)),
        union_tail_bytes_max=chance.choice((0, 1 << 20)),
        union_memory_bytes_max=chance.choice((500, *[1 << 20] * 9)),
        state_scan_bytes_max=chance.choice((200, 4 << 20)),
    )


def _tiering(chance: random.Random) -> TieringSettings:
    return TieringSettings(
        poll_interval_s=1.0,
        # Who is heard of too seldom learns only from the lake that it has lost a table.
        heartbeat_interval_s=chance.choice((1.0, 5 * LEASE_S)),
        rows_max=chance.choice((10, 1_000)),
        orphans_interval_s=5.0,
        orphans_age_s=60.0,
    )
