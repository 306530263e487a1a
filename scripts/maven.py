"""Fetch jars from Maven Central into a cache, checked against the digests published with them."""

import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

CENTRAL = "https://repo1.maven.org/maven2"
REPOSITORY_VARIABLE = "MAVEN_REPOSITORY"
CACHE_VARIABLE = "HEADWATER_INTEROP_CACHE"
TIMEOUT_S = 120
ATTEMPTS_MAX = 3


class MavenError(RuntimeError):
    """Tell that an artifact could not be had."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Name one jar."""

    group: str
    name: str
    version: str

    @property
    def path(self) -> str:
        """Return where a repository keeps the jar."""
        folder = self.group.replace(".", "/")
        return f"{folder}/{self.name}/{self.version}/{self.name}-{self.version}.jar"


def repository() -> str:
    """Return the repository to ask: Maven Central, or the one the environment names."""
    return os.environ.get(REPOSITORY_VARIABLE, CENTRAL).rstrip("/")


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
    url = f"{repository()}/{artifact.path}"
    print(f"fetching {url}", flush=True)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            return _download(url, target)
        except urllib.error.HTTPError as fault:
            raise MavenError(_refusal(artifact, f"{fault.code} {fault.reason}")) from fault
        except OSError as fault:
            if attempt == ATTEMPTS_MAX:
                raise MavenError(_refusal(artifact, str(fault))) from fault
    raise AssertionError


def _download(url: str, target: Path) -> Path:
    with urllib.request.urlopen(f"{url}.sha1", timeout=TIMEOUT_S) as response:
        published = response.read().decode().split()[0]
    # Under its own name only when whole and checked, so that the cache needs no second look.
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part") as part:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            shutil.copyfileobj(response, part)
        part.seek(0)
        digest = hashlib.file_digest(part, "sha1").hexdigest()
        if digest != published:
            raise OSError(f"the digest is {digest}, published is {published}")
        os.link(part.name, target)
    return target


def _refusal(artifact: Artifact, reason: str) -> str:
    return (
        f"{artifact.group}:{artifact.name}:{artifact.version} cannot be had from {repository()} "
        f"({reason}). Choose another repository with {REPOSITORY_VARIABLE}."
    )
