"""Get what only the peers need: packages, programs and jars, each once."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".interop"
PACKAGES = (
    "confluent-kafka==2.16.*",
    "nats-py==2.16.*",
    "redis[hiredis]==7.*",
    "matplotlib==3.11.*",
)
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>peers</groupId><artifactId>peers</artifactId>
<version>1</version><dependencies><dependency><groupId>{group}</groupId>
<artifactId>{name}</artifactId><version>{version}</version></dependency></dependencies></project>
"""


def ensure_packages() -> None:
    """Install clients of the peers beside this environment, not in it, and make them known."""
    place = WORK / "peers"
    if not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(place), *PACKAGES], check=True)
    # Behind what is there: of what both hold, this environment's version is the one.
    sys.path.append(str(place))


def ensure_program(name: str, package: str) -> str:
    """Return the path of a program, installed from Debian's packages where it is missing."""
    if (found := _found(name)) is None:
        subprocess.run(["apt-get", "install", "-y", "-q", package], check=True)
        found = _found(name)
    if found is None:
        raise FileNotFoundError(f"There is no {name}; install the package {package}.")
    return found


def ensure_jars(group: str, name: str, version: str) -> Path:
    """Return a folder with a jar and all that it needs."""
    place = WORK / f"{name}-{version}"
    if not place.exists():
        pom = WORK / f"{name}.pom.xml"
        pom.parent.mkdir(exist_ok=True)
        pom.write_text(POM.format(group=group, name=name, version=version))
        maven = [ensure_program("mvn", "maven"), "-q", "-B", "-f", str(pom)]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={place}"]
        subprocess.run([*maven, "dependency:copy-dependencies", *options], check=True)
    return place


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
