"""Apache Iceberg's own REST catalog on loopback: the one that its clients are tested with."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.fluss_layout import HOST, free_ports
from scripts.fluss_nodes import is_listening
from scripts.java import find_java
from scripts.maven import Artifact, fetch

# The last version whose jar holds all that the server needs.
SERVER = Artifact("org.apache.iceberg", "iceberg-open-api", "1.10.1")
MAIN_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
READY_WITHIN_S = 60.0
POLL_S = 0.1


@dataclass(slots=True)
class RestCatalog:
    """Hold one catalog server, and the files of its tables."""

    directory: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def options(self) -> dict[str, str]:
        """Return what a lake has to be told to find the catalog."""
        return {"type": "rest", "uri": f"http://{HOST}:{self.port}"}

    @property
    def warehouse(self) -> str:
        """Return where the catalog puts tables."""
        return f"file://{self.directory}/warehouse"

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        command = [find_java(), *JVM_OPTIONS, "-cp", str(fetch(SERVER)), MAIN_CLASS]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **self._variables}
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_listening(HOST, self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = (self.directory / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"The REST catalog did not start: {said}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop the server at once; what it knows stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    @property
    def _variables(self) -> dict[str, str]:
        return {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_WAREHOUSE": self.warehouse,
            "CATALOG_URI": f"jdbc:sqlite:{self.directory}/catalog.db",
            "CATALOG_CLIENTS": "1",  # SQLite has room for one who writes
        }


@contextmanager
def running_rest_catalog() -> Iterator[RestCatalog]:
    """Run an empty catalog."""
    with tempfile.TemporaryDirectory(prefix="headwater-rest-") as directory:
        (port,) = free_ports(1)
        catalog = RestCatalog(Path(directory), port)
        catalog.start()
        try:
            yield catalog
        finally:
            catalog.stop()
