"""Spark servers from the pyspark that pip installed: Spark Connect, and a standalone cluster.

They end at the latest with the process that started them.
"""

import json
import os
import secrets
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from headwater.engines.spark.session import DAEMON, environment_of, settings_of
from scripts.fluss_processes import ProcessGroup

HOST = "127.0.0.1"
READY_WITHIN_S = 90
PORTS = range(20_000, 30_000)
PAUSE_S = 0.1
LOCAL = "local[2,4]"  # two tasks at once, each tried up to four times
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
WORKERS = 2
# Compiled little and collected simply: these live for minutes.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkServerError(RuntimeError):
    """Tell that a server did not start."""


@contextmanager
def connect_server(directory: Path, *, config: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a Spark Connect server, and give the address for `builder.remote`."""
    port = free_port()
    settings = {
        **settings_of(LOCAL),
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        **(config or {}),
    }
    options = [f"--conf={key}={value}" for key, value in settings.items()]
    command = [script("spark-submit"), "--master", LOCAL, "--class", CONNECT_SERVER, *options]
    with processes(directory) as group:
        group.start("connect", [*command, "spark-internal"])
        wait_for(group, port)
        yield f"sc://{HOST}:{port}"


@contextmanager
def standalone_cluster(directory: Path, *, workers: int = WORKERS) -> Iterator[str]:
    """Run a standalone master with workers of one core each, and give the address of the master."""
    port, page = free_port(), free_port()
    address = f"spark://{HOST}:{port}"
    start = script("spark-class")
    with processes(directory) as group:
        at = ["--host", HOST, "--webui-port"]
        group.start("master", [start, MASTER, *at, str(page), "--port", str(port)])
        for number in range(workers):
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / "work")]
            group.start(f"worker-{number}", [start, WORKER, *at, "0", *room, address])
        wait_for_workers(group, page, workers)
        yield address


def cluster_settings() -> dict[str, str]:
    """Return what a session on this cluster sets: its workers have Headwater, as we do."""
    return {
        "spark.python.daemon.module": DAEMON,
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.sql.shuffle.partitions": str(WORKERS * 2),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.driver.extraJavaOptions": SHORT_LIVED,
    }


@contextmanager
def processes(directory: Path) -> Iterator[ProcessGroup]:
    """Give a group whose processes find Java and our Python."""
    before = dict(os.environ)
    os.environ.update(environment_of(LOCAL))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_DAEMON_JAVA_OPTS"] = SHORT_LIVED
    directory.mkdir(parents=True, exist_ok=True)
    group = ProcessGroup(directory)
    try:
        yield group
    finally:
        group.stop()
        os.environ.clear()
        os.environ.update(before)


def script(name: str) -> str:
    """Return the path of a script that comes with pyspark."""
    return str(Path(pyspark.__path__[0]) / "bin" / name)


def free_port() -> int:
    """Return a port that nobody listens on; not one of those that systems hand out themselves."""
    while is_open(port := secrets.choice(PORTS)):
        continue
    return port


def wait_for(group: ProcessGroup, port: int) -> None:
    """Wait until somebody listens on a port."""
    deadline = time.monotonic() + READY_WITHIN_S
    while not is_open(port):
        check(group, deadline)


def wait_for_workers(group: ProcessGroup, page: int, count: int) -> None:
    """Wait until the master knows its workers."""
    deadline = time.monotonic() + READY_WITHIN_S
    while workers_of(page) < count:
        check(group, deadline)


def workers_of(page: int) -> int:
    """Return how many workers a master shows on its page."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=5) as told:
            return int(json.load(told)["aliveworkers"])
    except OSError:
        return 0


def check(group: ProcessGroup, deadline: float) -> None:
    """Wait a moment; fail if the time is over, or a server is."""
    if group.ended() is not None or time.monotonic() > deadline:
        raise SparkServerError(f"Spark did not start.\n{group.log_tails()}")
    time.sleep(PAUSE_S)


def is_open(port: int) -> bool:
    """Tell whether somebody listens on a port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
