"""Where a command works: a data directory in this process, or the addresses of servers."""

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

from headwater.errors import MissingError, RequestError
from headwater.store.local import holds_storage

ADDRESS_DEFAULT = "127.0.0.1:9123"
_PORT_MAX = 65_535
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\Z")
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
    password: str = field(repr=False)


Target = Directory | Servers


def parse_target(text: str) -> Target:
    """Tell a directory from addresses: an address ends in a port, and no directory has its name."""
    if not text.strip():
        raise RequestError("--at is empty.", hint="Give a directory, or HOST:PORT of a server.")
    path = Path(text).expanduser()
    if "://" in text:
        rest = text.partition("://")[2].rstrip("/")
        raise RequestError(f"--at {text} is a URL.", hint=f"Write HOST:PORT: --at {rest}")
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if path.is_dir() or not addresses or not all(_ADDRESS.match(each) for each in addresses):
        return Directory(path)
    return Servers(addresses)


def check_directory(target: Directory, *, creates: bool) -> None:
    """Refuse a directory that only a command that creates something may make."""
    if target.path.is_dir():
        if not (creates or holds_storage(target.path)):
            raise MissingError(
                f"The directory {target.path} holds no storage.",
                hint=f"Give another, or begin: headwater database create NAME --at {target.path}",
            )
        return
    if target.path.exists():
        raise RequestError(f"{target.path} is not a directory.")
    text = str(target.path)
    is_host = _is_host(text)
    # A directory called 'localhost' is what nobody means.
    if creates and not is_host:
        return
    port = ADDRESS_DEFAULT.rpartition(":")[2]
    server = f"{text}:{port}"
    if text.isdigit() and len(text) >= len(port):
        server = f"127.0.0.1:{text}"
    hint = f"For a server, give its port too: --at {server}"
    if not is_host:
        make = f"make it with: headwater database create NAME --at {text}"
        is_word = _HOST.match(text) is not None
        hint = f"{hint}; for a directory, {make}" if is_word else f"Give another, or {make}"
    raise MissingError(f"There is no directory {text}.", hint=hint)


def _is_host(text: str) -> bool:
    """Tell whether a text can hardly be the name of a directory."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost" or (text.isdigit() and int(text) <= _PORT_MAX)
    return True


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
