"""Access to objects: a directory on this machine or a mount, or a bucket of an object store.

Two things are asked of a store: an object that was put is seen by the next reader of its key, and
of two that create the same key at the same time one fails. Listings are used for nothing that has
to be right: they may be old.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Protocol
from urllib.parse import unquote, urlsplit

from headwater import errors
from headwater.config.lake import shown_address, value_or_variable
from headwater.runtime.clock import random_bytes
from headwater.store.local import make_durably, sync_all, sync_path

CLOUDS = ("s3", "s3a", "gs", "az", "abfs", "abfss")
MULTIPART_BYTES = 8 << 20
CONNECT_S, REQUEST_S = 5, 60
_DRAFT = ".draft-"
_CLIENT_OPTIONS = ("allow_http", "allow_invalid_certificates", "proxy_url")
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


class Objects(Protocol):
    """Hold bytes under keys; failures of the store are RemoteUnreachableErrors."""

    @property
    def address(self) -> str:
        """Return where the objects are, without secrets."""
        ...

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Return bytes of an object, fewer where it ends; None if there is no such object."""
        ...

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        """Write an object, replacing what was there."""
        ...

    def create(self, key: str, content: bytes) -> bool:
        """Write an object unless there is one; return whether it was written."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""
        ...

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield keys that begin with a prefix, and their sizes, in no order."""
        ...


class DirectoryObjects:
    """Keep objects as files; each is durable once it was put."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()

    @property
    def address(self) -> str:
        """Return the directory."""
        return str(self._directory)

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Return bytes of a file."""
        with self._reporting("read"):
            try:
                with (self._directory / key).open("rb") as file:
                    file.seek(start)
                    return file.read(-1 if length is None else length)
            except OSError as error:
                if error.errno in _ABSENT:
                    return None
                raise

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        """Write a file beside its place, make it durable, and rename it."""
        with self._reporting("written"):
            draft = self._draft(key, parts)
            try:
                draft.replace(self._directory / key)
            except OSError:
                draft.unlink(missing_ok=True)
                raise
            sync_path(draft.parent)

    def create(self, key: str, content: bytes) -> bool:
        """Write a file beside its place, and link it there, which fails if there is one."""
        with self._reporting("written"):
            draft = self._draft(key, (content,))
            try:
                (self._directory / key).hardlink_to(draft)
            except FileExistsError:
                return False
            finally:
                draft.unlink(missing_ok=True)
            sync_path(draft.parent)
            return True

    def delete(self, keys: Sequence[str]) -> None:
        """Remove files."""
        with self._reporting("deleted"):
            for key in keys:
                (self._directory / key).unlink(missing_ok=True)

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Walk the directory."""
        for folder, _, names in os.walk(self._directory):
            for path in (Path(folder) / name for name in names if _DRAFT not in name):
                key = path.relative_to(self._directory).as_posix()
                with suppress(FileNotFoundError):
                    found = [(key, path.stat().st_size)] if key.startswith(prefix) else []
                    yield from found

    def _draft(self, key: str, parts: Iterable[bytes]) -> Path:
        place = self._directory / key
        if not place.parent.is_dir():
            make_durably(place.parent, mode=0o700)
        draft = place.with_name(f"{_DRAFT}{random_bytes(8).hex()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                sync_all(file.fileno())
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return draft

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _unreachable(self.address, what, error) from error


class CloudObjects:
    """Keep objects in a store of `obstore`: S3, Google Cloud Storage, Azure, or memory in tests."""

    def __init__(self, store: object, *, address: str) -> None:
        self._store = store
        self._address = address
        self._library = _library("obstore")
        self._faults = _library("obstore.exceptions")

    @property
    def address(self) -> str:
        """Return the address of the bucket and the prefix in it."""
        return self._address

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Get an object, or a range of it."""
        with self._reporting("read"):
            try:
                if length is None and not start:
                    return bytes(self._library.get(self._store, key).bytes())
                if length is None:
                    head = self._library.head(self._store, key)
                    length = head["size"] - start
                found = self._library.get_range(self._store, key, start=start, length=length)
                return bytes(found)
            except FileNotFoundError:
                return None

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        """Upload an object, in parts if it is large."""
        with self._reporting("written"):
            self._library.put(self._store, key, iter(parts), chunk_size=MULTIPART_BYTES)

    def create(self, key: str, content: bytes) -> bool:
        """Upload an object on the condition that there is none."""
        with self._reporting("written"):
            try:
                self._library.put(self._store, key, content, mode="create", use_multipart=False)
            except (self._faults.AlreadyExistsError, self._faults.PreconditionError):
                return False
            return True

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        with self._reporting("deleted"), suppress(FileNotFoundError):
            self._library.delete(self._store, list(keys))

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """List objects page by page."""
        with self._reporting("listed"):
            folder = prefix.rpartition("/")[0]
            pages = self._library.list(self._store, folder or None)
            for each in chain.from_iterable(pages):
                if each["path"].startswith(prefix):
                    yield each["path"], each["size"]

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        denied = (self._faults.PermissionDeniedError, self._faults.UnauthenticatedError)
        try:
            yield
        except denied as error:
            raise errors.AccessError(
                f"{self._address} cannot be {what}: {_first_line(error)}",
                hint="Check the credentials of the remote storage (--remote-option).",
            ) from error
        except (self._faults.BaseError, OSError) as error:
            raise _unreachable(self._address, what, error) from error


def open_objects(address: str, options: Mapping[str, str]) -> Objects:
    """Open a directory, or a bucket with a prefix, by its address.

    Options are those of the object store, such as access_key_id or endpoint; a value `env:NAME`
    is read from the environment.
    """
    given = {name: value_or_variable(name, value) for name, value in options.items()}
    parts = urlsplit(address)
    if parts.scheme in ("", "file"):
        if given:
            raise errors.InvalidOptionError(
                f"{address} is a directory, which has no option {min(given)!r}.",
                hint="Leave out the options of the remote storage.",
            )
        return DirectoryObjects(Path(unquote(parts.path) if parts.scheme else address))
    if parts.scheme not in CLOUDS or not parts.netloc:
        raise errors.InvalidOptionError(
            f"{shown_address(address)!r} is not the address of a remote storage.",
            hint="Use a directory, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or "
            "az://CONTAINER/PREFIX.",
        )
    return CloudObjects(_cloud(address, given), address=shown_address(address))


def is_remote_address(text: str) -> bool:
    """Tell whether a text is the address of a bucket, not a path."""
    return urlsplit(text).scheme in (*CLOUDS, "file")


def _cloud(address: str, options: Mapping[str, str]) -> object:
    client: dict[str, object] = {"connect_timeout": f"{CONNECT_S}s", "timeout": f"{REQUEST_S}s"}
    config = dict(options)
    for name in _CLIENT_OPTIONS:
        if name in config:
            value = config.pop(name)
            client[name] = value if name == "proxy_url" else value.lower() == "true"
    faults = _library("obstore.exceptions")
    try:
        # Who asks tries again, and knows when to stop.
        return _library("obstore.store").from_url(
            address,
            config=config,
            client_options=client,
            retry_config={"max_retries": 0},
        )
    except (faults.BaseError, ValueError, TypeError) as error:
        raise errors.InvalidOptionError(
            f"{shown_address(address)} cannot be opened: {_first_line(error)}",
            hint="Check the address and the options of the remote storage (--remote-option).",
        ) from error


def _library(name: str) -> ModuleType:
    try:
        # Imported here because most storages have no remote copy.
        return import_module(name)
    except ModuleNotFoundError as error:
        raise errors.UnsupportedError(
            "The package 'obstore' is not installed, which reaches object stores.",
            hint="Run: pip install 'headwater[remote]'; a directory needs no package.",
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."


def _unreachable(address: str, what: str, error: BaseException) -> errors.RemoteUnreachableError:
    return errors.RemoteUnreachableError(f"{address} cannot be {what}: {_first_line(error)}")


# Trying again: a store that is away for a while must not end whoever uses it.

PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 10.0
Pause = Callable[[float], bool]
"""Waits for so many seconds, and returns whether to go on."""


def pauses() -> Iterator[float]:
    """Yield the seconds between two attempts, longer and longer up to a limit."""
    pause_s = PAUSE_S_MIN
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, PAUSE_S_MAX)
