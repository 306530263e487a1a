"""Bearer tokens: JWTs of an issuer that the operator named, checked with its public keys.

Keys come from a file (PEM or JWKS), or from an https address, which is fetched with a limit of time
and size, again after a while, and again for a key that is not known yet. A key decides which
algorithms may be used with it. So a token cannot choose `none`, and cannot pass off a public key
as the secret of an HMAC.
"""

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.parse import urlsplit

from headwater import errors
from headwater.config.server import ServerSettings
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events

if TYPE_CHECKING:
    from jwt import PyJWK

_events = Events("logins")
TOKEN_LEEWAY_S = 30
"""Clocks of issuers differ."""
KEYS_BYTES_MAX = 256 * 1024
KEYS_MAX = 64
KEYS_FRESH_S = 300.0
"""How long fetched keys are used before they are fetched again."""
KEYS_PAUSE_S = 30.0
"""Not fetched more often than this, whatever keys tokens name."""
FETCH_WITHIN_S = 5.0
PRINCIPAL_LENGTH_MAX = 256
GROUPS_MAX = 256
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a token or a certificate names, and until when."""

    principal: str
    groups: tuple[str, ...] = ()
    expires_ms: int | None = None


class Tokens:
    """Check tokens; threads may share it."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        try:
            self._jwt = import_module("jwt")
        except ImportError as fault:
            raise errors.UnsupportedError(
                "Checking tokens needs a package that is not installed.",
                hint="Run: pip install 'headwater[security]'",
            ) from fault
        self._settings = settings
        self._keys = _Keys(settings.token_keys, clock)

    def load(self) -> None:
        """Fail early if a file of keys cannot be used."""
        if not self._keys.is_remote:
            self._keys.all()

    def check(self, token: str) -> Identity:
        """Return who a token names; blocks while keys are fetched."""
        try:
            head = self._jwt.get_unverified_header(token)
            key_id, algorithm = head.get("kid"), head.get("alg")
            for key in self._keys.named(key_id):
                if algorithm in algorithms_of(key):
                    return self._identity(self._claims(token, key, str(algorithm)))
        except self._jwt.InvalidSignatureError:
            raise errors.AuthenticationError("The signature of the token is wrong.") from None
        except self._jwt.ExpiredSignatureError:
            raise errors.AuthenticationError(
                "The token has expired.", hint="Log in with a new one."
            ) from None
        except self._jwt.PyJWTError as fault:
            raise errors.AuthenticationError(f"The token is not accepted: {fault}.") from None
        raise errors.AuthenticationError("No key of this server fits the token.")

    def _claims(self, token: str, key: "PyJWK", algorithm: str) -> Mapping[str, object]:
        settings = self._settings
        found: Mapping[str, object] = self._jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            issuer=settings.token_issuer,
            audience=settings.token_audience,
            leeway=TOKEN_LEEWAY_S,
            options={"require": ["exp", "iss", "aud", settings.token_principal_claim]},
        )
        return found

    def _identity(self, claims: Mapping[str, object]) -> Identity:
        name = claims[self._settings.token_principal_claim]
        if not isinstance(name, str) or not is_name(name):
            raise errors.AuthenticationError(
                f"The claim '{self._settings.token_principal_claim}' of the token is not a name."
            )
        expires = claims["exp"]
        if not isinstance(expires, int | float):  # The library takes a text as well.
            raise errors.AuthenticationError("The claim 'exp' of the token is not a number.")
        return Identity(name, self._groups(claims), int((expires + TOKEN_LEEWAY_S) * 1000))

    def _groups(self, claims: Mapping[str, object]) -> tuple[str, ...]:
        claim = self._settings.token_groups_claim
        found = claims.get(claim, []) if claim else []
        names = found.split() if isinstance(found, str) else found
        if isinstance(names, list) and len(names) <= GROUPS_MAX:
            groups = tuple(each for each in names if isinstance(each, str) and is_name(each))
            if len(groups) == len(names):
                return groups
        raise errors.AuthenticationError(
            f"The claim '{claim}' of the token is not a list of names."
        )


def is_name(text: str) -> bool:
    """Tell whether a text from a token or certificate can name a principal or a group."""
    return 0 < len(text) <= PRINCIPAL_LENGTH_MAX and text.isprintable()


def algorithms_of(key: "PyJWK") -> tuple[str, ...]:
    """List the algorithms that may be used with a key: never `none`, never an HMAC."""
    found: tuple[str, ...] = ()
    if key.key_type == "RSA":
        found = _RSA
    elif key.key_type == "EC":
        found = _CURVES.get(str(key._jwk_data.get("crv")), ())  # noqa: SLF001 - not public
    elif key.key_type == "OKP":
        found = ("EdDSA",)
    data = key._jwk_data  # noqa: SLF001 - the library guesses an algorithm if none is said
    is_public = "d" not in data and data.get("use", "sig") == "sig"
    return tuple(each for each in found if is_public and data.get("alg", each) == each)


class _Keys:
    """The keys of an issuer, read or fetched when they are needed."""

    def __init__(self, place: str, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._lock = Lock()
        self._held: tuple[PyJWK, ...] = ()
        self._loaded_at: float | None = None
        self._tried_at: float | None = None
        self._stamp: tuple[int, int] | None = None
        self.is_remote = "://" in place
        if self.is_remote:
            _check_address(place)

    def named(self, key_id: object) -> "tuple[PyJWK, ...]":
        """Return the keys that a token may be signed with."""
        with self._lock:
            self._refresh()
            if key_id is None:
                return self._held
            found = tuple(each for each in self._held if each.key_id == key_id)
            if not found and self.is_remote:
                self._load(KEYS_PAUSE_S)  # The issuer may have a new key.
                found = tuple(each for each in self._held if each.key_id == key_id)
            # A key in a PEM file has no name, so any name may mean it.
            return found or tuple(each for each in self._held if each.key_id is None)

    def all(self) -> "tuple[PyJWK, ...]":
        """Return all keys; a problem is an error."""
        with self._lock:
            self._held = _parsed(_read(self._place), self._place)
            return self._held

    def _refresh(self) -> None:
        if self.is_remote:
            self._load(KEYS_FRESH_S if self._held else KEYS_PAUSE_S)
        elif (stamp := _stamp(self._place)) != self._stamp:
            self._stamp = stamp
            self._load(0.0)

    def _load(self, pause_s: float) -> None:
        """Load the keys unless that was done a moment ago; the old ones stay if it fails."""
        now = self._clock.monotonic()
        if self._tried_at is not None and now - self._tried_at < pause_s:
            return
        self._tried_at = now
        try:
            text = _fetched(self._place) if self.is_remote else _read(self._place)
            self._held = _parsed(text, self._place)
        except (errors.HeadwaterError, OSError) as fault:
            _events.error("token keys not loaded", reason=str(fault), in_force=len(self._held))


def _stamp(place: str) -> tuple[int, int] | None:
    try:
        found = Path(place).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(place: str) -> bytes:
    try:
        with Path(place).open("rb") as file:
            return _limited(file.read(KEYS_BYTES_MAX + 1), place)
    except OSError as fault:
        raise errors.InvalidOptionError(
            f"The keys for tokens cannot be read: {fault.strerror}: {place}.",
            hint="Set --token-keys to a PEM or JWKS file, or an https address.",
        ) from fault


def _check_address(place: str) -> None:
    parts = urlsplit(place)
    is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if (parts.scheme != "https" and not is_local) or not parts.hostname:
        raise errors.InvalidOptionError(
            "The keys for tokens may only be fetched over https.",
            hint="Set --token-keys to an https address, or to a file.",
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Do not follow an issuer to another address."""

    def redirect_request(self, *_: object) -> None:
        """Return no request to send instead."""


def _fetched(place: str) -> bytes:
    # No proxies, no files, no redirects: this address and no other.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    try:
        with opener.open(place, timeout=FETCH_WITHIN_S) as answer:
            return _limited(answer.read(KEYS_BYTES_MAX + 1), place)
    except (URLError, ValueError) as fault:
        raise errors.InvalidOptionError(
            f"The keys for tokens cannot be fetched: {fault}."
        ) from fault


def _limited(text: bytes, place: str) -> bytes:
    if len(text) > KEYS_BYTES_MAX:
        raise errors.InvalidOptionError(
            f"The keys in {place} take more than {KEYS_BYTES_MAX} bytes."
        )
    return text


def _parsed(text: bytes, place: str) -> "tuple[PyJWK, ...]":
    """Parse a JWKS, or the public key or certificate of a PEM file."""
    jwt = import_module("jwt")
    try:
        if text.lstrip().startswith(b"{"):
            found = jwt.PyJWKSet.from_dict(json.loads(text)).keys
        else:
            found = [_of_pem(text)]
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError) as fault:
        raise errors.InvalidOptionError(f"The keys in {place} are not valid: {fault}.") from fault
    keys = tuple(each for each in found if algorithms_of(each))[:KEYS_MAX]
    if not keys:
        raise errors.InvalidOptionError(
            f"{place} contains no public key that tokens can be checked with.",
            hint="RSA, EC (P-256, P-384, P-521) and Ed25519 keys are supported.",
        )
    return keys


def _of_pem(text: bytes) -> "PyJWK":
    jwt, algorithms = import_module("jwt"), import_module("jwt.algorithms")
    if b"BEGIN CERTIFICATE" in text:
        key = import_module("cryptography.x509").load_pem_x509_certificate(text).public_key()
    else:
        key = import_module("cryptography.hazmat.primitives.serialization").load_pem_public_key(
            text
        )
    for kind in ("RSAAlgorithm", "ECAlgorithm", "OKPAlgorithm"):
        try:
            described = getattr(algorithms, kind).to_jwk(key, as_dict=True)
        except (jwt.InvalidKeyError, TypeError, AttributeError):
            continue
        found: PyJWK = jwt.PyJWK.from_dict(described)
        return found
    raise ValueError("a key of this kind is not supported")
