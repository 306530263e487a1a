"""Users and their passwords: a file of names with scrypt hashes."""

import hashlib
import hmac
import os
import re
from pathlib import Path

from headwater.errors import AuthenticationError, InvalidNameError, InvalidOptionError
from headwater.runtime.ids import random_bytes
from headwater.store.durable import sync_all

_COST, _BLOCK, _LANES = 2**14, 8, 1
_SALT_BYTES = 16
_NAME = re.compile(r"[A-Za-z0-9_.@\-]{1,128}\Z")
_LINE = re.compile(r"([^:]+):(scrypt\$[0-9a-f]{32}\$[0-9a-f]{128})\Z")
# Checked when a user is unknown, so that the answer takes as long as for a known one.
_NOBODY = "scrypt$" + "00" * _SALT_BYTES + "$" + "00" * 64


class Users:
    """Know who may connect."""

    def __init__(self, hashes: dict[str, str]) -> None:
        self._hashes = hashes

    def __len__(self) -> int:
        return len(self._hashes)

    @classmethod
    def load(cls, path: Path) -> "Users":
        """Read the users of a file with lines of `name:hash`."""
        lines = path.read_bytes().splitlines() if path.exists() else []
        hashes = {}
        for number, line in enumerate(lines, start=1):
            found = _LINE.match(line.decode("utf-8", "replace"))
            if found is None:
                raise InvalidOptionError(
                    f"Line {number} of {path} is not a user.",
                    hint="Lines are written by: headwater user FILE NAME",
                )
            hashes[found[1]] = found[2]
        return cls(hashes)

    def with_user(self, name: str, password: str) -> "Users":
        """Return the users with one more, or with another password for one of them."""
        if not _NAME.match(name):
            raise InvalidNameError(
                f"User name {name!r} may hold letters, digits and '_.@-' only, 128 at most."
            )
        return Users({**self._hashes, name: hash_password(password)})

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

    def check(self, name: str, password: str) -> None:
        """Refuse a wrong name or password, without telling which of the two it is."""
        hashed = self._hashes.get(name, _NOBODY)
        if not _matches(password, hashed) or name not in self._hashes:
            raise AuthenticationError("The user name or the password is wrong.")


def hash_password(password: str) -> str:
    """Hash a password with a fresh salt."""
    salt = random_bytes(_SALT_BYTES)
    return f"scrypt${salt.hex()}${_scrypt(password, salt).hex()}"


def _matches(password: str, hashed: str) -> bool:
    _, salt, digest = hashed.split("$")
    return hmac.compare_digest(_scrypt(password, bytes.fromhex(salt)).hex(), digest)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_LANES)
