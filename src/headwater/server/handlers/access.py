"""Versions and credentials: the first things a client sends."""

import asyncio

from headwater.errors import AuthenticationError, SecurityDisabledError
from headwater.server.context import Context
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import APIS


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
    """Check a user name and password given by SASL PLAIN."""
    users = context.services.users
    if users is None:
        raise SecurityDisabledError(
            "This server takes no credentials.", hint="Connect without a security protocol."
        )
    if request.protocol.upper() != "PLAIN":
        raise AuthenticationError(f"Mechanism {request.protocol!r} is not served, PLAIN is.")
    name, password = _plain(request.token)
    # Hashing is slow on purpose, so it must not hold up anyone else.
    await asyncio.to_thread(users.check, name, password)
    context.session.principal = name
    return pb.AuthenticateResponse()


def _plain(token: bytes) -> tuple[str, str]:
    try:
        _, name, password = token.decode().split("\0")
    except ValueError:
        raise AuthenticationError("The PLAIN token is malformed.") from None
    return name, password
