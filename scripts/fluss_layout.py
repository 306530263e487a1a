"""What the processes of a cluster are told: ports, directories, settings, command lines."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
ZOOKEEPER = "org.apache.fluss.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
COORDINATOR = "org.apache.fluss.server.coordinator.CoordinatorServer"
TABLET_SERVER = "org.apache.fluss.server.tablet.TabletServer"
JVM_OPTIONS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # Arrow reaches for direct buffers
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
ZOOKEEPER_SETTINGS = {
    "clientPortAddress": HOST,
    "tickTime": "1000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
}
SERVER_SETTINGS = {
    # A killed tablet server is missed after this long.
    "zookeeper.client.session-timeout": "8s",
    # The largest pool of a tablet server, by default two thirds of its heap here.
    "server.buffer.memory-size": "64mb",
    "server.buffer.per-request-memory-size": "4mb",
}


@dataclass(frozen=True, slots=True)
class Jvm:
    """Say how much memory each process may have, and how its code is run."""

    heap_mb: Mapping[str, int]
    options: tuple[str, ...] = ()


# A short life is worth a quick start more than fast code.
QUICK = Jvm(
    {ZOOKEEPER: 64, COORDINATOR: 256, TABLET_SERVER: 384},
    ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
)
# As Java chooses for itself, with room enough: for those who measure.
TUNED = Jvm({ZOOKEEPER: 128, COORDINATOR: 512, TABLET_SERVER: 2048})


@dataclass(frozen=True, slots=True)
class Layout:
    """Hold where the parts of a cluster are, and its settings."""

    directory: Path
    zookeeper_port: int
    coordinator_port: int
    tablet_ports: tuple[int, ...]
    settings: Mapping[str, str]
    jvm: Jvm = QUICK

    @classmethod
    def planned(
        cls,
        directory: Path,
        *,
        tablet_servers: int,
        settings: Mapping[str, str],
        jvm: Jvm = QUICK,
    ) -> "Layout":
        """Choose free ports; a server keeps its own over restarts."""
        zookeeper, coordinator, *tablets = free_ports(2 + tablet_servers)
        return cls(directory, zookeeper, coordinator, tuple(tablets), settings, jvm)

    def place(self, name: str) -> Path:
        """Return the directory of one process, made when it is not there."""
        place = self.directory / name
        # Native libraries are unpacked there; a killed process would leave them behind.
        (place / "temporary").mkdir(parents=True, exist_ok=True)
        return place


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports that nothing listens on now, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return tuple(each.getsockname()[1] for each in sockets)


def zookeeper(layout: Layout) -> list[str]:
    """Return what follows `java -cp …` for ZooKeeper."""
    place = layout.place("zookeeper")
    settings = ZOOKEEPER_SETTINGS | {
        "clientPort": str(layout.zookeeper_port),
        "dataDir": str(place / "data"),
    }
    file = place / "zoo.cfg"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return [*_java(layout, place, ZOOKEEPER), ZOOKEEPER, str(file)]


def coordinator(layout: Layout) -> list[str]:
    """Return what follows `java -cp …` for the coordinator."""
    return _server(layout, "coordinator", COORDINATOR, {}, port=layout.coordinator_port)


def tablet_server(layout: Layout, index: int) -> list[str]:
    """Return what follows `java -cp …` for a tablet server."""
    own = {"tablet-server.id": str(index)}
    port = layout.tablet_ports[index]
    return _server(layout, f"tablet-{index}", TABLET_SERVER, own, port=port)


def _server(
    layout: Layout, name: str, main_class: str, own: Mapping[str, str], *, port: int
) -> list[str]:
    place = layout.place(name)
    settings = {
        **SERVER_SETTINGS,
        **layout.settings,
        **own,
        "bind.listeners": f"FLUSS://{HOST}:{port}",
        "zookeeper.address": f"{HOST}:{layout.zookeeper_port}",
        "data.dir": str(place / "data"),
        "remote.data.dir": str(layout.directory / "remote"),
    }
    lines = (f"{key}: {value}\n" for key, value in settings.items())
    (place / "server.yaml").write_text("".join(lines))
    return [*_java(layout, place, main_class), main_class, "--configDir", str(place)]


def _java(layout: Layout, place: Path, main_class: str) -> list[str]:
    heap = layout.jvm.heap_mb[main_class]
    memory = (f"-Xmx{heap}m", f"-XX:MaxDirectMemorySize={heap}m")
    temporary = f"-Djava.io.tmpdir={place / 'temporary'}"
    return [*memory, *layout.jvm.options, *JVM_OPTIONS, temporary]
