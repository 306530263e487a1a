"""A real Apache Fluss cluster on loopback: `python -m scripts.fluss_cluster`.

ZooKeeper, a coordinator and tablet servers are processes of their own, with small heaps and
their data in a temporary directory. The jars come from Maven Central.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from scripts import fluss_layout
from scripts.fluss_layout import HOST, QUICK, Jvm, Layout
from scripts.fluss_nodes import is_listening, tablet_servers
from scripts.fluss_processes import ProcessGroup
from scripts.java import find_java
from scripts.maven import Artifact, MavenError, fetch, fetch_all

# Newest first; not every repository has every release.
VERSIONS = ("1.0.0", "0.9.1-incubating")
VERSION_VARIABLE = "FLUSS_VERSION"
LOGGER = Artifact("org.slf4j", "slf4j-simple", "1.7.36")
REPLICAS_MAX = 3
READY_WITHIN_S = 120.0
POLL_S = 0.1


class ClusterError(RuntimeError):
    """Tell that a cluster did not do what it should, with the end of its logs."""


def fluss_version() -> str:
    """Return the version of Apache Fluss to run: the one asked for, or the newest to be had."""
    if asked := os.environ.get(VERSION_VARIABLE):
        return asked
    for version in VERSIONS[:-1]:
        try:
            fetch(server_jar(version))
        except MavenError as fault:
            print(f"{fault} Going on with an older version.", flush=True)
        else:
            return version
    return VERSIONS[-1]


def server_jar(version: str) -> Artifact:
    """Return the server's jar, which holds all that it needs but a logger."""
    return Artifact("org.apache.fluss", "fluss-server", version)


def java_command(version: str, *, jars: Iterable[Artifact] = ()) -> list[str]:
    """Return the start of each command line: Java and the class path."""
    try:
        found = fetch_all((server_jar(version), LOGGER, *jars))
    except MavenError as fault:
        hint = f"{VERSION_VARIABLE} chooses another version of Apache Fluss."
        raise ClusterError(f"{fault} {hint}") from fault
    return [find_java(), "-cp", os.pathsep.join(map(str, found))]


class FlussCluster:
    """Run a cluster: `with FlussCluster.start(tablet_servers=3) as cluster: cluster.bootstrap`."""

    def __init__(
        self, layout: Layout, group: ProcessGroup, *, version: str, jars: Iterable[Artifact] = ()
    ) -> None:
        self.layout = layout
        self.version = version
        self._group = group
        self._command = java_command(version, jars=jars)
        self._ending = ExitStack()

    @classmethod
    def start(
        cls,
        *,
        tablet_servers: int = 3,
        settings: Mapping[str, str] | None = None,
        version: str | None = None,
        jars: Iterable[Artifact] = (),
        jvm: Jvm = QUICK,
    ) -> "FlussCluster":
        """Start a cluster and wait until its servers know each other.

        Tables have three replicas, or as many as there are tablet servers, unless they say else.
        """
        scratch = tempfile.TemporaryDirectory(prefix="fluss-", ignore_cleanup_errors=True)
        with ExitStack() as ending:
            directory = Path(ending.enter_context(scratch))
            replicas = {"default.replication.factor": str(min(tablet_servers, REPLICAS_MAX))}
            layout = Layout.planned(
                directory,
                tablet_servers=tablet_servers,
                settings=replicas | dict(settings or {}),
                jvm=jvm,
            )
            group = ProcessGroup(directory)
            ending.callback(group.stop)
            cluster = cls(layout, group, version=version or fluss_version(), jars=jars)
            cluster._start()
            cluster._ending = ending.pop_all()
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop everything and remove the data."""
        self._ending.close()

    @property
    def bootstrap(self) -> str:
        """Return the address that a client connects to first: the coordinator's."""
        return f"{HOST}:{self.layout.coordinator_port}"

    @property
    def tablet_addresses(self) -> tuple[str, ...]:
        """Return the addresses of the tablet servers; the index is the id."""
        return tuple(f"{HOST}:{port}" for port in self.layout.tablet_ports)

    @property
    def pids(self) -> dict[str, int]:
        """Return the ids of the processes by name."""
        return {name: process.pid for name, process in self._group.processes.items()}

    def restart_coordinator(self) -> None:
        """Kill -9 the coordinator, start it on its old port, and wait until it serves."""
        self._group.kill("coordinator")
        self._start_coordinator()
        self.await_tablet_servers()

    def kill_tablet_server(self, index: int) -> None:
        """Kill -9 a tablet server; the coordinator misses it when its session ends."""
        self._group.kill(f"tablet-{index}")

    def restart_tablet_server(self, index: int) -> None:
        """Start a killed tablet server on its old data and port, and wait until it serves."""
        self._start_tablet_server(index)
        self.await_tablet_servers()

    def await_tablet_servers(self, ids: Collection[int] | None = None) -> None:
        """Wait until exactly these tablet servers are known to all; None for those that run."""
        wanted = self._running_tablet_servers() if ids is None else set(ids)
        asked = [self.layout.coordinator_port, *(self.layout.tablet_ports[id_] for id_ in wanted)]
        self._wait(
            lambda: all(tablet_servers(HOST, port).keys() == wanted for port in asked),
            what=f"all know the tablet servers {sorted(wanted)}",
        )

    def _start(self) -> None:
        self._group.start("zookeeper", [*self._command, *fluss_layout.zookeeper(self.layout)])
        self._wait(lambda: is_listening(HOST, self.layout.zookeeper_port), what="ZooKeeper listens")
        self._start_coordinator()
        for index in range(len(self.layout.tablet_ports)):
            self._start_tablet_server(index)
        self.await_tablet_servers()

    def _start_coordinator(self) -> None:
        self._group.start("coordinator", [*self._command, *fluss_layout.coordinator(self.layout)])

    def _start_tablet_server(self, index: int) -> None:
        arguments = fluss_layout.tablet_server(self.layout, index)
        self._group.start(f"tablet-{index}", [*self._command, *arguments])

    def _running_tablet_servers(self) -> set[int]:
        names = enumerate(f"tablet-{index}" for index in range(len(self.layout.tablet_ports)))
        return {index for index, name in names if name in self._group.processes}

    def _wait(self, ready: Callable[[], bool], *, what: str) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not ready():
            if ended := self._group.ended():
                raise ClusterError(f"{ended.name} ended by itself.\n{ended.log_tail()}")
            if time.monotonic() > deadline:
                logs = self._group.log_tails()
                raise ClusterError(f"Not within {READY_WITHIN_S} s: {what}.\n{logs}")
            time.sleep(POLL_S)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run an Apache Fluss cluster until Ctrl-C.")
    parser.add_argument("--tablet-servers", type=int, default=3)
    parser.add_argument("--fluss-version", default=None)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with FlussCluster.start(
        tablet_servers=given.tablet_servers, version=given.fluss_version
    ) as cluster:
        print(f"Apache Fluss {cluster.version} at {cluster.bootstrap}; Ctrl-C stops it")
        print(f"tablet servers at {', '.join(cluster.tablet_addresses)}")
        print(f"logs in {cluster.layout.directory}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            # A second signal would leave the stopping half done.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("stopping", flush=True)


if __name__ == "__main__":
    main()
