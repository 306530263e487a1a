"""The server's certificate, renewed when its files change, and who a client's certificate names."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from headwater.config.server import ServerSettings
from headwater.errors import HeadwaterError
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.tls import TlsFiles, certificates_in, server_context
from headwater.server.tokens import GROUPS_MAX, Identity, is_name
from headwater.store.local import Stamp, stamp_of

_events = Events("tls")
WARN_BEFORE_MS = 14 * 24 * 3600 * 1000
_MODES = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
# The names of attributes in RFC 4514, by those of the ssl module.
_SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL = '"+,;<>\\'

Names = Sequence[Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class _Loaded:
    context: ssl.SSLContext
    for_pages: ssl.SSLContext
    stamps: tuple[Stamp | None, ...]


class Certificates:
    """The contexts for new connections, made from the files as they are now."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._clock = clock
        self._files = TlsFiles(
            certificate=Path(settings.tls_certificate_file),
            key=Path(settings.tls_key_file) if settings.tls_key_file else None,
            ca=Path(settings.tls_client_ca_file) if settings.tls_client_ca_file else None,
        )
        self._mode = _MODES[settings.tls_client_auth if settings.tls_client_ca_file else "none"]
        self._loaded = self._load()
        self._seen = self._loaded.stamps

    @property
    def context(self) -> ssl.SSLContext:
        """The context for clients."""
        return self._loaded.context

    @property
    def for_pages(self) -> ssl.SSLContext:
        """The context for scrapers, which need no certificate."""
        return self._loaded.for_pages

    async def reload(self) -> None:
        """Follow changes of the files; what cannot be used changes nothing."""
        stamps = await asyncio.to_thread(self._stamps)
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._loaded = await asyncio.to_thread(self._load)
        except HeadwaterError as fault:
            _events.error("certificate not reloaded: the one before stays", reason=str(fault))
            return
        _events.info("certificate reloaded", file=str(self._files.certificate))

    def _load(self) -> _Loaded:
        # Before the files are read, so that a concurrent change counts as a later one.
        stamps, now_ms = self._stamps(), self._clock.now_ms()
        assert self._files.certificate is not None
        own = TlsFiles(certificate=self._files.certificate, key=self._files.key)
        loaded = _Loaded(
            server_context(self._files, now_ms=now_ms, client_certificates=self._mode),
            server_context(own, now_ms=now_ms),
            stamps,
        )
        facts = certificates_in(self._files.certificate)[0]
        if facts.fault(now_ms + WARN_BEFORE_MS):
            _events.warning("certificate expires soon", certificate=str(facts))
        return loaded

    def _stamps(self) -> tuple[Stamp | None, ...]:
        return tuple(map(stamp_of, self._files.all))


def identity_of(certificate: Mapping[str, object] | None, *, kind: str) -> Identity | None:
    """Return whom a client's certificate names: its common name, or its whole subject.

    Its organizational units are the groups. None without a certificate, or without such a name, or
    with several common names: nobody could tell which of them the CA had checked.
    """
    if not certificate:
        return None
    subject = cast(Names, certificate.get("subject", ()))
    pairs = [pair for names in subject for pair in names]
    if kind == "subject":
        name = subject_text(subject)
    else:
        names = [value for key, value in pairs if key == "commonName"]
        name = names[0] if len(names) == 1 else ""
    groups = tuple(value for key, value in pairs if key == "organizationalUnitName")
    if not is_name(name) or len(groups) > GROUPS_MAX or not all(map(is_name, groups)):
        return None
    return Identity(name, groups, _ends_ms(str(certificate.get("notAfter", ""))))


def subject_text(subject: Names) -> str:
    """Write a subject as RFC 4514 says: the last name first, `CN=ann,OU=sales,O=Shop`."""
    return ",".join(
        "+".join(f"{_SHORT.get(key, key)}={_escaped(value)}" for key, value in names)
        for names in reversed(subject)
    )


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in _SPECIAL else each for each in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text


def _ends_ms(text: str) -> int | None:
    try:
        ends = datetime.strptime(text, "%b %d %H:%M:%S %Y %Z").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(ends.timestamp() * 1000)
