"""A PostgreSQL on loopback, in a directory of its own, stopped and started as tests want it."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.fluss_layout import HOST, free_ports
from scripts.fluss_nodes import is_listening

DRIVER = "psycopg2-binary==2.9.*"
PROGRAMS = Path("/usr/lib/postgresql")  # where Debian puts every version
USER, PASSWORD, DATABASE = "lake", "secret-of-the-lake", "postgres"
OTHER_USERS = ("postgres", "nobody")  # it does not run as root
READY_WITHIN_S = 60.0
POLL_S = 0.05
# What is lost with the machine is made anew.
SETTINGS = {"listen_addresses": HOST, "fsync": "off", "max_connections": "50"}


class PostgresMissingError(RuntimeError):
    """Tell that there is no PostgreSQL here, and that it cannot be installed."""


@dataclass(slots=True)
class Postgres:
    """Hold one PostgreSQL server."""

    programs: Path
    directory: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def address(self) -> str:
        """Return where the server is, with user and password."""
        return self._address(DATABASE)

    def new_database(self, name: str) -> str:
        """Make a database beside the first, and return its address."""
        command = [str(self.programs / "createdb"), "-h", HOST, "-p", str(self.port), "-U", USER]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        subprocess.run([*command, name], env=environment, check=True)
        return self._address(name)

    def _address(self, database: str) -> str:
        return f"postgresql://{USER}:{PASSWORD}@{HOST}:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = SETTINGS | dict(self.settings) | {"unix_socket_directories": str(self.directory)}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *options], stdout=log, stderr=log, **_unprivileged()
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {self._log()}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop the server at once; clients lose their connections."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(READY_WITHIN_S)
            self.process = None

    def restart(self) -> None:
        """Restart the server; clients lose their connections."""
        self.stop()
        self.start()

    def make(self) -> None:
        """Make the files of an empty server."""
        if os.geteuid() == 0:
            shutil.chown(self.directory, _other_user())
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)  # read by another user, and gone in a moment
        command = [str(self.programs / "initdb"), "-D", str(self._data), "-U", USER]
        options = ["--pwfile", str(secret), "-A", "scram-sha-256", "--no-sync", "--no-locale"]
        made = subprocess.run(
            [*command, *options, "-E", "UTF8"], capture_output=True, check=False, **_unprivileged()
        )
        secret.unlink()
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.decode()}")

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _is_ready(self) -> bool:
        # It listens some time before it lets anybody in.
        asked = [str(self.programs / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        return is_listening(HOST, self.port) and not subprocess.run(asked, check=False).returncode

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-2000:]


@contextmanager
def running_postgres(
    programs: Path | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Postgres]:
    """Run an empty server: the newest that is installed, or the one of these programs."""
    # Not below the directories of tests, which other users cannot enter.
    place_for_all = "/tmp" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="headwater-postgres-", dir=place_for_all) as directory:
        (port,) = free_ports(1)
        place = programs or find_programs()
        server = Postgres(place, Path(directory), port, settings or {})
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def find_programs() -> Path:
    """Return the directory of the newest installed version's programs."""
    found = sorted(PROGRAMS.glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    if found:
        return found[-1].parent
    raise PostgresMissingError(f"There is no PostgreSQL below {PROGRAMS}: install 'postgresql'.")


def ensure_postgres() -> None:
    """Install PostgreSQL when it is not there and we may."""
    try:
        find_programs()
    except PostgresMissingError:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise
        subprocess.run(["apt-get", "install", "-y", "postgresql"], check=True)


def fetch_driver(work: Path) -> Path:
    """Install the driver beside our packages, once, and return the place."""
    place = work / DRIVER.partition("=")[0]
    if not place.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(place), DRIVER]
        subprocess.run(command, check=True)
    return place


def _unprivileged() -> dict[str, str]:
    return {"user": _other_user()} if os.geteuid() == 0 else {}


def _other_user() -> str:
    known = {each.pw_name for each in pwd.getpwall()}
    return next(name for name in OTHER_USERS if name in known)
