"""The `headwater` command with settings of a test's choice: small files, short leases.

HEADWATER_TORTURE holds them as JSON: fields of `ServerSettings`, and sizes of files.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

from headwater.cli import main
from headwater.cli import serve_run as serving
from headwater.config.server import ServerSettings
from headwater.kv.store import KvSettings
from headwater.log.retention import LogSettings
from headwater.server import connection as keep_alive
from headwater.server import upkeep
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings

VARIABLE = "HEADWATER_TORTURE"
MODULE = __name__ if __name__ != "__main__" else "tests.torture.server"
SMALL = {"log": 40_000, "kv": 8_000, "kv_snapshot_interval_s": 0.1, "state_interval_s": 0.05}
"""Files so small that they are rolled, saved and compacted all the time."""


def told(**settings: float | str) -> dict[str, str]:
    """Return the environment that gives a server these settings on top of the small ones."""
    return {VARIABLE: json.dumps(SMALL | settings)}


class SetServer(Server):
    """Be a server with the settings of the environment."""

    @classmethod
    async def start(cls, directory: Path, settings: ServerSettings, **parts) -> Server:
        wanted = json.loads(os.environ.get(VARIABLE, "{}"))
        log = LogSettings(
            segment_bytes_max=wanted.pop("log", 1 << 30),
            index_interval_bytes=2_000,
            checkpoint_interval_bytes=wanted.pop("checkpoint", 64 << 20),
        )
        kv = KvSettings(segment_bytes_max=wanted.pop("kv", 32 << 20))
        if times := wanted.pop("keep_alive", ""):
            keep_alive.IDLE_S, keep_alive.PROBE_S, keep_alive.PROBES = map(int, times.split())
            keep_alive.UNTAKEN_MS = 1000 * (keep_alive.IDLE_S + keep_alive.PROBE_S * 3)
        upkeep.STATE_INTERVAL_S = wanted.pop("state_interval_s", 1.0)
        return await Server.start(
            directory, replace(settings, **wanted), storage=StorageSettings(log, kv), **parts
        )


if __name__ == "__main__":
    serving.Server = SetServer
    main.app()
