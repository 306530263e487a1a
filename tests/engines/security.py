"""A server with TLS and users in a process of its own, and what its clients have to know."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import headwater
from headwater.cli.security import make_certificate
from headwater.server.logins import Users
from tests.serving import serving

USER, PASSWORD = "ann", "correct horse"
ROWS = [{"id": number, "name": f"n{number}"} for number in range(50)]


@dataclass(frozen=True)
class Guarded:
    """Where the server is, and its CA."""

    address: str
    ca: str

    def connect(self) -> headwater.Client:
        return headwater.connect(
            self.address,
            user=USER,
            password=PASSWORD,
            mechanism="SCRAM-SHA-512",
            tls=True,
            tls_ca_file=self.ca,
        )

    @property
    def options(self) -> dict[str, str]:
        """What Spark has to know."""
        return {
            "bootstrap.servers": self.address,
            "client.security.protocol": "SASL",
            "client.security.sasl.mechanism": "SCRAM-SHA-512",
            "client.security.sasl.username": USER,
            "client.security.sasl.password": PASSWORD,
            "client.security.ssl.enabled": "true",
            "client.security.ssl.ca-file": self.ca,
        }


@contextmanager
def guarded(directory: Path) -> Iterator[Guarded]:
    """Serve a table `shop.people` to those who know the password."""
    certificates = directory / "certificates"
    made = make_certificate.make_server(certificates, ["localhost", "127.0.0.1"], days=2)
    users = directory / "users"
    Users({}).with_user(USER, PASSWORD).save(users)
    options = [f"--tls-certificate={made}", f"--tls-key={made.with_suffix('.key')}"]
    with serving(directory / "data", *options, f"--users={users}") as server:
        found = Guarded(server.address, str(certificates / "ca.pem"))
        with found.connect() as client:
            client.create_database("shop")
            columns = {"id": "int", "name": "string"}
            client.create_table("shop.people", columns, primary_key="id").upsert(ROWS)
        yield found
