"""The `headwater` command with states so small that they are saved and compacted all the time."""

from dataclasses import replace
from pathlib import Path

from headwater.cli import main
from headwater.cli import serve_run as serving
from headwater.config.server import ServerSettings
from headwater.kv.store import KvSettings
from headwater.log.retention import LogSettings
from headwater.server import upkeep
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings

STORAGE = StorageSettings(
    LogSettings(segment_bytes_max=20_000, index_interval_bytes=2_000),
    KvSettings(segment_bytes_max=4_000),
)


class SmallServer(Server):
    @classmethod
    async def start(cls, directory: Path, settings: ServerSettings, **parts) -> Server:
        hasty = replace(settings, kv_snapshot_interval_s=0.1)
        return await Server.start(directory, hasty, storage=STORAGE, **parts)


if __name__ == "__main__":
    upkeep.STATE_INTERVAL_S = 0.03
    serving.Server = SmallServer
    main.app()
