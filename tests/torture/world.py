"""A server with writers, readers and a tierer around it, any of which may be killed."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.aio import connect
from tests.serving import ServerProcess
from tests.torture.processes import NOT_NOW, WELL, Process, wait_until
from tests.torture.progress import PROGRESS_WITHIN_S, await_progress
from tests.torture.server import MODULE, told
from tests.torture.worker import KEYED, LOG

FORMATS = ("iceberg", "paimon")
# Longer than tierers are silent at work: they tell of themselves every 10 seconds.
LEASE_S = 20.0
# Those who give up soon are not told what became of some of their rows.
PATIENT, HASTY = {"deadline_s": 60.0}, {"deadline_s": 0.8, "request_timeout_s": 0.5}
BOTH = (("append+upsert+tail", "a", PATIENT), ("append+upsert+tail", "b", HASTY))
CLIENTS = (
    ("append", "a", PATIENT),
    ("append", "b", HASTY),
    ("upsert", "c", PATIENT),
    ("upsert", "d", HASTY),
    ("tail", "e", PATIENT),
    ("tail", "f", PATIENT),
)


class World:
    """Hold the processes of one story, their directory, and their journals beside it."""

    def __init__(
        self,
        place: Path,
        *,
        data: Path | None = None,
        formats: Sequence[str] = FORMATS,
        host: str = "127.0.0.1",
        options: Sequence[str] = (),
        before: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        **settings: float | str,
    ) -> None:
        self.place = place
        self.formats = formats
        self.host = host
        self._options = options
        self._before = before
        self.data = place / "data"
        self.journals = place / "journals"
        self.journals.mkdir(parents=True)
        if data is not None:
            # What the server tells stays beside it, whatever becomes of its disk.
            self.data.symlink_to(data, target_is_directory=True)
        told_settings = told(**{"lake_tiering_lease_s": LEASE_S} | settings)
        self.variables = told_settings | dict(variables or {})
        self.server = self.start()
        self.clients: list[Process] = []
        self.tierers: list[Process] = []
        self._started = 0
        self._journals_of: dict[int, list[Path]] = {}

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def port(self) -> int:
        return self.server.port

    def start(self, *, port: int = 0, before: Sequence[str] = ()) -> ServerProcess:
        return ServerProcess(
            self.data,
            *self._options,
            port=port,
            module=MODULE,
            before=before or self._before,
            variables=self.variables,
        )

    def restart(self, **settings: float | str) -> None:
        """Start the server again where it was, with other settings if some are given."""
        if settings:
            self.variables |= told(**settings)
        self.server = self.start(port=self.server.port)

    def make_tables(self) -> None:
        asyncio.run(self._make_tables())

    async def _make_tables(self) -> None:
        async with await connect(self.address) as client:
            await client.create_database("torture")
            lakes = [
                {
                    "table.datalake.enabled": "true",
                    "table.datalake.format": each,
                    "table.datalake.freshness": "100 ms",
                }
                for each in self.formats
            ]
            await client.create_table(
                LOG,
                {"lane": "STRING", "value": "STRING"},
                bucket_by="lane",
                buckets=2,
                options=lakes[0],
            )
            await client.create_table(
                KEYED,
                {"id": "STRING", "value": "STRING"},
                primary_key="id",
                buckets=2,
                options=lakes[-1],
            )

    # ---- those around it

    def start_clients(self, kinds: Sequence[tuple[str, str, Mapping[str, float]]] = CLIENTS):
        """Start clients, and wait until all of them have begun."""
        for kind, name, settings in kinds:
            self.clients.append(self.start_client(kind, name, settings))
        wanted = sum(len(kind.split("+")) for kind, _, _ in kinds)
        wait_until(lambda: self._begun() >= wanted)

    def _begun(self) -> int:
        self._check_clients()
        return sum(bool(each.stat().st_size) for each in self.files())

    def start_client(self, kinds: str, name: str, settings: Mapping[str, float]) -> Process:
        self._started += 1
        called = f"{name}{self._started}"
        client = Process(
            "tests.torture.worker",
            kinds,
            self.address,
            called,
            str(self.journals),
            json.dumps(settings),
            log=self.place / "clients.log",
        )
        files = [self.journals / f"{kind}-{called}" for kind in kinds.split("+")]
        self._journals_of[client.pid] = files
        return client

    def files(self) -> list[Path]:
        """Return the journals that there are."""
        return sorted(self.journals.iterdir())

    def start_tierer(self, *options: str) -> Process:
        tierer = Process(
            "headwater",
            "tier",
            "--here",
            "--poll",
            "0.1",
            "--at",
            self.address,
            *options,
            log=self.place / "tierers.log",
        )
        self.tierers.append(tierer)
        return tierer

    def stop_clients(self, *, progress_within_s: float = PROGRESS_WITHIN_S) -> None:
        """See that all get on, whatever was broken before; then let them end what they began."""
        files = [file for each in self.clients for file in self._journals_of[each.pid]]
        await_progress(files, within_s=progress_within_s, check=self._check_clients)
        while self.clients:
            self.clients.pop().stop()

    def _check_clients(self) -> None:
        assert all(each.is_running for each in self.clients), self.clients[0].told()

    def stop_tierers(self) -> None:
        while self.tierers:
            tierer = self.tierers.pop()
            # One that never reached the server has said so, and ended; no other ends unasked.
            code = tierer.exit_code
            assert code in (None, NOT_NOW), f"a tierer ended with {code}: {tierer.told()}"
            tierer.stop(expect=(*WELL, NOT_NOW))

    def close(self) -> None:
        """Leave nothing behind, however the story went."""
        for each in (*self.clients, *self.tierers):
            if each.is_running:
                each.kill()
        self.server.kill()
