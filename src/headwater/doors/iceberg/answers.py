"""Answers in the specification's form: errors, pages of lists, and who asks."""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

from starlette.requests import Request
from starlette.responses import JSONResponse

from headwater import errors
from headwater.doors.storage import NOBODY, DoorCaller
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events

_events = Events("doors.iceberg")

# Errors.

# The first that fits decides: status, and the name that clients make an exception of.
_FORMS: tuple[tuple[type[errors.HeadwaterError], int, str], ...] = (
    (errors.DatabaseMissingError, 404, "NoSuchNamespaceException"),
    (errors.TableMissingError, 404, "NoSuchTableException"),
    (errors.PositionMissingError, 404, "NotFoundException"),
    (errors.MissingError, 404, "NotFoundException"),
    (errors.AuthenticationError, 401, "NotAuthorizedException"),
    (errors.SecurityDisabledError, 401, "NotAuthorizedException"),
    (errors.AccessError, 403, "ForbiddenException"),
    (errors.UnsupportedError, 406, "UnsupportedOperationException"),
    (errors.InvalidNameError, 404, "NoSuchTableException"),
    (errors.RequestError, 400, "BadRequestException"),
    (errors.RetryLaterError, 503, "ServiceUnavailableException"),
)
_READ_ONLY = (
    "This catalog is read only: {what}. Write with a client of Headwater, or with one of Apache "
    "Fluss, to the server behind it."
)


def refusal(status: int, kind: str, message: str) -> JSONResponse:
    """Return an error in the specification's form."""
    error = {"message": message, "type": kind, "code": status}
    headers = {"WWW-Authenticate": 'Basic realm="headwater"'} if status == 401 else None  # noqa: PLR2004
    return JSONResponse({"error": error}, status_code=status, headers=headers)


def refused(fault: Exception) -> JSONResponse:
    """Return the answer to a request that failed."""
    if not isinstance(fault, errors.HeadwaterError):
        _events.error("request failed", cause=fault)
        return refusal(500, "InternalServerError", "The door failed; its log says why.")
    status, kind = next(
        ((status, name) for each, status, name in _FORMS if isinstance(fault, each)),
        (500, "InternalServerError"),
    )
    text = str(fault)
    return refusal(status, kind, text if fault.hint in text else f"{text} {fault.hint}")


def read_only(what: str) -> JSONResponse:
    """Refuse a write as the specification says."""
    return refusal(406, "UnsupportedOperationException", _READ_ONLY.format(what=what))


# Pages of lists.

PAGE_MAX = 1000


def page_of(names: Sequence[str], asked: Mapping[str, str]) -> tuple[list[str], str | None]:
    """Return the names that a request asks for, and the token of the next page.

    A token is the last name of the page before, so that lists may change between pages.
    """
    token = asked.get("pageToken")
    if token is None:
        return sorted(names), None
    text = asked.get("pageSize", str(PAGE_MAX))
    if not text.isascii() or not text.isdigit() or not int(text):
        raise errors.RequestError(f"'pageSize' is {text[:40]!r}.", hint="Ask for 1 or more.")
    size = min(int(text), PAGE_MAX)
    rest = [name for name in sorted(names) if name > token]
    return rest[:size], rest[size - 1] if len(rest) > size else None


# Who asks.

TOKENS_MAX = 4096
NO_TOKENS = ("", "None")
"""What pyiceberg sends where it was given neither credentials nor a token."""
TOKEN_S = 3600


class IssuedTokens:
    """The tokens that this door gave for credentials, which it keeps in memory only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: OrderedDict[str, tuple[float, DoorCaller]] = OrderedDict()
        self._lock = Lock()

    def issue(self, caller: DoorCaller) -> str:
        """Return a token that stands for credentials for a while."""
        token = "hw-" + base64.urlsafe_b64encode(random_bytes(32)).decode().rstrip("=")
        with self._lock:
            self._held[token] = (self._clock.monotonic() + TOKEN_S, caller)
            while len(self._held) > TOKENS_MAX:
                self._held.popitem(last=False)
        return token

    def caller(self, token: str) -> DoorCaller:
        """Return whose token it is; one of an issuer is for the server to check."""
        with self._lock:
            until, caller = self._held.get(token, (0.0, NOBODY))
        if caller.is_somebody and until >= self._clock.monotonic():
            return caller
        if token.startswith("hw-"):
            raise errors.AuthenticationError(
                "The token is unknown or has expired.", hint="Ask for a new one."
            )
        return DoorCaller(token=token)


def caller_of(request: Request, tokens: IssuedTokens) -> DoorCaller:
    """Return who asks, from the header as clients send it."""
    header = request.headers.get("authorization", "")
    kind, _, value = header.partition(" ")
    match kind.lower():
        case "":
            return NOBODY
        case "bearer" if value.strip() in NO_TOKENS:
            return NOBODY
        case "bearer":
            return tokens.caller(value.strip())
        case "basic":
            return basic_caller(value.strip())
        case _:
            raise errors.AuthenticationError(
                f"Credentials of the kind {kind[:40]!r} are unknown.",
                hint="Send Basic or Bearer.",
            )


def basic_caller(value: str) -> DoorCaller:
    """Return the user and password of a Basic header."""
    try:
        user, mark, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user, mark, password = "", "", ""
    if not (user and mark):
        raise errors.AuthenticationError(
            "The Basic credentials cannot be read.", hint="Send base64 of user:password."
        )
    return DoorCaller(user=user, password=password)
