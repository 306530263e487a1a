"""Handshakes: steps of logins, messages of SCRAM and of tokens, certificates, and TLS at the door.

An input of the first target is a list of steps. Each begins with the number of a mechanism and a
length, and the rest is its token. Whatever comes, nobody is let in who does not know the password.
"""

import asyncio
import base64
import ssl
import struct
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from headwater.cli.security import make_certificate
from headwater.config.server import ServerSettings
from headwater.errors import AuthenticationError
from headwater.runtime.tls import facts_of
from headwater.server.connection import Session
from headwater.server.handlers.login import authenticate, bearer_of
from headwater.server.logins import Logins, Users
from headwater.wire import fluss_pb2 as pb
from headwater.wire.sasl import ClientFirst, ScramClient, Verifier, challenge
from tests.clocks import InstantClock
from tests.fuzz.target import Target

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "GSSAPI")
STEPS_MAX = 12
NONCE = "0123456789"
SALT = bytes(16)
# Few iterations: the arithmetic is not what is tried here.
CHEAP = {name: Verifier.of(name, "secret", salt=SALT, iterations=4096) for name in MECHANISMS[:2]}
_STEP = struct.Struct(">BH")


class CheapUsers(Users):
    """Know `ann`, whose password takes no time to check."""

    def check(self, name: str, password: str) -> str:
        if (name, password) != ("ann", "secret"):
            raise AuthenticationError("The user name or the password is wrong.")
        return "credential"

    def verifier(self, name: str, mechanism: str, *, secret: bytes) -> tuple[Verifier, str]:
        if name == "ann":
            return CHEAP[mechanism], "credential"
        return super().verifier(name, mechanism, secret=secret)


class CheapLogins(Logins):
    """Offer what `ann` can use."""

    def offered(self, *, in_clear: bool) -> tuple[str, ...]:
        return () if in_clear else MECHANISMS[:3]


@lru_cache(maxsize=1)
def _logins() -> Logins:
    # One for all inputs: what it remembers of them has a limit, and it logs few of them.
    return CheapLogins(CheapUsers({}), InstantClock(), secret=bytes(32))


def log_in(data: bytes) -> None:
    asyncio.run(_log_in(data))


async def _log_in(data: bytes) -> None:
    logins = _logins()
    session = Session("?", "", 0, asyncio.Event().wait, address="127.0.0.1", needs_login=True)
    services = SimpleNamespace(logins=logins, settings=ServerSettings())
    context = SimpleNamespace(services=services, session=session)
    knows = False
    for mechanism, token in _steps(data):
        knows |= b"\0ann\0secret" in token
        request = pb.AuthenticateRequest(protocol=mechanism, token=token)
        try:
            await authenticate(request, context)  # type: ignore[arg-type]
        except AuthenticationError:
            assert session.principal is None, "a refused client is somebody"
        assert session.principal is None or knows, "somebody got in without the password"
        if session.is_over:
            break


def _steps(data: bytes) -> list[tuple[str, bytes]]:
    steps, at = [], 0
    while at + _STEP.size <= len(data) and len(steps) < STEPS_MAX:
        number, length = _STEP.unpack_from(data, at)
        token = data[at + _STEP.size : at + _STEP.size + length]
        steps.append((MECHANISMS[number % len(MECHANISMS)], token))
        at += _STEP.size + length
    return steps


def _step(mechanism: str, token: bytes) -> bytes:
    return _STEP.pack(MECHANISMS.index(mechanism), len(token)) + token


def login_seeds() -> list[bytes]:
    first = b"n,,n=ann,r=abcdef"
    proof = b"c=biws,r=abcdef,p=" + base64.b64encode(bytes(32))
    return [
        _step("PLAIN", b"\0ann\0secret"),
        _step("SCRAM-SHA-256", first) + _step("SCRAM-SHA-256", proof),
        _step("SCRAM-SHA-512", first) + _step("PLAIN", b"\0ann\0secret"),
        _step("SCRAM-SHA-256", b"n,,n=eve,r=abc") + _step("SCRAM-SHA-256", proof),
        _step("GSSAPI", b"x") * 9,
        _step("OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01\x01"),
    ]


# ---- messages


def take_first(data: bytes) -> None:
    first = ClientFirst.parse(data)
    assert first.user
    assert challenge(first, CHEAP["SCRAM-SHA-256"], nonce=NONCE).message


def take_proof(data: bytes) -> None:
    expected = challenge(ClientFirst.parse(b"n,,n=ann,r=abc"), CHEAP["SCRAM-SHA-256"], nonce=NONCE)
    expected.answered(data)


def take_challenge(data: bytes) -> None:
    client = ScramClient("SCRAM-SHA-256", "ann", "secret", nonce="abc")
    _, _, count = client._challenge(data.decode("latin-1"))
    # More iterations would only take time.
    if count == CHEAP["SCRAM-SHA-256"].iterations:
        client.next(data)


def proof_seeds() -> list[bytes]:
    client = ScramClient("SCRAM-SHA-256", "ann", "secret", nonce="abc")
    expected = challenge(ClientFirst.parse(client.first()), CHEAP["SCRAM-SHA-256"], nonce=NONCE)
    return [client.next(expected.message) or b""]


def challenge_seeds() -> list[bytes]:
    salt = base64.b64encode(SALT)
    return [b"r=abc" + NONCE.encode() + b",s=" + salt + b",i=4096"]


def take_bearer(data: bytes) -> None:
    asked_as, token = bearer_of(data)
    assert not asked_as or token


# ---- certificates and TLS


@lru_cache(maxsize=1)
def _server_context() -> tuple[ssl.SSLContext, bytes]:
    with TemporaryDirectory() as folder:
        made = make_certificate.make_server(Path(folder), ["localhost"], days=30)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, made.with_suffix(".key"))
        return context, ssl.PEM_cert_to_DER_cert(made.read_text())


class _NoCertificateError(AuthenticationError):
    """The bytes are not those of a certificate."""


def take_certificate(data: bytes) -> None:
    try:
        facts_of(data)
    except ValueError as fault:
        raise _NoCertificateError("not a certificate") from fault


def shake_hands(data: bytes) -> None:
    """Feed bytes to the server's side of a handshake; nothing but an SSL error may come of it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = _server_context()[0].wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(data)
    try:
        secured.do_handshake()
    except ssl.SSLWantReadError:
        return
    except ssl.SSLError as fault:
        raise _NoCertificateError(str(fault)) from fault
    raise AssertionError("a handshake without a client's part is done")


@lru_cache(maxsize=1)
def hello_seeds() -> tuple[bytes, ...]:
    found = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = context.maximum_version = version
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        secured = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        try:
            secured.do_handshake()
        except ssl.SSLWantReadError:
            found.append(outgoing.read())
    return tuple(found)


_REFUSALS = (AuthenticationError,)
TARGETS = (
    Target("steps of logins", log_in, login_seeds, _REFUSALS),
    Target("first messages of SCRAM", take_first, lambda: [b"n,,n=ann,r=abc"], _REFUSALS),
    Target("proofs of SCRAM", take_proof, proof_seeds, _REFUSALS),
    Target("challenges of SCRAM", take_challenge, challenge_seeds, _REFUSALS),
    Target(
        "messages with tokens",
        take_bearer,
        lambda: [b"n,a=ann,\x01host=a\x01auth=Bearer a.b.c\x01\x01"],
        _REFUSALS,
    ),
    Target("certificates", take_certificate, lambda: [_server_context()[1]], _REFUSALS),
    Target("handshakes of TLS", shake_hands, hello_seeds, _REFUSALS),
)
