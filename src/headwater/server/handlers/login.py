"""Logins: SASL PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER over the AUTHENTICATE call.

A request carries the name of a mechanism and a token, the answer perhaps a challenge, and so on
until the client is known. A failed login ends the session. Only a mechanism that is not offered
does not: the error names those that are, so that a client can choose another one.
"""

import base64
from ipaddress import ip_address

from headwater.errors import AuthenticationError, SecurityDisabledError
from headwater.runtime.clock import random_bytes
from headwater.server.connection import LOGIN_REQUESTS_MAX, Session
from headwater.server.context import Context
from headwater.server.logins import Logins
from headwater.server.tokens import Identity
from headwater.wire import fluss_pb2 as pb
from headwater.wire import sasl

MECHANISM_SHOWN_MAX = 32
_BEARER = "bearer "
_SEPARATOR = "\x01"


async def authenticate(
    request: pb.AuthenticateRequest, context: Context
) -> pb.AuthenticateResponse:
    """Take the next step of a login; a failure ends the session."""
    logins, session = context.services.logins, context.session
    if logins is None:
        raise SecurityDisabledError(
            "This server does not accept credentials.", hint="Connect without a security protocol."
        )
    mechanism = request.protocol.upper()
    in_clear = not (
        session.is_encrypted or context.services.settings.insecure or is_loopback(session.address)
    )
    offered = logins.offered(in_clear=in_clear)
    session.login_steps += 1
    if mechanism not in offered:
        _forget(session)
        session.is_over = session.login_steps >= LOGIN_REQUESTS_MAX
        raise sasl.mechanism_refused(request.protocol[:MECHANISM_SHOWN_MAX], offered)
    try:
        told = await _checked_step(mechanism, request.token, session, logins)
    except AuthenticationError:
        session.is_over = True
        _forget(session)
        raise
    return pb.AuthenticateResponse(challenge=told) if told else pb.AuthenticateResponse()


async def _checked_step(mechanism: str, token: bytes, session: Session, logins: Logins) -> bytes:
    """Refuse steps that do not follow from the ones before."""
    expected = session.challenge
    # A client that logs in again is nobody until that has succeeded.
    _forget(session)
    reason = ""
    if session.is_logging_in:
        reason = "Another login is still running on this connection."
    elif session.login_steps > LOGIN_REQUESTS_MAX:
        reason = "There were too many attempts on this connection."
    elif expected is not None and expected.verifier.mechanism != mechanism:
        reason = "The mechanism changed within a login."
    if reason:
        raise logins.malformed(reason, address=session.address)
    session.is_logging_in = True
    try:
        if expected is not None:
            return await _answered(expected, token, session, logins)
        if mechanism == sasl.PLAIN:
            return await _plain(token, session, logins)
        if mechanism == sasl.OAUTHBEARER:
            return await _bearer(token, session, logins)
        return _challenged(mechanism, token, session, logins)
    finally:
        session.is_logging_in = False


async def _answered(
    expected: sasl.Challenge, token: bytes, session: Session, logins: Logins
) -> bytes:
    async with logins.attempt(expected.first.user, address=session.address):
        told = expected.answered(token)
    _remember(session, Identity(expected.first.user), credential=expected.credential)
    return told


async def _plain(token: bytes, session: Session, logins: Logins) -> bytes:
    try:
        asked_as, name, password = token.decode().split("\0")
    except ValueError:
        reason = "The PLAIN token is malformed."
        raise logins.malformed(reason, address=session.address) from None
    if asked_as not in ("", name):
        raise logins.malformed("Nobody may log in as another user.", address=session.address)
    credential = await logins.check(name, password, address=session.address)
    _remember(session, Identity(name), credential=credential)
    return b""


def _challenged(mechanism: str, token: bytes, session: Session, logins: Logins) -> bytes:
    try:
        first = sasl.ClientFirst.parse(token)
    except AuthenticationError as fault:
        raise logins.malformed(str(fault), address=session.address) from None
    verifier, credential = logins.users.verifier(first.user, mechanism, secret=logins.secret)
    nonce = base64.b64encode(random_bytes(sasl.NONCE_BYTES)).decode()
    session.challenge = sasl.challenge(first, verifier, nonce=nonce, credential=credential)
    return session.challenge.message


async def _bearer(token: bytes, session: Session, logins: Logins) -> bytes:
    asked_as, bearer = bearer_of(token)
    if not bearer:
        raise logins.malformed("The OAUTHBEARER message is malformed.", address=session.address)
    identity = await logins.check_token(bearer, address=session.address)
    if asked_as not in ("", identity.principal):
        raise logins.malformed("Nobody may log in as another user.", address=session.address)
    _remember(session, identity, credential="")
    return b""


def bearer_of(message: bytes) -> tuple[str, str]:
    """Return whom a client asks to be, and the token in its message; empty if there is none.

    The message is `n,a=user,^Aauth=Bearer TOKEN^A^A`, where ^A is the byte 1.
    """
    try:
        header, *fields = message.decode("ascii").split(_SEPARATOR)
        binding, asked_as, rest = header.split(",")
    except ValueError:
        return "", ""
    values = [each[5:] for each in fields if each.startswith("auth=")]
    is_whole = binding in ("n", "y") and not rest and fields[-2:] == ["", ""]
    is_named = not asked_as or asked_as.startswith("a=")
    if not (is_whole and is_named and len(values) == 1):
        return "", ""
    token = values[0][len(_BEARER) :].strip()
    if not values[0].lower().startswith(_BEARER) or not token:
        return "", ""
    return asked_as[2:], token


def _forget(session: Session) -> None:
    session.principal, session.groups, session.credential = None, (), ""
    session.expires_ms, session.challenge = None, None


def _remember(session: Session, identity: Identity, *, credential: str) -> None:
    if session.is_over:
        return
    session.groups, session.credential = identity.groups, credential
    session.expires_ms = identity.expires_ms
    session.login_steps = 0
    session.principal = identity.principal


def is_loopback(address: str) -> bool:
    """Tell whether a client is on this machine."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback
