"""Fetch jars with the machine's own Maven client, so that its mirrors and settings apply."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "HEADWATER_INTEROP_CACHE"
# Later versions also want the parent of each POM, which some of the jars do not have anywhere.
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.10:copy"
# Quiet, without questions, and strict about the checksums that are published with each jar.
OPTIONS = ("-q", "-B", "-C", "-Dstyle.color=never")
TIMEOUT_S = 1200
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headwater</groupId><artifactId>jars</artifactId><version>1</version>
<packaging>pom</packaging><build><plugins><plugin><groupId>org.apache.maven.plugins</groupId>
<artifactId>maven-dependency-plugin</artifactId><configuration><useBaseVersion>true</useBaseVersion>
<outputDirectory>{place}</outputDirectory><artifactItems>{items}</artifactItems></configuration>
</plugin></plugins></build></project>
"""
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
    return fetch_all([artifact])[0]


def fetch_all(artifacts: Iterable[Artifact]) -> list[Path]:
    """Return the jars of artifacts; those that are not in the cache yet come in one go."""
    wanted = {artifact: cache_directory() / artifact.path for artifact in artifacts}
    if missing := [artifact for artifact, path in wanted.items() if not path.exists()]:
        _download(missing)
    return list(wanted.values())


def _download(artifacts: Sequence[Artifact]) -> None:
    names = ", ".join(each.coordinates for each in artifacts)
    print(f"fetching {names}", flush=True)
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as place:
        project = Path(place) / "pom.xml"
        project.write_text(POM.format(items="".join(map(_item, artifacts)), place=place))
        told = subprocess.run(
            [maven(), *OPTIONS, "-f", str(project), COPY],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        if told.returncode != 0:
            raise MavenError(refusal(names, told.stdout + told.stderr))
        for each in artifacts:
            # Moved to its own name only when whole, so that the cache needs no second look.
            target = cache / each.path
            target.parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / target.name).replace(target)


def _item(artifact: Artifact) -> str:
    return (
        f"<artifactItem><groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
        f"<version>{artifact.version}</version></artifactItem>"
    )


def maven() -> str:
    """Return the Maven client, installed from Debian's packages where it is missing."""
    if found := shutil.which("mvn"):
        return found
    if os.geteuid() == 0 and (packages := shutil.which("apt-get")):
        subprocess.run([packages, "install", "-y", "-q", "maven"], check=True)
    if found := shutil.which("mvn"):
        return found
    raise MavenError("There is no Maven client (mvn). Install Apache Maven, and try again.")


def refusal(names: str, told: str) -> str:
    """Return why Maven did not bring artifacts, in one line."""
    found = REASON.search(told)
    reason = found[1] if found else "it did not say why"
    return (
        f"Maven could not fetch {names} ({reason}). "
        "A mirror or a proxy goes into Maven's settings.xml."
    )
