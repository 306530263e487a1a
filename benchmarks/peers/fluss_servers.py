"""The two servers that speak the protocol of Apache Fluss."""

from collections.abc import Sequence
from pathlib import Path

from scripts.fluss_cluster import FlussCluster, fluss_version, server_jar
from scripts.fluss_layout import TUNED
from scripts.maven import fetch
from tests.serving import ServerProcess

import headwater
from benchmarks.peers.peer import Server

# One copy of everything, as one machine has; buffers as large as they come.
ONE_NODE = {
    "default.replication.factor": "1",
    "server.buffer.memory-size": "512mb",
    "server.buffer.per-request-memory-size": "16mb",
}


class Headwater(Server):
    """Run `headwater serve`."""

    name = "Headwater"
    version = headwater.__version__

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._process: ServerProcess | None = None

    def start(self) -> None:
        self._process = ServerProcess(self.directory / "data")

    @property
    def address(self) -> str:
        return self._running.address

    @property
    def pids(self) -> Sequence[int]:
        return [self._running.pid]

    def stop(self) -> None:
        self._running.stop()

    @property
    def _running(self) -> ServerProcess:
        assert self._process is not None
        return self._process


class Fluss(Server):
    """Run ZooKeeper, a coordinator and one tablet server of Apache Fluss."""

    name = "Apache Fluss"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._cluster: FlussCluster | None = None

    def prepare(self) -> None:
        self.version = fluss_version()
        fetch(server_jar(self.version))

    def start(self) -> None:
        self._cluster = FlussCluster.start(
            tablet_servers=1, settings=ONE_NODE, version=self.version, jvm=TUNED
        )
        self.directory = self._cluster.layout.directory / "tablet-0" / "data"

    @property
    def address(self) -> str:
        return self._running.bootstrap

    @property
    def pids(self) -> Sequence[int]:
        return list(self._running.pids.values())

    def stop(self) -> None:
        self._running.stop()

    @property
    def _running(self) -> FlussCluster:
        assert self._cluster is not None
        return self._cluster
