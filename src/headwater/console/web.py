"""What every page of the console is made with: the visit, templates, answers and their headers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headwater import __version__
from headwater.client.sync.client import Client
from headwater.console.facts.access import AuditDesk
from headwater.console.facts.growth import Glances, Growth
from headwater.console.facts.lags import LagHistory
from headwater.console.facts.overview import Overview
from headwater.console.facts.sql import SqlDesk
from headwater.console.feed import MetricsFeed
from headwater.console.sessions import ConsoleSession
from headwater.doors.storage import DoorPlace
from headwater.errors import AccessError, RequestError, UnsupportedError
from headwater.read.explain import bytes_text, seconds_text
from headwater.runtime.clock import Clock

HERE = Path(__file__).parent
STATIC = HERE / "static"
NAVIGATION = ("/", "/tables", "/sql", "/cursors", "/access", "/audit", "/server")
"""The pages that the menu leads to."""
UNKNOWN = "\u2013"
CELL_CHARACTERS_MAX = 300
"""Of a value in a table; the rest of it is cut off, and said to be."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


# How values look.


def number(value: float | None) -> str:
    """Show a number as people read it; nothing where it is unknown."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.3g}"


def size(value: float | None) -> str:
    """Show a number of bytes."""
    return UNKNOWN if value is None else bytes_text(int(value))


def span(value: float | None) -> str:
    """Show a time that passed."""
    if value is None:
        return UNKNOWN
    return seconds_text(value) if value >= 1 else f"{value * 1000:.3g} ms"


def moment(ms: float | None) -> str:
    """Show a moment in UTC."""
    if not ms:
        return UNKNOWN
    shown = (_EPOCH + timedelta(milliseconds=int(ms))).isoformat(" ", timespec="milliseconds")
    return shown.removesuffix("+00:00")


def cell(value: object) -> str:
    """Show a value of a row, not too long."""
    match value:
        case None:
            text = ""
        case bool():
            text = str(value).lower()
        case bytes():
            text = f"0x{value[:CELL_CHARACTERS_MAX].hex()}"
        case float():
            text = f"{value:.10g}"
        case datetime():
            text = value.replace(tzinfo=None).isoformat(" ")
        case dict() | list() | tuple():
            text = json.dumps(value, default=str, ensure_ascii=False)
        case _:
            text = str(value)
    return text if len(text) <= CELL_CHARACTERS_MAX else f"{text[:CELL_CHARACTERS_MAX]}…"


def table_url(database: str, table: str, page: str = "") -> str:
    """Return the address of a page of a table, whatever its name is."""
    end = f"/{page}" if page else ""
    return f"/tables/{quote(database, safe='')}/{quote(table, safe='')}{end}"


def with_query(path: str, **values: object) -> str:
    """Return an address with those values of a query that are none of empty or None."""
    shown = {name: str(value) for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(shown)}" if shown else path


def _static_version() -> str:
    digest = sha256()
    for path in sorted(STATIC.rglob("*.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def environment() -> Environment:
    """Load the templates, which escape every value."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(number=number, size=size, span=span, moment=moment, cell=cell)
    made.globals.update(
        table_url=table_url,
        with_query=with_query,
        static_version=_static_version(),
        version=__version__,
    )
    return made


# One visit.


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRules:
    """What a console lets people do, and under which name it is reached."""

    may_edit: bool = False
    is_encrypted: bool = False
    hosts: frozenset[str] | None = None
    """Names under which a browser may ask; None if any will do."""
    report: Path | None = None
    """The file of the last audit, where the storage is on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleState:
    """What all visits share."""

    place: DoorPlace
    rules: ConsoleRules
    feed: MetricsFeed
    clock: Clock
    growth: Growth
    lags: LagHistory
    glances: Glances[Overview]
    desk: SqlDesk
    audits: AuditDesk
    templates: Environment = field(default_factory=environment)

    @property
    def address(self) -> str:
        """What is shown: a directory, or addresses of servers."""
        at = self.place.at
        return str(at) if isinstance(at, Path) else ", ".join(at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request: who asks for what."""

    state: ConsoleState
    request: Request
    session: ConsoleSession
    client: Client
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def caller(self) -> str:
        """What tells callers apart in what is kept for them."""
        return self.session.caller.key

    def part(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    def text(self, name: str, default: str = "") -> str:
        """Return a value of the query."""
        return str(self.request.query_params.get(name, default)).strip()

    def texts(self, name: str) -> list[str]:
        """Return all values of that name."""
        return [str(each) for each in self.request.query_params.getlist(name)]

    def count(self, name: str, default: int, *, most: int) -> int:
        """Return a number of the query, within its limits."""
        text = self.text(name)
        if not text:
            return default
        if not text.isdigit() or int(text) > most:
            raise RequestError(f"{name} is not a number up to {most}.")
        return int(text)

    def check_edit(self) -> None:
        """Refuse changes unless the operator allowed them."""
        if not self.state.rules.may_edit:
            raise UnsupportedError(
                "This console is read-only.", hint="Start it with --edit to allow changes."
            )

    def page(self, template: str, *, status: int = 200, **values: object) -> Response:
        """Render a template."""
        return rendered(
            self.state,
            template,
            session=self.session,
            request=self.request,
            status=status,
            **values,
        )

    def to(self, path: str, *, told: str = "") -> Response:
        """Send the browser to another page."""
        return RedirectResponse(with_query(path, told=told), status_code=303)


def rendered(
    state: ConsoleState,
    template: str,
    *,
    session: ConsoleSession,
    request: Request,
    status: int = 200,
    **values: object,
) -> Response:
    """Render a template with what all of them show."""
    shown = {
        "address": state.address,
        "user": session.caller.user or ("token" if session.caller.token else None),
        "form_token": session.form_token,
        "may_edit": state.rules.may_edit,
        "path": request.url.path,
        "pages": NAVIGATION,
        "hides_nav": False,
        "told": request.query_params.get("told", ""),
        **values,
    }
    return HTMLResponse(state.templates.get_template(template).render(shown), status_code=status)


def told(fault: Exception) -> dict[str, str]:
    """Say what went wrong, and what to do about it."""
    hint = getattr(fault, "hint", "")
    text = getattr(fault, "message", "") or str(fault)
    if isinstance(fault, AccessError):
        hint = "Ask whoever runs the server for the permission, or log in as another user."
    return {"fault": text, "hint": hint}
