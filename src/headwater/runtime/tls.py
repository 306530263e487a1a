"""TLS contexts of servers and clients, and what a certificate says about itself.

Every listener and every client makes its context here, so that all have the same lower limit (TLS
1.2) and the same errors: a file that is missing, a key of another certificate, a certificate that
has expired.
"""

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headwater.errors import InvalidOptionError

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}\Z")
_ASKED_NAME = "headwater_name"
_FILE_BYTES_MAX = 1024 * 1024
_COMMON_NAME = bytes.fromhex("550403")
_SEQUENCE, _SET, _VERSION, _OBJECT_ID = 0x30, 0x31, 0xA0, 0x06
_UTC_TIME, _GENERAL_TIME, _BMP_TEXT = 0x17, 0x18, 0x1E
_LENGTH_BYTES_MAX = 4
_LONG_FORM = 0x80
# Years with two digits are from 1950 to 2049.
_CENTURY_TURN = 50


# ---- what a certificate says


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Whose certificate it is, and when it is valid."""

    name: str
    begins: datetime
    ends: datetime

    def __str__(self) -> str:
        return f"the certificate of '{self.name}', valid from {_day(self.begins)} to " + _day(
            self.ends
        )

    def fault(self, now_ms: int) -> str:
        """Say what is wrong with it at a time; empty if nothing is."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        if now > self.ends:
            return f"The certificate of '{self.name}' expired: it was valid until {_day(self.ends)}"
        if now < self.begins:
            return f"The certificate of '{self.name}' is not valid before {_day(self.begins)}"
        return ""


def _day(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def facts_of(der: bytes) -> CertificateFacts:
    """Read the subject's common name and the validity of a certificate; ValueError if broken."""
    try:
        body = next(_items(next(_items(der))[1]))[1]
        parts = [each for each in _items(body) if each[0] != _VERSION]
        # serial number, algorithm, issuer, validity, subject, key
        validity, subject = parts[3][1], parts[4][1]
        begins, ends = (_moment(*each) for each in _items(validity))
        return CertificateFacts(_common_name(subject), begins, ends)
    except (StopIteration, IndexError, OverflowError) as fault:
        raise ValueError("not a certificate") from fault


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and content of each value of a DER sequence."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & _LONG_FORM:
            count = length & ~_LONG_FORM
            if not 0 < count <= _LENGTH_BYTES_MAX:
                raise ValueError("not a certificate")
            length, at = int.from_bytes(data[at : at + count]), at + count
        if at + length > len(data):
            raise ValueError("not a certificate")
        yield tag, data[at : at + length]
        at += length


def _common_name(subject: bytes) -> str:
    """Return the last common name of a subject, the most specific one; empty if there is none."""
    found = ""
    for kind, names in _items(subject):
        if kind != _SET:
            continue
        for _, pair in _items(names):
            (tag, identifier), (form, value) = list(_items(pair))[:2]
            if tag == _OBJECT_ID and identifier == _COMMON_NAME:
                coding = "utf-16-be" if form == _BMP_TEXT else "utf-8"
                found = value.decode(coding, "replace")
    return found


def _moment(kind: int, text: bytes) -> datetime:
    digits = text.decode("ascii").removesuffix("Z")
    if kind == _UTC_TIME:
        digits = ("19" if int(digits[:2]) >= _CENTURY_TURN else "20") + digits
    elif kind != _GENERAL_TIME:
        raise ValueError("not a certificate")
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def certificates_in(path: Path) -> tuple[CertificateFacts, ...]:
    """Read what the certificates of a PEM file say; the first one is the holder's own."""
    text = _read(path, "certificate")
    try:
        found = tuple(
            facts_of(ssl.PEM_cert_to_DER_cert(each.decode("ascii"))) for each in _PEM.findall(text)
        )
    except ValueError:
        found = ()
    if not found:
        raise InvalidOptionError(
            f"{path} contains no certificate in PEM format.",
            hint="Such a file has a line '-----BEGIN CERTIFICATE-----'.",
        )
    return found


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES_MAX)
    except OSError as fault:
        raise InvalidOptionError(
            f"The {what} file cannot be read: {fault.strerror}: {path}.",
            hint="Check the path and the permissions; 'headwater certificate' makes certificates "
            "for development.",
        ) from fault


# ---- contexts


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of one side: its own certificate and key, and the CA of the other side."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        """The files that there are."""
        return tuple(each for each in (self.certificate, self.key, self.ca) if each is not None)


def server_context(
    files: TlsFiles, *, now_ms: int, client_certificates: ssl.VerifyMode = ssl.CERT_NONE
) -> ssl.SSLContext:
    """Make the context of a listener; with a CA, certificates of clients are checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sni_callback = _remember_name
    _load_own(context, files, now_ms)
    if files.ca is not None:
        _load_ca(context, files.ca)
        context.verify_mode = client_certificates
    return context


def _remember_name(
    secured: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
) -> None:
    if name is not None and _HOST.match(name):
        secured.__dict__[_ASKED_NAME] = name


def name_asked(secured: ssl.SSLObject) -> str:
    """Return the name by which a client asked for this server; empty if it used an address."""
    return str(secured.__dict__.get(_ASKED_NAME, ""))


def client_context(files: TlsFiles, *, now_ms: int) -> ssl.SSLContext:
    """Make the context of a client, which checks the server; without a CA, with the system's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.ca is not None:
        _load_ca(context, files.ca)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if files.certificate is not None:
        _load_own(context, files, now_ms)
    return context


def _load_own(context: ssl.SSLContext, files: TlsFiles, now_ms: int) -> None:
    assert files.certificate is not None
    own = certificates_in(files.certificate)[0]
    if wrong := own.fault(now_ms):
        raise InvalidOptionError(f"{wrong} ({files.certificate}).", hint="Renew it.")
    key = files.key or files.certificate
    if b"PRIVATE KEY-----" not in _read(key, "key"):
        raise InvalidOptionError(
            f"{key} contains no private key in PEM format.",
            hint="Set the key file as well as the certificate file.",
        )
    try:
        # No password: a key that has one would otherwise be asked for on the terminal.
        context.load_cert_chain(files.certificate, key, password="")
    except (ValueError, OSError) as fault:
        reason = getattr(fault, "reason", None) or str(fault)
        if reason == "KEY_VALUES_MISMATCH":
            raise InvalidOptionError(
                f"The key in {key} does not belong to the certificate in {files.certificate}."
            ) from fault
        raise InvalidOptionError(
            f"The certificate in {files.certificate} cannot be used with the key in {key}: "
            f"{reason}.",
            hint="The key must be in PEM format, without a password.",
        ) from fault


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    certificates_in(ca)
    try:
        context.load_verify_locations(ca)
    except OSError as fault:
        raise InvalidOptionError(f"The CA file {ca} cannot be used: {fault}.") from fault
