"""Where a command works: a data directory in this process, or the addresses of servers."""

import re
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import MissingError, RequestError

ADDRESS_DEFAULT = "127.0.0.1:9123"
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:/\\\s,]+):[0-9]{1,5}\Z")


@dataclass(frozen=True, slots=True)
class Directory:
    """Name a data directory."""

    path: Path


@dataclass(frozen=True, slots=True)
class Servers:
    """Name the servers that are asked first for the others."""

    addresses: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Hold the name and the password of a user."""

    user: str
    password: str


Target = Directory | Servers


def parse_target(text: str) -> Target:
    """Tell a directory from addresses: an address ends in a port, and no directory has its name."""
    if not text.strip():
        raise RequestError("--at is empty.", hint="Give a directory, or HOST:PORT of a server.")
    path = Path(text).expanduser()
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if path.is_dir() or not addresses or not all(_ADDRESS.match(each) for each in addresses):
        return Directory(path)
    return Servers(addresses)


def check_directory(target: Directory, *, creates: bool) -> None:
    """Refuse a directory that only a command that creates something may make."""
    if creates or target.path.is_dir():
        return
    if target.path.exists():
        raise RequestError(f"{target.path} is not a directory.")
    raise MissingError(
        f"There is no directory {target.path}.",
        hint=f"Give another, or make it with: headwater database create NAME --at {target.path}",
    )


def check_credentials(
    target: Target, *, user: str | None, password: str | None
) -> Credentials | None:
    """Return the credentials to connect with, or say which half of them is missing."""
    if user is None and password is None:
        return None
    if isinstance(target, Directory):
        raise RequestError("--user and --password are for servers.", hint="Leave them out.")
    if not user or password is None:
        missing = "--user" if not user else "--password"
        raise RequestError(f"{missing} is missing.", hint="Give both of --user and --password.")
    return Credentials(user=user, password=password)
