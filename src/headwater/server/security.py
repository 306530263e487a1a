"""Users and their passwords: a file of names with scrypt hashes."""

import fcntl
import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headwater.errors import AuthenticationError, InvalidNameError, InvalidOptionError
from headwater.runtime.ids import random_bytes
from headwater.store.durable import sync_all

_COST, _BLOCK, _LANES = 2**14, 8, 1
_SALT_BYTES = 16
NAME_LENGTH_MAX = 128
_NAME = re.compile(r"[A-Za-z0-9_.@\-]{1,128}\Z")
_LINE = re.compile(r"([^:]+):(scrypt\$[0-9a-f]{32}\$[0-9a-f]{128})\Z")
# Checked when a user is unknown, so that the answer takes as long as for a known one.
_NOBODY = "scrypt$" + "00" * _SALT_BYTES + "$" + "00" * 64
# Others may not read the hashes, to guess passwords from, nor anybody else write them.
_MODE_REFUSED = stat.S_IWGRP | stat.S_IRWXO

# Tells one version of a file from the next.
Stamp = tuple[int, int, int]


class Users:
    """Know who may connect."""

    def __init__(
        self, hashes: Mapping[str, str], *, path: Path | None = None, stamp: Stamp | None = None
    ) -> None:
        self._hashes = hashes
        self.path = path
        self.stamp = stamp

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def credentials(self) -> Mapping[str, str]:
        """Return what each user's password is checked against."""
        return self._hashes

    @classmethod
    def load(cls, path: Path) -> "Users":
        """Read the users of a file with lines of `name:hash`."""
        # Before it is read: a change meanwhile then counts as one that came later.
        stamp = stamp_of(path)
        if stamp is None:
            return cls({}, path=path)
        _check_mode(path)
        hashes = {}
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            found = _LINE.match(line.decode("utf-8", "replace"))
            if found is None:
                raise InvalidOptionError(
                    f"Line {number} of {path} is not a user.",
                    hint=f"Lines are written by: headwater user add {path} NAME",
                )
            hashes[found[1]] = found[2]
        return cls(hashes, path=path, stamp=stamp)

    def with_user(self, name: str, password: str) -> "Users":
        """Return the users with one more, or with another password for one of them."""
        if not _NAME.match(name):
            raise InvalidNameError(
                f"User name {name!r} may hold letters, digits and '_.@-' only, 128 at most."
            )
        if not password:
            raise InvalidOptionError("The password is empty.", hint="Give one.")
        return Users({**self._hashes, name: hash_password(password)})

    def without_user(self, name: str) -> "Users":
        """Return the users without one of them."""
        if name not in self._hashes:
            known = ", ".join(sorted(self._hashes)) or "nobody"
            raise InvalidNameError(f"There is no user {name!r}.", hint=f"There is: {known}.")
        return Users({each: held for each, held in self._hashes.items() if each != name})

    def save(self, path: Path) -> None:
        """Write the file anew, readable by its owner only."""
        temporary = path.with_name(f".{path.name}.new")
        # A leftover may have another mode, or be a link to somewhere else.
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}:{hashed}\n" for name, hashed in self._hashes.items())
            file.flush()
            sync_all(file.fileno())
        temporary.replace(path)

    def check(self, name: str, password: str) -> str:
        """Return a user's credential, or refuse without telling whether name or password is wrong.

        Each refusal costs as much as a success, so that the time tells nothing either.
        """
        hashed = self._hashes.get(name, _NOBODY)
        if not _matches(password, hashed) or name not in self._hashes or not password:
            raise AuthenticationError("The user name or the password is wrong.")
        return hashed


@contextmanager
def editing(path: Path) -> Iterator[Users]:
    """Give the users of a file to whoever saves others in their place; others wait meanwhile."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Users.load(path)
    finally:
        os.close(descriptor)


def stamp_of(path: Path) -> Stamp | None:
    """Return what tells this version of a file from the next, or None if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _check_mode(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _MODE_REFUSED:
        raise InvalidOptionError(
            f"{path} has mode {mode:03o}: other users of this machine may read or change it.",
            hint=f"Run: chmod 600 {path}",
        )


def hash_password(password: str) -> str:
    """Hash a password with a fresh salt."""
    salt = random_bytes(_SALT_BYTES)
    return f"scrypt${salt.hex()}${_scrypt(password, salt).hex()}"


def _matches(password: str, hashed: str) -> bool:
    _, salt, digest = hashed.split("$")
    return hmac.compare_digest(_scrypt(password, bytes.fromhex(salt)).hex(), digest)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_LANES)
