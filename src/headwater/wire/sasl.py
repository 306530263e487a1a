"""SASL mechanisms: their names, and the messages and arithmetic of SCRAM.

With SCRAM (RFC 5802, RFC 7677) a password is never sent. The server keeps a verifier of each
password: salt, iterations and two keys, from which nobody can log in without guessing. Both sides
prove to each other that they know the password, or its verifier, over nonces of both, so that an
exchange that was overheard is worth nothing later.
Channel binding is left out: a client that insists on it (`p=`) is refused.
"""

import base64
import binascii
import hashlib
import hmac
import re
import stringprep
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from headwater.errors import AuthenticationError

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
DIGESTS = {SCRAM_SHA_512: "sha512", SCRAM_SHA_256: "sha256"}
"""The mechanisms, the stronger one first."""
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 5_000_000
"""What a client computes at most: a server could otherwise keep it busy for hours."""
SALT_BYTES_MIN = 8
MESSAGE_BYTES_MAX = 2048
NONCE_BYTES = 18
_KEYS_KEPT_MAX = 64
_ITERATIONS = re.compile(r"[1-9][0-9]{0,9}\Z")
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,256}\Z")
_ENABLED = re.compile(r"enables \[([A-Z0-9_, -]*)\]")
_WRONG = "The user name or the password is wrong."
# The tables of RFC 4013 whose characters are prohibited in passwords.
_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def mechanism_refused(asked: str, offered: Sequence[str]) -> AuthenticationError:
    """Refuse a mechanism and name those that are offered, as Apache Fluss does."""
    return AuthenticationError(
        f"This server enables [{', '.join(offered)}] while the client asked for {asked!r}."
    )


def mechanisms_enabled(fault: AuthenticationError) -> tuple[str, ...] | None:
    """Return what a server offers instead of a mechanism that it refused; None if it did not."""
    found = _ENABLED.search(fault.message)
    return None if found is None else tuple(found[1].replace(",", " ").split())


def prepared(text: str) -> bytes:
    """Normalise a password, so that it does not matter how its characters were typed.

    One with characters that RFC 4013 prohibits is taken as it is, on both sides.
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each
        for each in text
        if not stringprep.in_table_b1(each)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    is_allowed = not any(refused(each) for each in normal for refused in _PROHIBITED)
    return (normal if normal and is_allowed and _reads_one_way(normal) else text).encode()


def _reads_one_way(text: str) -> bool:
    """Apply the rule of RFC 3454 for text that is read from right to left."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))


@dataclass(frozen=True, slots=True)
class Verifier:
    """What a server keeps of a password, for one mechanism."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, mechanism: str, password: str, *, salt: bytes, iterations: int) -> "Verifier":
        """Make the verifier of a password; this takes long on purpose."""
        client_key, server_key = _keys(mechanism, password, salt, iterations)
        stored_key = hashlib.new(DIGESTS[mechanism], client_key).digest()
        return cls(mechanism, iterations, salt, stored_key, server_key)

    def matches(self, password: str) -> bool:
        """Tell whether this is the password; this takes as long as making the verifier."""
        found = Verifier.of(self.mechanism, password, salt=self.salt, iterations=self.iterations)
        return hmac.compare_digest(found.stored_key, self.stored_key)


def _keys(mechanism: str, password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """Compute the key with which a client proves itself, and that of the server."""
    digest = DIGESTS[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, prepared(password), salt, iterations)
    return _signed(digest, salted, b"Client Key"), _signed(digest, salted, b"Server Key")


# A client logs in on every connection with the same password: the long computation is done once.
_keys_of_client = lru_cache(maxsize=_KEYS_KEPT_MAX)(_keys)


def _signed(digest: str, key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, digest)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


# ---- the server


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client."""

    user: str
    nonce: str
    header: str
    bare: str

    @classmethod
    def parse(cls, token: bytes) -> "ClientFirst":
        """Parse `n,,n=user,r=nonce`."""
        binding, asked_as, bare = _split(_text(token), 3)
        if binding.startswith("p="):
            raise AuthenticationError(
                "Channel binding is not supported.", hint="Use SCRAM without -PLUS."
            )
        fields = bare.split(",")
        # A mandatory extension (`m=`) would come first, and has to be refused if it is unknown.
        if binding not in {"n", "y"} or len(fields) < 2:  # noqa: PLR2004 - a name and a nonce
            raise _malformed()
        user, nonce = _unescaped(_value(fields[0], "n")), _value(fields[1], "r")
        if asked_as and _unescaped(_value(asked_as, "a")) != user:
            raise AuthenticationError("Nobody may log in as another user.")
        if not user or not _NONCE.match(nonce):
            raise _malformed()
        return cls(user, nonce, f"{binding},{asked_as},", bare)


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a server asked of a client, and has to remember until the answer comes."""

    first: ClientFirst
    verifier: Verifier
    nonce: str
    credential: str = ""
    """What the user logs in with, as far as the caller is concerned."""

    @property
    def message(self) -> bytes:
        """What is sent to the client."""
        salt = base64.b64encode(self.verifier.salt).decode()
        return f"r={self.nonce},s={salt},i={self.verifier.iterations}".encode()

    def answered(self, token: bytes) -> bytes:
        """Check a client's proof and return the server's own; a wrong one fails."""
        text = _text(token)
        without_proof, mark, proof = text.rpartition(",p=")
        binding, nonce = _split(without_proof, 2)[:2]
        if not mark or _decoded(_value(binding, "c")) != self.first.header.encode():
            raise _malformed()
        if not hmac.compare_digest(_value(nonce.split(",")[0], "r").encode(), self.nonce.encode()):
            raise _malformed()
        signed = b",".join((self.first.bare.encode(), self.message, without_proof.encode()))
        if not self._proves(_decoded(proof), signed):
            raise AuthenticationError(_WRONG)
        digest = DIGESTS[self.verifier.mechanism]
        return b"v=" + base64.b64encode(_signed(digest, self.verifier.server_key, signed))

    def _proves(self, proof: bytes, signed: bytes) -> bool:
        digest, stored_key = DIGESTS[self.verifier.mechanism], self.verifier.stored_key
        if len(proof) != len(stored_key):
            raise _malformed()
        client_key = _xor(proof, _signed(digest, stored_key, signed))
        return hmac.compare_digest(hashlib.new(digest, client_key).digest(), stored_key)


def challenge(
    first: ClientFirst, verifier: Verifier, *, nonce: str, credential: str = ""
) -> Challenge:
    """Ask a client for its proof; the nonce of the server follows that of the client."""
    return Challenge(first, verifier, first.nonce + nonce, credential)


# ---- the client


class ScramClient:
    """Prove to a server that one knows a password, and check that the server knows it too."""

    def __init__(self, mechanism: str, user: str, password: str, *, nonce: str) -> None:
        self.mechanism = mechanism
        self._password = password
        self._nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}"
        self._signature: bytes | None = None
        self._is_done = False

    def first(self) -> bytes:
        """Begin."""
        return f"n,,{self._bare}".encode()

    def next(self, told: bytes) -> bytes | None:
        """Answer what the server told; None when the server has proven itself.

        The first answer takes long: call it outside of an event loop.
        """
        if self._signature is None:
            return self._final(told)
        text = _text(told)
        if text.startswith("e="):
            raise AuthenticationError(_WRONG)
        if not hmac.compare_digest(_decoded(_value(text.split(",")[0], "v")), self._signature):
            raise AuthenticationError(
                "The server does not know the password of this user: it may be an impostor.",
                hint="Check the address; do not send the password with another mechanism.",
            )
        return None

    def _final(self, told: bytes) -> bytes:
        nonce, salt, iterations = self._challenge(_text(told))
        client_key, server_key = _keys_of_client(self.mechanism, self._password, salt, iterations)
        digest = DIGESTS[self.mechanism]
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
        signed = b",".join((self._bare.encode(), told, without_proof.encode()))
        stored_key = hashlib.new(digest, client_key).digest()
        proof = _xor(client_key, _signed(digest, stored_key, signed))
        self._signature = _signed(digest, server_key, signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _challenge(self, text: str) -> tuple[str, bytes, int]:
        nonce, salted, counted = _split(text, 3)
        found, salt = _value(nonce, "r"), _decoded(_value(salted, "s"))
        count = _value(counted.split(",")[0], "i")
        is_ours = found.startswith(self._nonce) and len(found) > len(self._nonce)
        if not is_ours or not _ITERATIONS.match(count) or not salt:
            raise _malformed()
        if not ITERATIONS_MIN <= int(count) <= ITERATIONS_MAX:
            # Fewer would let an impostor guess the password from the proof.
            raise AuthenticationError(
                f"The server asks for {count} iterations; this client computes from "
                f"{ITERATIONS_MIN} to {ITERATIONS_MAX}.",
                hint="Set the password anew on the server with: headwater user add",
            )
        return found, salt, int(count)


# ---- messages


def _malformed() -> AuthenticationError:
    return AuthenticationError("The SCRAM message is malformed.")


def _text(token: bytes) -> str:
    if len(token) > MESSAGE_BYTES_MAX:
        raise _malformed()
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise _malformed() from None


def _split(text: str, count: int) -> list[str]:
    parts = text.split(",", count - 1)
    if len(parts) != count:
        raise _malformed()
    return parts


def _value(field: str, name: str) -> str:
    if not field.startswith(f"{name}="):
        raise _malformed()
    return field[2:]


def _unescaped(name: str) -> str:
    if re.search("=(?!2C|3D)", name):
        raise _malformed()
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _malformed() from None
