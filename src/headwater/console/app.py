"""The routes of the console, and what stands before every page: hosts, sessions, forms, errors.

1. A host that is none of ours is refused, so that no other site's name can lead here.
2. A browser without a session gets one.
3. A form has to carry the token of its session.
4. The page runs in a thread, with a client of whoever is logged in.
5. Headers that forbid everything but our own script and style are set on every answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headwater import errors
from headwater.console.pages import rows, server, sql, storage
from headwater.console.sessions import ConsoleSession, ConsoleSessions, StaleFormError
from headwater.console.web import HEADERS, STATIC, ConsoleState, Visit, rendered, told, with_query
from headwater.doors.storage import DoorCaller, DoorStorage
from headwater.runtime.events import Events

BODY_BYTES_MAX = 256 * 1024
COOKIE = "headwater_console"
TOKEN_HEADER = "x-form-token"  # noqa: S105 - the name of a header
STATIC_S = 31_536_000
_events = Events("console")

Handler = Callable[[Visit], Response]

PAGES: Mapping[str, Handler] = {
    "/": storage.show_overview,
    "/live/overview": storage.renew_overview,
    "/live/series": storage.show_series,
    "/tables": storage.show_list,
    "/tables/{database}/{table}": storage.show_one,
    "/tables/{database}/{table}/lake": storage.show_lake,
    "/tables/{database}/{table}/count": storage.show_count,
    "/tables/{database}/{table}/rows": rows.show_rows,
    "/tables/{database}/{table}/rows/more": rows.show_more,
    "/tables/{database}/{table}/key": rows.show_key,
    "/tables/{database}/{table}/sample": rows.show_sample,
    "/tables/{database}/{table}/plan": rows.show_plan,
    "/sql": sql.show_sql,
    "/sql/words": sql.words,
    "/cursors": server.show_cursors,
    "/cursors/{cursor}/{database}/{table}": server.show_cursor,
    "/cursors/{cursor}/{database}/{table}/lags": server.show_lags,
    "/cursors/{cursor}/{database}/{table}/move": server.ask_move,
    "/access": server.show_access,
    "/audit": server.show_audit,
    "/server": server.show_server,
}
ACTS: Mapping[str, Handler] = {
    "/sql/run": sql.run,
    "/sql/cancel": sql.cancel,
    "/sql/export": sql.export,
    "/cursors/{cursor}/{database}/{table}": server.move_cursor,
    "/cursors/{cursor}/{database}/{table}/delete": server.delete_cursor,
    "/access/grant": server.grant,
    "/access/revoke": server.revoke,
    "/audit/start": server.start_audit,
}


class ConsoleApp:
    """Answers the requests of browsers."""

    def __init__(self, clients: DoorStorage, state: ConsoleState) -> None:
        self._clients = clients
        self._state = state
        self._sessions = ConsoleSessions(state.clock)

    def starlette(self) -> Starlette:
        """Return the application that a server of HTTP runs."""
        routes = [
            Route("/login", self._guarded(self._login_page), methods=["GET"]),
            Route("/login", self._guarded(self._login), methods=["POST"]),
            Route("/logout", self._guarded(self._logout), methods=["POST"]),
            *(
                Route(path, self._guarded(partial(self._visit, handler)), methods=["GET"])
                for path, handler in PAGES.items()
            ),
            *(
                Route(path, self._guarded(partial(self._visit, handler)), methods=["POST"])
                for path, handler in ACTS.items()
            ),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/{path:path}", self._guarded(self._elsewhere), methods=["GET", "POST"]),
        ]
        app = Starlette(routes=routes)
        app.add_middleware(_Headers, hosts=self._state.rules.hosts)
        return app

    # ---- what stands before every page

    def _guarded(
        self, answer: Callable[[Request, ConsoleSession, Mapping[str, str]], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            session = self._sessions.of(request.cookies.get(COOKIE))
            is_new = session is None
            session = session or self._sessions.begin()
            try:
                form = await _form(request)
                if request.method == "POST":
                    given = request.headers.get(TOKEN_HEADER) or form.get("form_token", "")
                    session.check_form(given)
                response = await answer(request, session, form)
            except Exception as fault:  # noqa: BLE001 - the outer edge of a request, which is told
                response = self._faulty(request, session, fault)
            if is_new and "set-cookie" not in response.headers:
                self._set_cookie(response, session)
            return response

        return guarded

    def _set_cookie(self, response: Response, session: ConsoleSession) -> None:
        response.set_cookie(
            COOKIE,
            session.name,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._state.rules.is_encrypted,
        )

    async def _visit(
        self, handler: Handler, request: Request, session: ConsoleSession, form: Mapping[str, str]
    ) -> Response:
        return await run_in_threadpool(self._answered, handler, request, session, form)

    def _answered(
        self, handler: Handler, request: Request, session: ConsoleSession, form: Mapping[str, str]
    ) -> Response:
        with self._clients.lent(session.caller) as client:
            visit = Visit(
                state=self._state, request=request, session=session, client=client, form=form
            )
            return handler(visit)

    def _faulty(self, request: Request, session: ConsoleSession, fault: Exception) -> Response:
        if isinstance(fault, errors.AuthenticationError):
            if session.is_logged_in:  # The password was changed, or the user removed.
                self._sessions.end(session)
            return _to_login(request)
        status = _status_of(fault)
        if not isinstance(fault, errors.HeadwaterError):
            _events.error("page failed", cause=fault, path=request.url.path)
            fault = errors.StorageError(
                "The console failed to make this page.", hint="Its log says why."
            )
        is_part = request.headers.get("hx-request") == "true"
        template = "fault_part.html" if is_part else "fault.html"
        # A part is swapped in only if its status is one of success.
        return rendered(
            self._state,
            template,
            session=session,
            request=request,
            status=200 if is_part and not isinstance(fault, StaleFormError) else status,
            **told(fault),
        )

    async def _elsewhere(
        self, request: Request, _session: ConsoleSession, _form: Mapping[str, str]
    ) -> Response:
        raise errors.MissingError(
            f"There is no page {request.url.path[:200]!r}.", hint="Choose one on the left."
        )

    # ---- logins

    async def _login_page(
        self, request: Request, session: ConsoleSession, _form: Mapping[str, str]
    ) -> Response:
        to = _own_path(request.query_params.get("to", "/"))
        return rendered(
            self._state,
            "login.html",
            session=session,
            request=request,
            to=to,
            fault="",
            hides_nav=True,
        )

    async def _login(
        self, request: Request, session: ConsoleSession, form: Mapping[str, str]
    ) -> Response:
        """Log in at the server, which is the one to slow down who guesses passwords."""
        token = form.get("token", "").strip()
        user = form.get("user", "").strip()
        to = _own_path(form.get("to", "/"))
        if token:
            caller = DoorCaller(token=token)
        else:
            caller = DoorCaller(user=user or None, password=form.get("password", ""))
        try:
            await run_in_threadpool(self._check, caller)
        except errors.AuthenticationError as fault:
            return rendered(
                self._state,
                "login.html",
                session=session,
                request=request,
                status=401,
                to=to,
                fault=fault.message,
                hides_nav=True,
            )
        self._sessions.end(session)
        response = RedirectResponse(to, status_code=303)
        self._set_cookie(response, self._sessions.begin(caller))
        return response

    def _check(self, caller: DoorCaller) -> None:
        if not caller.is_somebody:
            raise errors.AuthenticationError("Enter the name of a user.")
        with self._clients.lent(caller) as client:
            client.list_databases()

    async def _logout(
        self, _request: Request, session: ConsoleSession, _form: Mapping[str, str]
    ) -> Response:
        self._sessions.end(session)
        response = RedirectResponse("/login", status_code=303)
        response.delete_cookie(COOKIE, path="/")
        return response


def _to_login(request: Request) -> Response:
    to = request.url.path
    if request.url.query:
        to = f"{to}?{request.url.query}"
    where = with_query("/login", to="" if request.method == "POST" else to)
    if request.headers.get("hx-request") == "true":
        return Response(status_code=204, headers={"HX-Redirect": "/login"})
    return RedirectResponse(where, status_code=303)


def _own_path(text: str) -> str:
    """Return a path of ours to go to, and no other site."""
    parts = urlsplit(text)
    is_ours = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_ours and not parts.scheme and not parts.netloc and "\\" not in text else "/"


async def _form(request: Request) -> Mapping[str, str]:
    """Read what a form sent, which is never much."""
    if request.method != "POST":
        return {}
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise errors.RequestError("The form is too long.")
    text = body.decode("utf-8", "replace")
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=200))


def _status_of(fault: Exception) -> int:
    match fault:
        case StaleFormError() | errors.AccessError():
            return 403
        case errors.MissingError():
            return 404
        case errors.RequestError():
            return 400
        case errors.ConflictError():
            return 409
        case errors.RetryLaterError():
            return 503
        case _:
            return 500


class _Headers:
    """Refuse other hosts, and set the headers of every answer."""

    def __init__(self, app: Callable[..., Awaitable[None]], hosts: frozenset[str] | None) -> None:
        self._app = app
        self._hosts = hosts
        self._headers = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]

    async def __call__(self, scope: dict[str, object], receive: object, send: object) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        is_static = request.url.path.startswith("/static/")
        own = dict(self._headers)
        if is_static:
            own[b"cache-control"] = f"public, max-age={STATIC_S}, immutable".encode()

        async def sending(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                held = message["headers"]
                assert isinstance(held, list)
                message["headers"] = [
                    *(each for each in held if each[0].lower() not in own),
                    *own.items(),
                ]
            await send(message)  # type: ignore[operator]

        if self._hosts is not None and _host_of(request) not in self._hosts:
            refusal = PlainTextResponse("This console is not reached by that name.\n", 421)
            await refusal(scope, receive, sending)  # type: ignore[arg-type]
            return
        await self._app(scope, receive, sending)


def _host_of(request: Request) -> str:
    host = request.headers.get("host", "")
    return (
        host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    ).lower()
