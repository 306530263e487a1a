"""The routes of the Iceberg REST catalog, and what each of them answers.

Handlers block and run in threads. Each borrows the client of its caller, so that whatever the
caller may not see is missing or refused, as the server says.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headwater import errors
from headwater.client.sync.client import Client
from headwater.doors.iceberg.answers import (
    TOKEN_S,
    IssuedTokens,
    basic_caller,
    caller_of,
    page_of,
    read_only,
    refusal,
    refused,
)
from headwater.doors.iceberg.held import NEWEST, HotTable, LoadPosition
from headwater.doors.iceberg.loads import HotTables
from headwater.doors.storage import DoorCaller, DoorStorage
from headwater.metrics.exposition import CONTENT_TYPE, Exposition
from headwater.model import TablePath
from headwater.read.token import PREFIX
from headwater.runtime.clock import Clock

BODY_BYTES_MAX = 64 * 1024
LEVELS = "\x1f"
"""What separates the levels of a namespace; tables here have one level, their database."""
ENDPOINTS = (
    "GET /v1/config",
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
)
AT = "@"
"""What separates a table and a position in the name of a table."""
_BY = ("token", "as_of")
_N, _T = "/namespaces/{namespace}", "/namespaces/{namespace}/tables/{table}"


Handler = Callable[["IcebergCatalogApp", Request, Client], Response]


class IcebergCatalogApp:
    """Answers the requests of one door."""

    def __init__(self, storage: DoorStorage, loads: HotTables, clock: Clock) -> None:
        self._storage = storage
        self._loads = loads
        self._tokens = IssuedTokens(clock)
        self._metrics = Exposition(loads.readings)

    def starlette(self) -> Starlette:
        """Return the application that a server of HTTP runs."""
        return Starlette(
            routes=[
                Route("/v1/config", self._of(_config), methods=["GET"]),
                Route("/v1/oauth/tokens", self._token, methods=["POST"]),
                Route("/v1/namespaces", self._of(_namespaces), methods=["GET"]),
                Route(f"/v1{_N}", self._of(_namespace), methods=["GET", "HEAD"]),
                Route(f"/v1{_N}/tables", self._of(_tables), methods=["GET"]),
                Route(f"/v1{_N}/views", self._of(_views), methods=["GET"]),
                Route(f"/v1{_T}", self._of(_table), methods=["GET", "HEAD"]),
                Route(f"/v1{_T}/credentials", self._of(_credentials), methods=["GET"]),
                Route(f"/v1{_T}/metrics", self._of(_metrics), methods=["POST"]),
                Route("/metrics", self._told, methods=["GET"]),
                Route("/{path:path}", _elsewhere, methods=["GET", "HEAD", "POST", "DELETE", "PUT"]),
            ]
        )

    def load(self, client: Client, request: Request) -> HotTable:
        """Load the table that a request names."""
        path, at = named_of(request)
        return self._loads.load(client, path, at=at)

    def _told(self, _: Request) -> Response:
        """Tell Prometheus what loads cost; it names no table."""
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    def _of(self, handler: Handler) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                caller = caller_of(request, self._tokens)
                with self._storage.lent(caller) as client:
                    return handler(self, request, client)
            except Exception as fault:  # noqa: BLE001 - the outer edge of a request, which is told
                return refused(fault)

        return answer

    async def _token(self, request: Request) -> Response:
        """Give a token for the credentials of a client, as the OAuth2 of the specification."""
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES_MAX:
                return _oauth_fault(400, "invalid_request", "The request is too long.")
        try:
            caller = _client_credentials(request, bytes(body))
            await run_in_threadpool(self._check, caller)
        except errors.AuthenticationError as fault:
            return _oauth_fault(401, "invalid_client", str(fault))
        except errors.RequestError as fault:
            return _oauth_fault(400, "unsupported_grant_type", str(fault))
        except errors.HeadwaterError as fault:
            return refused(fault)
        return JSONResponse(
            {
                "access_token": self._tokens.issue(caller),
                "token_type": "bearer",
                "expires_in": TOKEN_S,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            }
        )

    def _check(self, caller: DoorCaller) -> None:
        with self._storage.lent(caller):
            pass


def _client_credentials(request: Request, body: bytes) -> DoorCaller:
    form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    grant = form.get("grant_type", "")
    if grant != "client_credentials":
        raise errors.RequestError(
            f"The grant type {grant[:60]!r} is not supported.", hint="Use client_credentials."
        )
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        return basic_caller(value.strip())
    user, password = form.get("client_id", ""), form.get("client_secret", "")
    if not user:
        raise errors.AuthenticationError(
            "There is no client_id.", hint="Use the name of a user of the server."
        )
    return DoorCaller(user=user, password=password)


def _oauth_fault(status: int, code: str, text: str) -> JSONResponse:
    return JSONResponse({"error": code, "error_description": text}, status_code=status)


# What a request names.


def database_of(request: Request) -> str:
    """Return the database that a namespace is; more levels than one are none of ours."""
    name = unquote(request.path_params["namespace"])
    if LEVELS in name or "." in name or not name:
        shown = name.replace(LEVELS, ".")
        raise errors.DatabaseMissingError(f"There is no namespace {shown!r}.")
    return name


def named_of(request: Request) -> tuple[TablePath, LoadPosition]:
    """Return the table that a request names, and the position: `orders@2026-11-18T12:00:00Z`.

    No table has such a name, and every engine can write it between quotes. Clients that make
    requests by themselves may name a position as a parameter as well.
    """
    database, name = database_of(request), unquote(request.path_params["table"])
    name, mark, suffix = name.partition(AT)
    asked = {each: request.query_params[each] for each in _BY if each in request.query_params}
    if len(asked) + bool(mark) > 1:
        raise errors.RequestError("A position is named in two ways.", hint="Name one of them.")
    if "$" in name:
        raise errors.TableMissingError(f"There is no table {database}.{name}.")
    try:
        path = TablePath(database, name)
    except errors.InvalidNameError:
        raise errors.TableMissingError(f"There is no table {database}.{name}.") from None
    if mark:
        return path, position_of(suffix)
    return path, position_of(next(iter(asked.values()))) if asked else NEWEST


def position_of(text: str) -> LoadPosition:
    """Return the position that a text names: a token, a moment, or what the lake alone holds."""
    if text.lower() == "lake":
        return LoadPosition(mode="lake")
    if text.startswith(PREFIX):
        return LoadPosition(token=text)
    if text.isascii() and text.isdigit():
        return LoadPosition(as_of=int(text))
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        raise errors.RequestError(
            f"{text[:60]!r} is no position.",
            hint="Name a token, a moment such as 2026-11-18T12:00:00Z or its milliseconds since "
            "1970, or 'lake'.",
        ) from None
    # A moment without a time zone is one of UTC, as everywhere in Iceberg.
    return LoadPosition(as_of=moment if moment.tzinfo else moment.replace(tzinfo=UTC))


# Handlers.


def _config(_: IcebergCatalogApp, __: Request, client: Client) -> Response:
    client.list_databases()
    return JSONResponse({"defaults": {}, "overrides": {}, "endpoints": list(ENDPOINTS)})


def _namespaces(_: IcebergCatalogApp, request: Request, client: Client) -> Response:
    names = client.list_databases()
    parent = request.query_params.get("parent")
    if parent:
        if parent not in names:
            raise errors.DatabaseMissingError(f"There is no namespace {parent!r}.")
        names = []
    page, token = page_of(names, request.query_params)
    return JSONResponse({"namespaces": [[name] for name in page], "next-page-token": token})


def _namespace(_: IcebergCatalogApp, request: Request, client: Client) -> Response:
    name = _known_database(request, client)
    if request.method == "HEAD":
        return Response(status_code=204)
    return JSONResponse({"namespace": [name], "properties": {}})


def _tables(_: IcebergCatalogApp, request: Request, client: Client) -> Response:
    database = _known_database(request, client)
    page, token = page_of(client.list_tables(database), request.query_params)
    found = [{"namespace": [database], "name": name} for name in page]
    return JSONResponse({"identifiers": found, "next-page-token": token})


def _views(_: IcebergCatalogApp, request: Request, client: Client) -> Response:
    _known_database(request, client)
    return JSONResponse({"identifiers": []})


def _known_database(request: Request, client: Client) -> str:
    name = database_of(request)
    if name not in client.list_databases():
        raise errors.DatabaseMissingError(f"There is no namespace {name!r}.")
    return name


def _table(app: IcebergCatalogApp, request: Request, client: Client) -> Response:
    if request.method == "HEAD":
        client.table(named_of(request)[0])
        return Response(status_code=204)
    loaded = app.load(client, request)
    asked = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if loaded.etag in asked:
        return Response(status_code=304, headers={"ETag": loaded.etag})
    return Response(loaded.body, media_type="application/json", headers={"ETag": loaded.etag})


def _credentials(_: IcebergCatalogApp, request: Request, client: Client) -> Response:
    client.table(named_of(request)[0])
    return JSONResponse({"storage-credentials": []})


def _metrics(_: IcebergCatalogApp, request: Request, client: Client) -> Response:
    client.table(named_of(request)[0])
    return Response(status_code=204)


def _elsewhere(request: Request) -> Response:
    """Refuse what is no part of the catalog, and every write."""
    what = json.dumps(f"{request.method} {request.url.path}"[:200])
    if request.method in ("GET", "HEAD"):
        kind = "NoSuchViewException" if "/views/" in request.url.path else "NotFoundException"
        return refusal(404, kind, f"There is nothing at {what}.")
    return read_only(f"it does not take {what}")
