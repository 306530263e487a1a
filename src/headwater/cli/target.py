"""What a command works on: a directory or servers to open, and files with rows."""

import io
import ipaddress
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

import headwater
from headwater.config.client import (
    SECURITY,
    ClientSettings,
    Security,
    settings_with_security,
)
from headwater.errors import AuthenticationError, MissingError, RequestError, ServerUnreachableError
from headwater.store.local import holds_storage

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

ADDRESS_DEFAULT = "127.0.0.1:9123"
_PORT_MAX = 65_535
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\Z")
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:/\\\s,]+):[0-9]{1,5}\Z")


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A data directory."""

    path: Path


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers to contact first."""

    addresses: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to log in: as a user, and with which encryption."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    security: Security = ()

    @property
    def is_somebody(self) -> bool:
        """Whether a user, a token or a certificate is given."""
        given = {name for name, _ in self.security}
        return self.user is not None or not given.isdisjoint({"token_file", "tls_certificate_file"})


Target = DataDirectory | Servers


def parse_target(text: str) -> Target:
    """Tell a directory from addresses: an address ends in a port, and no directory has its name."""
    if not text.strip():
        raise RequestError("--at is empty.", hint="Pass a directory, or HOST:PORT of a server.")
    path = Path(text).expanduser()
    if "://" in text:
        rest = text.partition("://")[2].rstrip("/")
        raise RequestError(f"--at is a URL: {text}", hint=f"Write HOST:PORT: --at {rest}")
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if path.is_dir() or not addresses or not all(_ADDRESS.match(each) for each in addresses):
        return DataDirectory(path)
    return Servers(addresses)


def check_directory(target: DataDirectory, *, creates: bool) -> None:
    """Reject a missing directory, unless the command may create one."""
    if target.path.is_dir():
        if not (creates or holds_storage(target.path)):
            raise MissingError(
                f"The directory {target.path} contains no storage.",
                hint="Use another, or create one: headwater database create NAME --at "
                f"{target.path}",
            )
        return
    if target.path.exists():
        raise RequestError(f"{target.path} is not a directory.")
    text = str(target.path)
    is_host = _is_host(text)
    # Nobody means a directory called 'localhost'.
    if creates and not is_host:
        return
    port = ADDRESS_DEFAULT.rpartition(":")[2]
    server = f"{text}:{port}"
    if text.isdigit() and len(text) >= len(port):
        server = f"127.0.0.1:{text}"
    hint = f"For a server, add its port: --at {server}"
    if not is_host:
        make = f"create it with: headwater database create NAME --at {text}"
        is_word = _HOST.match(text) is not None
        hint = f"{hint}; for a directory, {make}" if is_word else f"Use another, or {make}"
    raise MissingError(f"There is no directory {text}.", hint=hint)


def _is_host(text: str) -> bool:
    """Tell whether a text is unlikely to be the name of a directory."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost" or (text.isdigit() and int(text) <= _PORT_MAX)
    return True


def check_credentials(
    target: Target, *, user: str | None, password: str | None, security: Security = ()
) -> Login | None:
    """Return how to log in; both halves of a user are required."""
    if user is None and password is None and not security:
        return None
    if isinstance(target, DataDirectory):
        options = [SECURITY[name] for name, _ in security]
        raise RequestError(
            f"{', '.join(options) or '--user and --password'} are only for servers.",
            hint="Leave them out.",
        )
    if (user or None) is None and password is None:
        return Login(security=security)
    if not user or password is None:
        missing = "--user" if not user else "--password"
        raise RequestError(f"{missing} is missing.", hint="Pass both --user and --password.")
    return Login(user=user, password=password, security=security)


# Opening what a command works on.

NO_SERVER = (
    "Start one with: headwater serve ./data; or pass another address or a data directory with "
    "--at; or wait for it with --wait."
)
NO_CREDENTIALS = (
    "Pass --user and --password, or set HEADWATER_USER and HEADWATER_PASSWORD; or pass "
    "--token-file, or --tls-certificate."
)


@contextmanager
def opened(
    target: Target,
    credentials: Login | None,
    *,
    timeout_s: float,
    waits: bool = False,
    lake: Mapping[str, str] | None = None,
) -> Iterator["Client"]:
    """Open a directory or connect to servers inside the context."""
    settings = client_settings(timeout_s, waits=waits)
    if credentials is not None:
        settings = settings_with_security(settings, credentials.security)
    try:
        client = _client(target, credentials, settings=settings, lake=lake or None)
    except ServerUnreachableError as fault:
        raise ServerUnreachableError(fault.message, hint=NO_SERVER) from fault
    except AuthenticationError as fault:
        if (credentials is not None and credentials.is_somebody) or "TLS" in fault.message:
            raise
        raise AuthenticationError(fault.message, hint=NO_CREDENTIALS) from fault
    with client:
        yield client


def _client(
    target: Target,
    credentials: Login | None,
    *,
    settings: ClientSettings,
    lake: Mapping[str, str] | None,
) -> "Client":
    # The package loads the client, or the server in this process, when these are called.
    if isinstance(target, DataDirectory):
        return headwater.open(target.path, settings=settings, lake=lake)
    return headwater.connect(
        target.addresses,
        user=None if credentials is None else credentials.user,
        password=None if credentials is None else credentials.password,
        settings=settings,
        lake=lake,
    )


def client_settings(timeout_s: float, *, waits: bool) -> ClientSettings:
    """Make the settings of a client whose calls, with or without a wait, take no longer."""
    usual = ClientSettings()
    return ClientSettings(
        deadline_s=timeout_s,
        request_timeout_s=min(usual.request_timeout_s, timeout_s),
        connect_timeout_s=timeout_s if waits else min(usual.connect_timeout_s, timeout_s),
        waits_for_server=waits,
    )


# Row sources: files and standard input, their formats and their bytes.

STDIN = Path("-")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}


class Format(StrEnum):
    """Input formats."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


SUFFIXES = {
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".ipc": Format.ARROW,
    ".feather": Format.ARROW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file, its format and its compression."""

    path: Path
    format: Format
    compression: str | None = None

    @property
    def name(self) -> str:
        """The name for messages."""
        return "standard input" if self.path == STDIN else str(self.path)

    @property
    def size_bytes(self) -> int | None:
        """The size of the file, if it has one."""
        return self.path.stat().st_size if self.path != STDIN and self.path.is_file() else None


def source_of(path: Path, *, given: Format | None) -> InputFile:
    """Work out the format and compression of a path from its suffixes, unless given."""
    suffix = path.suffix.lower()
    compression = COMPRESSIONS.get(suffix)
    if compression is not None:
        suffix = path.with_suffix("").suffix.lower()
    known = Format.JSON if path == STDIN else SUFFIXES.get(suffix)
    if (chosen := given or known) is None:
        raise RequestError(
            f"The name of {path} does not show its format.",
            hint=f"Pass one of {', '.join(Format)} with --format.",
        )
    if chosen is Format.PARQUET and (path == STDIN or compression is not None):
        raise RequestError(
            "Parquet can only be read from uncompressed files.", hint="Save it to a file first."
        )
    return InputFile(path=path, format=chosen, compression=compression)


class ByteStream(io.RawIOBase):
    """Read the bytes of a source as they come, and count them."""

    def __init__(self, source: InputFile) -> None:
        super().__init__()
        is_stdin = source.path == STDIN
        self._raw = sys.stdin.buffer if is_stdin else source.path.open("rb")
        self.done_bytes = 0

    def readable(self) -> bool:
        """Tell that bytes can be read."""
        return True

    def read(self, count: int = -1) -> bytes:
        """Read what is available, up to so many bytes; does not wait for a pipe to fill them."""
        piece = bytes(self._raw.read() if count < 0 else _read_some(self._raw, count))
        self.done_bytes += len(piece)
        return piece

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not sys.stdin.buffer:
            self._raw.close()
        super().close()


def decompressed(stream: ByteStream, source: InputFile) -> ByteStream | pa.NativeFile:
    """Decompress a stream."""
    if source.compression is None:
        return stream
    return pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), source.compression)


def _read_some(raw: BinaryIO, count: int) -> bytes:
    return raw.read1(count) if isinstance(raw, io.BufferedReader) else raw.read(count)
