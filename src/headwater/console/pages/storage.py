"""Pages of the storage as a whole: the overview with its charts, lists of tables, one table."""

import json
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from headwater.console.facts.overview import Overview, overview
from headwater.console.facts.table import lake_facts, table_facts
from headwater.console.facts.tables import tables_list
from headwater.console.feed import columns_of
from headwater.console.web import Visit
from headwater.errors import InvalidNameError, MissingError, TableMissingError
from headwater.model import TablePath

CHARTS: Mapping[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    "rows": ("Rows written", "rows/s", (("rows_in", "rows"),)),
    "bytes": ("Bytes written", "bytes/s", (("bytes_in", "bytes"),)),
    "requests": ("Requests", "requests/s", (("writes", "writes"), ("reads", "reads and polls"))),
    "latency": (
        "Latency, 99 of 100",
        "seconds",
        (("write_p99", "writes"), ("lookup_p99", "lookups"), ("sync_p99", "syncs of the disk")),
    ),
    "lag": ("Not yet in the lake", "rows", (("tiering_lag", "rows"),)),
    "disk": ("Logs on disk", "bytes", (("log_bytes", "bytes"),)),
}
"""Each chart: its title, its unit, and its lines."""
GROWTH = "growth"


def _collected(visit: Visit) -> Overview:
    """Collect once for all browsers of a caller that ask within a moment."""
    state = visit.state

    def collect() -> Overview:
        return overview(
            visit.client,
            feed=state.feed,
            growth=state.growth,
            caller=visit.caller,
            clock=state.clock,
        )

    return state.glances.of(visit.caller, collect)


def show_overview(visit: Visit) -> Response:
    """Show the storage at a glance."""
    charts = CHARTS if visit.state.feed.is_offered else {}
    return visit.page("overview.html", overview=_collected(visit), charts=charts)


def renew_overview(visit: Visit) -> Response:
    """Renew what changes on the first page."""
    is_lists = visit.text("part") == "lists"
    template = "overview_lists.html" if is_lists else "overview_tiles.html"
    return visit.page(template, overview=_collected(visit))


def show_series(visit: Visit) -> Response:
    """Return the lines of charts, as many as are named."""
    found: dict[str, dict[str, Sequence[object]]] = {}
    for name in visit.text("names").split(","):
        if name == GROWTH:
            points = visit.state.growth.points(visit.caller)
            times = [each.at_ms / 1000 for each in points]
            grown = [each.rows_per_s for each in points]
            found[name] = {"labels": ["rows"], "columns": [times, grown]}
        elif name in CHARTS:
            lines = CHARTS[name][2]
            found[name] = {
                "labels": [label for _, label in lines],
                "columns": columns_of(visit.state.feed.samples, [key for key, _ in lines]),
            }
        else:
            raise MissingError(f"There is no chart {name[:60]!r}.", hint="Load the page again.")
    return Response(json.dumps(found), media_type="application/json")


# Tables.

PAGE_MAX = 1_000_000
TABS = (
    ("", "Overview"),
    ("rows", "Rows"),
    ("key", "By key"),
    ("sample", "Sample"),
    ("plan", "Plan"),
)
"""The pages of a table."""


def path_in(visit: Visit) -> TablePath:
    """Return the table that an address names."""
    database, name = visit.part("database"), visit.part("table")
    try:
        return TablePath(database, name)
    except InvalidNameError:
        shown = f"{database}.{name}"[:200]
        raise TableMissingError(f"There is no table {shown}.") from None


def show_list(visit: Visit) -> Response:
    """List tables, with a search."""
    found = tables_list(
        visit.client,
        query=visit.text("q")[:200],
        database=visit.text("database")[:200],
        page=visit.count("page", 1, most=PAGE_MAX),
        growth=visit.state.growth,
        caller=visit.caller,
        now_s=visit.state.clock.monotonic(),
        bytes_by_table=visit.state.feed.bytes_by_table,
    )
    is_part = visit.request.headers.get("hx-request") == "true"
    return visit.page("tables_list.html" if is_part else "tables.html", tables=found)


def show_one(visit: Visit) -> Response:
    """Show one table."""
    facts = table_facts(
        visit.client,
        path_in(visit),
        query=visit.text("partition")[:200],
        page=visit.count("page", 1, most=PAGE_MAX),
    )
    log_bytes = visit.state.feed.bytes_by_table.get(facts.info.table_id)
    if visit.request.headers.get("hx-request") == "true":
        return visit.page("buckets.html", facts=facts)
    return visit.page("table.html", facts=facts, log_bytes=log_bytes, tabs=TABS, tab="")


def show_lake(visit: Visit) -> Response:
    """Show how the lake of a table stands: a part of its page that may take a moment."""
    return visit.page("lake.html", lake=lake_facts(visit.client, path_in(visit)))


def show_count(visit: Visit) -> Response:
    """Count the rows of a table: a part of its page as well."""
    table = visit.client.table(path_in(visit))
    return visit.page("count.html", rows=table.count())
