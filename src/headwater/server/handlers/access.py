"""Versions and credentials: the first things a client sends."""

from headwater.errors import AuthenticationError, SecurityDisabledError
from headwater.server.context import Context
from headwater.server.logins import Logins
from headwater.server.session import Session
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS

PROTOCOL_SHOWN_MAX = 32


async def api_versions(_: pb.ApiVersionsRequest, __: Context) -> pb.ApiVersionsResponse:
    """Tell which APIs are served, in which versions."""
    # No server type: one port plays coordinator and tablet server.
    return pb.ApiVersionsResponse(
        api_versions=[
            pb.ApiVersion(api_key=api.key, min_version=0, max_version=api.version_max)
            for api in APIS.values()
        ]
    )


async def authenticate(
    request: pb.AuthenticateRequest, context: Context
) -> pb.AuthenticateResponse:
    """Check a user name and password given by SASL PLAIN; a failure ends the session."""
    logins = context.services.logins
    if logins is None:
        raise SecurityDisabledError(
            "This server takes no credentials.", hint="Connect without a security protocol."
        )
    try:
        await _log_in(request, context.session, logins)
    except AuthenticationError:
        context.session.is_over = True
        raise
    return pb.AuthenticateResponse()


async def _log_in(request: pb.AuthenticateRequest, session: Session, logins: Logins) -> None:
    # Whoever logs in again is nobody until that has succeeded.
    session.principal = None
    if session.is_logging_in:
        raise logins.malformed("One login at a time.", address=session.address)
    if request.protocol.upper() != "PLAIN":
        shown = request.protocol[:PROTOCOL_SHOWN_MAX]
        reason = f"Mechanism {shown!r} is not served, PLAIN is."
        raise logins.malformed(reason, address=session.address)
    try:
        _, name, password = request.token.decode().split("\0")
    except ValueError:
        reason = "The PLAIN token is malformed."
        raise logins.malformed(reason, address=session.address) from None
    session.is_logging_in = True
    try:
        session.credential = await logins.check(name, password, address=session.address)
    finally:
        session.is_logging_in = False
    if not session.is_over:
        session.principal = name
