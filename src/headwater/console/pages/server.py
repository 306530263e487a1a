"""Pages of what runs beside tables: cursors, permissions, settings, audits."""

import json
from urllib.parse import quote

from starlette.responses import Response

from headwater.console.facts import access
from headwater.console.facts.cursors import cursor_lines, move_of, reset
from headwater.console.facts.lags import lag_columns
from headwater.console.facts.rows import positions_of, positions_text
from headwater.console.facts.tables import names_of
from headwater.console.pages.storage import path_in
from headwater.console.web import Visit
from headwater.errors import RequestError

# Cursors.


def show_cursors(visit: Visit) -> Response:
    """List cursors."""
    return visit.page("cursors.html", cursors=cursor_lines(visit.client))


def show_cursor(visit: Visit) -> Response:
    """Show one cursor: who reads what, and how far behind."""
    name, path = visit.part("cursor"), path_in(visit)
    state = visit.client.cursors.describe(name, path)
    visit.state.lags.note(visit.caller, state, now_ms=visit.state.clock.now_ms())
    is_part = visit.request.headers.get("hx-request") == "true"
    return visit.page(
        "cursor_buckets.html" if is_part else "cursor.html",
        cursor=state,
        here=_cursor_url(visit),
        move=None,
        to="",
    )


def _cursor_url(visit: Visit) -> str:
    parts = (visit.part(name) for name in ("cursor", "database", "table"))
    return "/".join(("/cursors", *(quote(part, safe="") for part in parts)))


def show_lags(visit: Visit) -> Response:
    """Return the lag of a cursor over time."""
    state = visit.client.cursors.describe(visit.part("cursor"), path_in(visit))
    line = visit.state.lags.note(visit.caller, state, now_ms=visit.state.clock.now_ms())
    return Response(json.dumps({"lag": lag_columns(line)}), media_type="application/json")


def ask_move(visit: Visit) -> Response:
    """Say what moving a cursor would skip or repeat, and ask."""
    visit.check_edit()
    state = visit.client.cursors.describe(visit.part("cursor"), path_in(visit))
    to = visit.text("to")
    move = move_of(visit.client, state, to)
    return visit.page(
        "cursor.html",
        cursor=state,
        here=_cursor_url(visit),
        move=move,
        to=to,
        positions=positions_text(move.positions),
    )


def move_cursor(visit: Visit) -> Response:
    """Move a cursor to the positions that were shown."""
    visit.check_edit()
    name, path = visit.part("cursor"), path_in(visit)
    positions = positions_of(visit.form.get("positions", ""))
    reset(visit.client, name, path, positions, force=visit.form.get("force") == "1")
    return visit.to(_cursor_url(visit), told=f"Moved cursor {name} over {path}.")


def delete_cursor(visit: Visit) -> Response:
    """Delete a cursor, once its name was typed."""
    visit.check_edit()
    name, path = visit.part("cursor"), path_in(visit)
    if visit.form.get("confirm", "") != name:
        raise RequestError(
            f"Nothing was deleted: the name that was typed is not {name!r}.",
            hint="Go back and type the name of the cursor.",
        )
    visit.client.cursors.delete(name, path, force=visit.form.get("force") == "1")
    return visit.to("/cursors", told=f"Deleted cursor {name} over {path}.")


# Permissions.


def show_access(visit: Visit) -> Response:
    """List permissions."""
    return visit.page(
        "access.html", grants=access.grants(visit.client), operations=access.OPERATIONS
    )


def grant(visit: Visit) -> Response:
    """Grant one permission."""
    visit.check_edit()
    form = visit.form
    principal, operation = form.get("principal", ""), form.get("operation", "")
    resource, host = access.resource_argument(form.get("resource", "")), form.get("host", "*")
    visit.client.acls.grant(principal, operation, resource, host=host or "*")
    return visit.to("/access", told=f"{principal} may {operation} on {resource}.")


def revoke(visit: Visit) -> Response:
    """Revoke one permission."""
    visit.check_edit()
    form = visit.form
    principal, operation = form.get("principal", ""), form.get("operation", "")
    resource, host = access.resource_argument(form.get("resource", "")), form.get("host", "*")
    # What is left out would match everything.
    if not (principal and operation and resource and host):
        raise RequestError("Nothing was revoked: the entry is not whole.")
    gone = visit.client.acls.revoke(principal, operation, resource, host=host)
    return visit.to("/access", told=f"Revoked {len(gone)} entries of {principal}.")


# The server and its audits.


def show_server(visit: Visit) -> Response:
    """Show settings and health."""
    return visit.page("server.html", server=access.server_facts(visit.client))


def show_audit(visit: Visit) -> Response:
    """Show what the last audits found."""
    names = names_of(visit.client)
    visible = {f"{database}.{table}" for database in names for table in names[database]}
    text = access.report_text(visit.state.rules.report)
    run = visit.state.audits.state(visit.caller)
    own = None
    if run is not None and run.report is not None:
        own = access.audit_facts(run.report, visible=visible)
    is_part = visit.request.headers.get("hx-request") == "true"
    return visit.page(
        "audit_reports.html" if is_part else "audit.html",
        report=None if text is None else access.audit_facts(text, visible=visible),
        is_here=visit.state.rules.report is not None,
        run=run,
        own=own,
    )


def start_audit(visit: Visit) -> Response:
    """Start a quick audit."""
    visit.check_edit()
    visit.state.audits.start(visit.session.caller)
    return visit.to("/audit", told="An audit was started.")
