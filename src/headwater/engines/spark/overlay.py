"""Homes of Spark and Java that differ in one thing from those installed, made of links to them."""

import atexit
import hashlib
import os
import shlex
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

# What an overlay consists of is part of its name, so that versions do not meet in one.
_LAYOUT = "1"
_KEY_CHARACTERS = 16
_PROCESS = "process-"
# All of a home that is asked for by name, but for "python".
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
    """Return a home of Spark from whose archive no Python worker imports.

    Workers search pyspark in an archive inside the home before they look into site-packages. An
    archive holds no compiled modules, so each new worker compiles all of pyspark again. Without
    one they import what pip installed. Logging is quiet, unless the home has settings for it.
    """
    overlay = _directory("spark", installed)
    for name in _LINKED:
        if (installed / name).exists():
            _link(overlay / name, installed / name)
    if not (installed / _CONF).exists():
        _write(overlay / _CONF / "log4j2.properties", _LOGGING)
    return overlay


def java_without_vectors(installed: Path, module: str) -> Path:
    """Return a home of Java that is started without a module that it does not have."""
    overlay = _directory("java", installed)
    command, refused = installed / "bin" / "java", f"--add-modules={module}"
    script = _JAVA.format(command=shlex.quote(str(command)), refused=shlex.quote(refused))
    _write(overlay / "bin" / "java", script, mode=0o700)
    return overlay


@cache
def scratch() -> Path:
    """Return a directory of this process, which is removed when it ends, or soon after."""
    place = _place()
    if place is not None:
        _tidy(place)
    directory = tempfile.mkdtemp(prefix=f"{_PROCESS}{os.getpid()}-", dir=place)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _tidy(place: Path) -> None:
    """Remove what processes left behind that were killed."""
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
    """Return the directory of an overlay: one for each user and installation, used again."""
    key = hashlib.sha256(f"{_LAYOUT}:{installed}".encode()).hexdigest()[:_KEY_CHARACTERS]
    directory = (_place() or scratch()) / f"{kind}-{key}"
    directory.mkdir(exist_ok=True)
    return directory


def _place() -> Path | None:
    """Return the directory of this user for what is temporary, if it is safe to use."""
    place = Path(tempfile.gettempdir()) / f"headwater-{os.getuid()}"
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    # Others may write beside it, and what lies here is run: trust only what is ours alone.
    found = place.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return place if is_ours and not found.st_mode & 0o022 else None


def _link(link: Path, target: Path) -> None:
    # Others make the same overlay at the same moment, and temporary files are tidied away: so
    # whoever uses it adds what is missing, one whole entry at a time.
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
