"""Pages of rows: the log from anywhere, live, rows at a position, by key, a sample, the plan."""

from starlette.responses import Response

from headwater.client.sync.scan import View
from headwater.console.facts.picture import tier_lines
from headwater.console.facts.profile import profile_of
from headwater.console.facts.rows import (
    FILTERS,
    ROWS_DEFAULT,
    ROWS_MAX,
    RowsQuery,
    RowsTable,
    filter_of,
    key_facts,
    log_page,
    union_rows,
    view_of,
)
from headwater.console.pages.storage import TABS, path_in
from headwater.console.web import Visit

TEXT_MAX = 64_000


def query_in(visit: Visit) -> RowsQuery:
    """Return what a form asks for."""
    return RowsQuery(
        start=visit.text("from", "last")[:TEXT_MAX] or "last",
        partition=visit.text("partition"),
        column=visit.text("column"),
        operator=visit.text("operator", "="),
        value=visit.text("value"),
        limit=visit.count("limit", ROWS_DEFAULT, most=ROWS_MAX) or ROWS_DEFAULT,
    )


def show_rows(visit: Visit) -> Response:
    """Browse the log of a table, or its rows at a position."""
    path, query = path_in(visit), query_in(visit)
    table = visit.client.table(path)
    what = visit.text("what", "log")
    log, rows, token = None, None, ""
    if what == "log":
        log = log_page(visit.client, path, query, visit.state.clock)
    else:
        view = _view(visit, mode=what)
        rows, token = union_rows(view, query, visit.state.clock), view.token()
    return visit.page(
        "rows.html",
        info=table.info,
        columns=table.schema.names,
        what=what,
        query=query,
        moment_text=visit.text("moment"),
        filters=FILTERS,
        is_live=visit.text("live") == "1",
        tabs=TABS,
        tab="rows",
        log=log,
        rows=rows,
        token=token,
    )


def show_more(visit: Visit) -> Response:
    """Return the rows that arrived since: the next part of a live page."""
    path, query = path_in(visit), query_in(visit)
    log = log_page(visit.client, path, query, visit.state.clock)
    return visit.page(
        "rows_more.html", info=visit.client.table(path).info, log=log, query=query, is_live=True
    )


def _view(visit: Visit, *, mode: str = "union") -> View:
    table = visit.client.table(path_in(visit))
    return view_of(
        table, token=visit.text("token")[:TEXT_MAX], moment=visit.text("moment"), mode=mode
    )


def show_key(visit: Visit) -> Response:
    """Look up one key, and show its history."""
    path = path_in(visit)
    info = visit.client.table(path).info
    given = {name: visit.text(f"key_{name}") for name in info.schema.primary_key}
    is_asked = any(f"key_{name}" in visit.request.query_params for name in given)
    found = None
    if is_asked and info.is_keyed:
        found = key_facts(visit.client, path, given, visit.state.clock)
    return visit.page("key.html", info=info, given=given, found=found, tabs=TABS, tab="key")


def show_sample(visit: Visit) -> Response:
    """Show a sample of a table, and what its columns hold."""
    profile = profile_of(_view(visit), visit.state.clock)
    sample = RowsTable(
        tuple((each.name, str(each.type)) for each in profile.sample.schema),
        tuple(zip(*(each.to_pylist() for each in profile.sample.columns), strict=True)),
    )
    info = visit.client.table(path_in(visit)).info
    return visit.page(
        "sample.html", info=info, profile=profile, sample=sample, tabs=TABS, tab="sample"
    )


def show_plan(visit: Visit) -> Response:
    """Show what a read takes from lake and log."""
    view, query = _view(visit), query_in(visit)
    explanation = view.explain(where=filter_of(query, view.schema))
    return visit.page(
        "plan.html",
        info=visit.client.table(path_in(visit)).info,
        columns=view.schema.names,
        query=query,
        filters=FILTERS,
        explanation=explanation,
        lines=tier_lines(explanation),
        tabs=TABS,
        tab="plan",
    )
