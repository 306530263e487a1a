"""Fetch jars with the machine's own Maven client, so that its mirrors and settings apply."""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "HEADWATER_INTEROP_CACHE"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
# Quiet, without questions, and strict about the checksums that are published with each jar.
OPTIONS = ("-q", "-B", "-C", "-Dstyle.color=never", "-Dmdep.useBaseVersion=true")
TIMEOUT_S = 600
REASON = re.compile(
    r"^.*?\[ERROR\] Failed .*? on project [^:]*: (.*?)(?: -> \[Help.*)?$", re.MULTILINE
)


class MavenError(RuntimeError):
    """Tell that an artifact could not be had."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Name one jar."""

    group: str
    name: str
    version: str

    @property
    def coordinates(self) -> str:
        """Return the name that Maven takes."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def path(self) -> str:
        """Return where a repository keeps the jar."""
        folder = self.group.replace(".", "/")
        return f"{folder}/{self.name}/{self.version}/{self.name}-{self.version}.jar"


def cache_directory() -> Path:
    """Return where jars are kept between runs."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "headwater" / "interop"


def fetch(artifact: Artifact) -> Path:
    """Return the jar of an artifact, downloaded when it is not in the cache yet."""
    target = cache_directory() / artifact.path
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"fetching {artifact.coordinates}", flush=True)
    # Moved to its own name only when whole, so that the cache needs no second look.
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        command = [maven(), *OPTIONS, COPY, f"-Dartifact={artifact.coordinates}"]
        told = subprocess.run(
            [*command, f"-DoutputDirectory={place}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        if told.returncode != 0:
            raise MavenError(refusal(artifact, told.stdout + told.stderr))
        (Path(place) / target.name).replace(target)
    return target


def maven() -> str:
    """Return the Maven client, installed from Debian's packages where it is missing."""
    if found := shutil.which("mvn"):
        return found
    if os.geteuid() == 0 and (packages := shutil.which("apt-get")):
        subprocess.run([packages, "install", "-y", "-q", "maven"], check=True)
    if found := shutil.which("mvn"):
        return found
    raise MavenError("There is no Maven client (mvn). Install Apache Maven, and try again.")


def refusal(artifact: Artifact, told: str) -> str:
    """Return why Maven did not bring an artifact, in one line."""
    found = REASON.search(told)
    reason = found[1] if found else "it did not say why"
    return (
        f"Maven could not fetch {artifact.coordinates} ({reason}). "
        "A mirror or a proxy goes into Maven's settings.xml."
    )
