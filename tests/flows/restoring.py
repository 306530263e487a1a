"""A storage that can be copied while it runs, and replaced by its copy under living clients."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.client.client import AsyncClient, connect
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.server.logins import Users
from headwater.server.server import Server

PATIENT = ClientSettings(deadline_s=60.0)


class Restorable:
    """Serve a directory at one address, whatever becomes of the directory."""

    def __init__(self, directory: Path, *, users: Users | None = None) -> None:
        self.directory = directory
        self._users = users
        self._copies = 0
        self._port = 0
        self.server: Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        settings = ServerSettings(host="127.0.0.1", port=self._port)
        self.server = await Server.start(self.directory, settings, users=self._users)
        self._port = self.server.port

    async def stop(self) -> None:
        assert self.server is not None
        await self.server.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def copy(self) -> Path:
        """Copy the directory as it is, the server's loop held up meanwhile."""
        self._copies += 1
        copy = self.directory.with_name(f"{self.directory.name}-{self._copies}")
        return Path(shutil.copytree(self.directory, copy))

    async def restore(self, copy: Path) -> None:
        """Put a copy in the place of the directory, as the book says: server stopped."""
        await self.stop()
        shutil.rmtree(self.directory)
        await asyncio.to_thread(shutil.copytree, copy, self.directory)
        await self.start()

    async def client(self, user: str | None = None) -> AsyncClient:
        return await connect(self.address, user=user, password=user, settings=PATIENT)


@asynccontextmanager
async def restorable(directory: Path, *, users: Users | None = None) -> AsyncIterator[Restorable]:
    storage = Restorable(directory, users=users)
    await storage.start()
    try:
        yield storage
    finally:
        await storage.stop()
