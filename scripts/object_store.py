"""An emulated object store on loopback, in an environment of its own: `python -m moto.server`."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from scripts.fluss_layout import HOST, free_ports
from scripts.fluss_nodes import is_listening

EMULATOR = "moto[s3,server]==5.2.*"
BUCKET = "lake"
REGION = "us-east-1"
READY_WITHIN_S = 60.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Say where an emulated store is."""

    endpoint: str

    @property
    def warehouse(self) -> str:
        """Return where a lake may lie."""
        return f"s3://{BUCKET}/warehouse"

    @property
    def options(self) -> dict[str, str]:
        """Return what a lake has to be told to find the store."""
        # There is no name for each bucket on loopback.
        return {
            "s3.endpoint": self.endpoint,
            "s3.path-style-access": "true",
            "s3.region": REGION,
        }

    @property
    def variables(self) -> dict[str, str]:
        """Return what processes need in their environment to be let in."""
        return {
            "AWS_ACCESS_KEY_ID": "access",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def fetch_emulator(work: Path) -> Path:
    """Install the emulator in an environment of its own, once, and return its Python."""
    place = work / "moto"
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        _run(sys.executable, "-m", "venv", "--clear", str(place))
        _run(str(python), "-m", "pip", "install", "-q", EMULATOR)
        (place / "ready").touch()
    return python


def fetch_client(work: Path) -> Path:
    """Install the client of S3 that fits our fsspec beside our packages, and return the place."""
    place = work / f"s3fs-{version('fsspec')}"
    if not place.exists():
        wanted = f"s3fs=={version('fsspec')}"
        _run(sys.executable, "-m", "pip", "install", "-q", "--target", str(place), wanted)
    return place


@contextmanager
def running_store(python: Path) -> Iterator[ObjectStore]:
    """Run an emulated store with one bucket."""
    (port,) = free_ports(1)
    command = [str(python), "-m", "moto.server", "-H", HOST, "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=_environment(), **quiet)
    try:
        endpoint = f"http://{HOST}:{port}"
        _await(process, port)
        with urllib.request.urlopen(_made(f"{endpoint}/{BUCKET}"), timeout=READY_WITHIN_S):
            yield ObjectStore(endpoint)
    finally:
        process.kill()
        process.wait()


def _made(url: str) -> urllib.request.Request:
    return urllib.request.Request(url, method="PUT")


def _environment() -> dict[str, str]:
    # What is installed for our own process does not fit the emulator's.
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _await(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not is_listening(HOST, port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"The emulated object store did not start ({process.args!r}).")
        time.sleep(POLL_S)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
