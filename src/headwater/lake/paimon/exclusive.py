"""Creating an object that must not be there yet, in object stores that can promise it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from urllib.parse import urlparse

import fsspec

from headwater.errors import UnsupportedError
from headwater.runtime.ids import random_bytes

_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "oss": "ossfs",
}
# Paimon's names of what s3fs calls otherwise.
_S3_OPTIONS = {
    "key": ("fs.s3.accessKeyId", "s3.access-key", "s3.access.key", "fs.s3a.access.key"),
    "secret": ("fs.s3.accessKeySecret", "s3.secret-key", "s3.secret.key", "fs.s3a.secret.key"),
    "token": ("fs.s3.securityToken", "s3.session-token", "s3.session.token"),
    "endpoint_url": ("fs.s3.endpoint", "s3.endpoint", "fs.s3a.endpoint"),
}
_PROBE = b"probe"  # not empty: such a file s3fs puts in place whatever is there
_S3_REGION = ("fs.s3.region", "s3.region", "fs.s3a.region")


def create_object(path: str, content: bytes, *, options: Mapping[str, str]) -> bool:
    """Put an object in place unless there is one; tell whether it was put."""
    scheme = urlparse(path).scheme
    storage = tuple(sorted(storage_options(scheme, options).items()))
    directory = path.rpartition("/")[0]
    if not _keeps_first(scheme, directory, storage):
        raise UnsupportedError(
            f"The store behind {scheme}:// overwrites objects that must be created only once,"
            " so two commits could not be told apart.",
            hint=f"Use a newer '{_PACKAGES.get(scheme, scheme)}' and a store with conditional"
            " writes, or a REST catalog.",
        )
    with _package(scheme):
        return _created(path, content, dict(storage))


def storage_options(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return what the client of an object store needs of the options of a lake."""
    if _PACKAGES.get(scheme) != "s3fs":
        return {}
    found = {
        name: next((options[key] for key in keys if key in options), "")
        for name, keys in (*_S3_OPTIONS.items(), ("region", _S3_REGION))
    }
    return {name: value for name, value in found.items() if value}


@lru_cache
def _keeps_first(scheme: str, directory: str, storage: tuple[tuple[str, str], ...]) -> bool:
    """Tell whether a second creation of the same object is refused, by trying it once."""
    probe = f"{directory}/.probe-{random_bytes(8).hex()}"
    with _package(scheme):
        _created(probe, _PROBE, dict(storage))
        try:
            return not _created(probe, _PROBE, dict(storage))
        finally:
            _file_system(probe, dict(storage)).rm(probe)


def _created(path: str, content: bytes, storage: Mapping[str, str]) -> bool:
    try:
        with _file_system(path, storage).open(path, "xb") as stream:
            stream.write(content)
    except FileExistsError:
        return False
    return True


def _file_system(path: str, storage: Mapping[str, str]) -> fsspec.AbstractFileSystem:
    settings: dict[str, object] = dict(storage)
    if (region := settings.pop("region", None)) is not None:
        settings["client_kwargs"] = {"region_name": region}
    return fsspec.filesystem(urlparse(path).scheme, **settings)


@contextmanager
def _package(scheme: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, ValueError, NotImplementedError) as fault:
        package = _PACKAGES.get(scheme, f"fsspec for {scheme}")
        raise UnsupportedError(
            f"Committing to a lake on {scheme}:// needs the package '{package}'"
            f" in a version that can create objects exclusively ({fault}).",
            hint=f"Run: pip install {package}",
        ) from fault
