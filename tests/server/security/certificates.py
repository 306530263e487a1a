"""Certificates of a CA that only the tests know, and clients that trust it."""

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headwater.cli.security import make_certificate
from headwater.cluster.links import TcpConnection
from headwater.cluster.login import Credentials, Tls
from headwater.config.client import ClientSettings
from headwater.wire import fluss_pb2 as pb
from tests.server.support import HOST

NAMES = ("localhost", "127.0.0.1")
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Authority:
    """A CA in a directory of its own."""

    directory: Path

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.pem")

    def server(self, *names: str, days: int = 30) -> dict[str, str]:
        """Make a server's certificate and return the settings that name it."""
        make_certificate.make_server(self.directory, names or NAMES, days=days)
        return self.settings

    @property
    def settings(self) -> dict[str, str]:
        return {
            "tls_certificate_file": str(self.directory / "server.pem"),
            "tls_key_file": str(self.directory / "server.key"),
        }

    def client(self, name: str, *, groups: tuple[str, ...] = ()) -> dict[str, str]:
        """Make a client's certificate and return the settings that name it."""
        made = make_certificate.make_client(self.directory, name, groups=groups, days=30)
        return {"tls_certificate_file": str(made), "tls_key_file": str(made.with_suffix(".key"))}

    def trusted(self, **more: str) -> Tls:
        """Return how a client talks to a server with a certificate of this CA."""
        found = Tls.of(ClientSettings(tls=True, tls_ca_file=self.ca, **more))
        assert found is not None
        return found

    def expired(self, monkeypatch) -> dict[str, str]:
        """Make a server's certificate that was valid until an hour ago."""
        with monkeypatch.context() as patched:
            patched.setattr(make_certificate, "SystemClock", _YesterdaysClock)
            return self.server(days=1)


class _YesterdaysClock:
    def now_ms(self) -> int:
        passed = datetime.now(UTC) - timedelta(days=1, hours=1)
        return int(passed.timestamp() * 1000)


@asynccontextmanager
async def secured(server, tls, user="", password="", **login):
    """Connect to the TLS port of a server."""
    credentials = Credentials(user, password, **login) if user or login else None
    connection = await TcpConnection.open(
        HOST, server.tls_port, tls=tls, credentials=credentials, timeout_s=10.0
    )
    try:
        yield connection
    finally:
        await connection.close()


async def databases(connection: TcpConnection) -> list[str]:
    answer = await connection.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
    return list(answer.database_name)
