"""A certificate authority for development, and certificates of it; needs `cryptography`."""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headwater.errors import InvalidNameError, InvalidOptionError
from headwater.runtime.clock import SystemClock, random_bytes

CA_DAYS = 3650
_CA_NAME = "Headwater development CA"
_NAME = re.compile(r"[A-Za-z0-9_.@\-]{1,64}\Z")
# Clocks of two machines may differ.
_EARLIER = timedelta(minutes=5)
Key = ec.EllipticCurvePrivateKey


def make_server(directory: Path, names: Sequence[str], *, days: int) -> Path:
    """Make a certificate for a server with these names; return its file."""
    if not names:
        raise InvalidNameError("A server needs a name.", hint="Pass --names localhost")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    return _make(
        directory, "server", subject, names, usage=ExtendedKeyUsageOID.SERVER_AUTH, days=days
    )


def make_client(directory: Path, name: str, *, groups: Sequence[str], days: int) -> Path:
    """Make a certificate for a client of this name; return its file."""
    if not _NAME.match(name) or name in {"ca", "server"}:
        raise InvalidNameError(
            f"{name!r} cannot be the name of a client.",
            hint="It may contain letters, digits and '_.@-', at most 64, and not be ca or server.",
        )
    units = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, each) for each in groups]
    subject = x509.Name([*units, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return _make(directory, name, subject, (), usage=ExtendedKeyUsageOID.CLIENT_AUTH, days=days)


def _make(
    directory: Path,
    stem: str,
    subject: x509.Name,
    names: Sequence[str],
    *,
    usage: x509.ObjectIdentifier,
    days: int,
) -> Path:
    issuer, issuer_key = _authority(directory)
    key = ec.generate_private_key(ec.SECP256R1())
    building = (
        _begun(subject, issuer.subject, key, days=days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if names:
        building = building.add_extension(
            x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False
        )
    made = building.sign(issuer_key, hashes.SHA256())
    # The key first: a server that sees the new certificate finds the key that goes with it.
    _write_key(directory / f"{stem}.key", key)
    _write(directory / f"{stem}.pem", made.public_bytes(Encoding.PEM), mode=0o644)
    return directory / f"{stem}.pem"


def _authority(directory: Path) -> tuple[x509.Certificate, Key]:
    """Load the CA of a directory, or make one."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, key_file = directory / "ca.pem", directory / "ca.key"
    if certificate.exists() != key_file.exists():
        missing = key_file if certificate.exists() else certificate
        raise InvalidOptionError(f"{missing} is missing.", hint="Put it back, or use a new place.")
    if certificate.exists():
        held = load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(held, ec.EllipticCurvePrivateKey):
            raise InvalidOptionError(f"{key_file} is not a key of this command.")
        return x509.load_pem_x509_certificate(certificate.read_bytes()), held
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _CA_NAME)])
    made = (
        _begun(name, name, key, days=CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_signs_only(), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(key_file, key)
    _write(certificate, made.public_bytes(Encoding.PEM), mode=0o644)
    return made, key


def _begun(
    subject: x509.Name, issuer: x509.Name, key: Key, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(random_bytes(19)) + 1)
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signs_only() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_key(path: Path, key: Key) -> None:
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write(path, text, mode=0o600)


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file whole, or leave the one before."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
