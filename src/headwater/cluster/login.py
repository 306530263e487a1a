"""How a client proves who it is: TLS towards the server, and logins by password or token.

Which mechanism a password is sent with is the client's choice, because a server that names weaker
ones may be an impostor. The strongest (SCRAM-SHA-512) is tried first. A server that does not have
it names those that it has. SCRAM-SHA-256 may be used instead at any time. PLAIN shows the password
to whoever answers, and a token is a secret as well: they are sent only with TLS, which has proven
whose server it is, to this machine, or if the user names the mechanism.
"""

import base64
import socket
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

from headwater import errors
from headwater.config.client import ClientSettings, settings_with_security
from headwater.runtime.clock import SystemClock, random_bytes
from headwater.runtime.tls import TlsFiles, client_context, facts_of
from headwater.wire import sasl

TOKEN_BYTES_MAX = 64 * 1024
LOGINS_MAX = 3
"""Connections that are tried with different mechanisms."""
HANDSHAKE_FAULTS = (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
"""What goes wrong in a TLS handshake, not before it."""
_CONTEXTS_KEPT_MAX = 16


class Exchange(Protocol):
    """One login: what is sent, and what follows from each answer."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        ...

    def first(self) -> bytes:
        """Begin."""
        ...

    def next(self, told: bytes) -> bytes | None:
        """Answer what the server told; None when the login is done. May take long."""
        ...


@dataclass(frozen=True, slots=True)
class _Told:
    """A login in one step."""

    mechanism: str
    token: bytes = field(repr=False)

    def first(self) -> bytes:
        return self.token

    def next(self, told: bytes) -> bytes | None:
        if told:
            raise errors.AuthenticationError(
                f"The server did not accept the credentials: {told[:200].decode(errors='replace')}"
            )
        return None


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client logs in with: a user name and password, or a token."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    mechanism: str = ""
    """Empty: the strongest that the server has, if it is safe to use."""

    @classmethod
    def of(
        cls, settings: ClientSettings, *, user: str | None, password: str | None, token: str | None
    ) -> "Credentials | None":
        """Collect the credentials; None if there are none. Contradictions are refused."""
        has_token = bool(token or settings.token_file)
        if has_token and user is not None:
            raise errors.InvalidOptionError(
                "A user and a token are given.", hint="Log in with one of them."
            )
        if token and settings.token_file:
            raise errors.InvalidOptionError("A token and a token file are given.", hint="Pass one.")
        if password is not None and user is None:
            raise errors.InvalidOptionError(
                "A password without a user is given.", hint="Pass both."
            )
        is_for_token = settings.mechanism == sasl.OAUTHBEARER
        if settings.mechanism and is_for_token != has_token:
            needed = "a token" if is_for_token else "a user and a password"
            raise errors.InvalidOptionError(f"The mechanism {settings.mechanism} needs {needed}.")
        if user is None and not has_token:
            return None
        return cls(user or "", password or "", token or "", settings.token_file, settings.mechanism)

    @property
    def is_token(self) -> bool:
        """Whether this is a token."""
        return bool(self.token or self.token_file)

    def begin(self, mechanism: str) -> Exchange:
        """Begin a login with a mechanism."""
        if mechanism in sasl.DIGESTS:
            nonce = base64.b64encode(random_bytes(sasl.NONCE_BYTES)).decode()
            return sasl.ScramClient(mechanism, self.user, self.password, nonce=nonce)
        if mechanism == sasl.OAUTHBEARER:
            token = self.token or _token_in(Path(self.token_file))
            return _Told(mechanism, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        return _Told(mechanism, f"\0{self.user}\0{self.password}".encode())

    def preferred(self, *, is_private: bool) -> str:
        """Return the mechanism to begin with."""
        if self.mechanism:
            return self.mechanism
        if not self.is_token:
            return next(iter(sasl.DIGESTS))
        if not is_private:
            raise errors.AuthenticationError(
                "A token would be sent unencrypted.",
                hint="Connect with tls=True, or set mechanism='OAUTHBEARER' if you trust the "
                "network.",
            )
        return sasl.OAUTHBEARER

    def instead(self, fault: errors.AuthenticationError, *, is_private: bool) -> str | None:
        """Choose another mechanism of those that the server names; None if it names none.

        On a connection that others may read or answer, a server must not talk a client into
        sending its password.
        """
        offered = sasl.mechanisms_enabled(fault)
        if offered is None or self.mechanism or self.is_token:
            return None
        usable = [each for each in sasl.DIGESTS if each in offered]
        if usable:
            return usable[0]
        if sasl.PLAIN in offered and is_private:
            return sasl.PLAIN
        if sasl.PLAIN not in offered:
            return None
        raise errors.AuthenticationError(
            "The server offers only PLAIN, which would send the password unencrypted.",
            hint="Connect with tls=True, or set mechanism='PLAIN' if you trust the network.",
        ) from fault


def _token_in(path: Path) -> str:
    """Read a token anew for each connection: whoever renews it writes it to the file."""
    try:
        with path.open("rb") as file:
            found = file.read(TOKEN_BYTES_MAX)
    except OSError as fault:
        raise errors.InvalidOptionError(
            f"The token file cannot be read: {fault.strerror}: {path}."
        ) from fault
    token = found.decode("ascii", "replace").strip()
    if not token or not token.isprintable():
        raise errors.InvalidOptionError(f"{path} contains no token.")
    return token


def is_private(opened: socket.socket | None, *, is_encrypted: bool) -> bool:
    """Tell whether nobody else can read or answer what is sent."""
    if is_encrypted:
        return True
    try:
        peer = opened.getpeername()[0] if opened is not None else ""
        parsed = ip_address(str(peer).partition("%")[0])
    except (OSError, ValueError, IndexError):
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


# ---- TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How a client talks TLS."""

    files: TlsFiles = field(default_factory=TlsFiles)
    server_name: str = ""

    @classmethod
    def of(cls, settings: ClientSettings) -> "Tls | None":
        """Read it from the settings; None without TLS."""
        if not settings.tls:
            return None
        files = TlsFiles(
            certificate=_path(settings.tls_certificate_file),
            key=_path(settings.tls_key_file),
            ca=_path(settings.tls_ca_file),
        )
        return cls(files=files, server_name=settings.tls_server_name)

    def context(self) -> ssl.SSLContext:
        """The context, made once for the files as they are now."""
        stamps = tuple(each.stat().st_mtime_ns for each in self.files.all if each.exists())
        return _context(self.files, stamps)

    def name(self, host: str) -> str:
        """Return the name that the server's certificate must have."""
        return self.server_name or host


@lru_cache(maxsize=_CONTEXTS_KEPT_MAX)
def _context(files: TlsFiles, _stamps: tuple[int, ...]) -> ssl.SSLContext:
    return client_context(files, now_ms=SystemClock().now_ms())


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


NOT_TLS = "Perhaps the port does not speak TLS: connect without tls, or to the server's TLS port."


def handshake_fault(
    host: str, port: int, cause: OSError, *, tls: Tls, timeout_s: float
) -> errors.TlsError | errors.DisconnectedError:
    """Explain why a TLS connection could not be opened."""
    where = f"Cannot connect to {host}:{port} with TLS"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _not_trusted(host, port, cause, tls=tls, timeout_s=timeout_s)
    if not isinstance(cause, ssl.SSLError):
        return errors.DisconnectedError(
            f"{where}: the server closed the connection during the handshake.",
            hint=f"{NOT_TLS} Or the server did not accept this client: its log says why.",
        )
    reason = str(cause.reason or cause).lower().replace("_", " ")
    is_plain = any(each in reason for each in ("wrong version", "record layer", "protocol version"))
    hint = NOT_TLS if is_plain else ""
    if "certificate required" in reason:
        hint = "Pass a client certificate: tls_certificate_file and tls_key_file."
    return errors.TlsError(f"{where}: {reason}.", hint=hint)


def _not_trusted(
    host: str, port: int, cause: ssl.SSLCertVerificationError, *, tls: Tls, timeout_s: float
) -> errors.TlsError:
    where, name = f"Cannot connect to {host}:{port} with TLS", tls.name(host)
    found = _certificate_of(host, port, name, timeout_s=timeout_s)
    shown = "" if found is None else f" It showed {found}."
    told = cause.verify_message.rstrip(".")
    lowered = told.lower()
    hint = "Set tls_ca_file to the CA that issued the server's certificate."
    if "expired" in lowered or "not yet valid" in lowered:
        hint = "The operator has to renew the server's certificate; also check this clock."
    elif "mismatch" in lowered or "doesn't match" in lowered or "not valid for" in lowered:
        hint = "Connect by a name in the certificate, or set tls_server_name to one."
    return errors.TlsError(f"{where}: {told}.{shown}", hint=hint)


def _certificate_of(host: str, port: int, name: str, *, timeout_s: float) -> str | None:
    """Fetch the certificate that was not accepted, only to say whose it is and how long valid."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout_s) as opened,
            context.wrap_socket(opened, server_hostname=name) as secured,
        ):
            return str(facts_of(secured.getpeercert(binary_form=True) or b""))
    except (OSError, ValueError):
        return None


def with_security(settings: ClientSettings, **given: str | bool | None) -> ClientSettings:
    """Replace the settings that are given as arguments of their own."""
    changed = tuple((name, value) for name, value in given.items() if value is not None)
    return settings_with_security(settings, changed)
