"""A tierer as one piece of work: until all is tiered, or until it is stopped."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from headwater.client.client import AsyncClient, connect
from headwater.client.paths import table_path
from headwater.config.client import ClientSettings
from headwater.embedded.storage import open_storage
from headwater.lake.lakes import Lakes
from headwater.tiering.progress import Listener, deaf
from headwater.tiering.runner import Here, Runner
from headwater.tiering.service import TieringService
from headwater.tiering.settings import TieringSettings

StartRunner: TypeAlias = Callable[[AsyncClient], AbstractAsyncContextManager[Runner]]
"""Gives what runs tasks, once the storage is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringJob:
    """Say which tables of which storage go to the lake, and how."""

    target: str | Path
    """A data directory, or HOST:PORT of servers with commas between them."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    deadline_s: float = ClientSettings().deadline_s
    """Seconds that one call to the server may take with all its retries."""
    waits: bool = False
    """Whether to wait that long for a server that is not there yet."""
    tables: tuple[str, ...] = ()
    """All that have a lake table, unless some are named."""
    lake: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the lake's catalog that stand above those that the server tells."""
    settings: TieringSettings = field(default_factory=TieringSettings)
    is_once: bool = True
    listens: bool = False
    """Whether a directory that is opened can be reached from other processes."""


@asynccontextmanager
async def run_here(client: AsyncClient) -> AsyncIterator[Runner]:
    """Run tasks in this process."""
    yield Here(client)


async def run_job(
    job: TieringJob, start_runner: StartRunner = run_here, *, listener: Listener = deaf
) -> None:
    """Tier until all is in the lake, or with `is_once` off until cancelled.

    1. Reach the storage. 2. Start what runs tasks, which may take long, and would be in vain
    without a storage. 3. Tier.
    """
    paths = [table_path(name) for name in job.tables]
    async with _reached(job) as client, start_runner(client) as runner:
        service = TieringService(
            client,
            runner,
            settings=job.settings,
            lakes=Lakes(config=job.lake),
            listener=listener,
        )
        await (service.run_once if job.is_once else service.run)(tables=paths)


@asynccontextmanager
async def _reached(job: TieringJob) -> AsyncIterator[AsyncClient]:
    settings = ClientSettings(deadline_s=job.deadline_s)
    if job.waits:
        settings = replace(settings, connect_timeout_s=job.deadline_s, waits_for_server=True)
    if is_directory(job.target):
        opening = open_storage(job.target, listen=job.listens, settings=settings)
    else:
        opening = connect(str(job.target), user=job.user, password=job.password, settings=settings)
    async with await opening as client:
        yield client


def is_directory(target: str | Path) -> bool:
    """Tell a directory from addresses, which end in a port."""
    return isinstance(target, Path) or ":" not in target or Path(target).expanduser().is_dir()
