"""The page of SQL: run a query, cancel it, export its answer, complete names."""

import csv
import io
import json
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from starlette.responses import Response

from headwater.console.facts.picture import Strip, TierBar
from headwater.console.facts.rows import RowsTable
from headwater.console.facts.sql import SqlAnswer, words_for
from headwater.console.facts.tables import names_of
from headwater.console.sessions import random_name
from headwater.console.web import Visit, cell
from headwater.errors import RequestError

BARS_MAX = 30
LINES_MAX = 8


def show_sql(visit: Visit) -> Response:
    """Show the editor."""
    return visit.page("sql.html", text=visit.text("text")[:20_000], name=random_name())


def run(visit: Visit) -> Response:
    """Run a query, and show its answer."""
    answer = visit.state.desk.answer(
        visit.caller, visit.client, visit.form.get("text", ""), name=_name(visit)
    )
    return visit.page(
        "sql_result.html", answer=answer, chart=_lines(answer), bars=tuple(_bars(answer))
    )


def _name(visit: Visit) -> str:
    # Others of the same user cannot cancel what they did not start.
    return f"{visit.session.name} {visit.form.get('name', '')[:100]}"


def cancel(visit: Visit) -> Response:
    """Cancel the query that this page runs."""
    is_found = visit.state.desk.cancel(visit.caller, _name(visit))
    return Response("Cancelled." if is_found else "Nothing is running.", media_type="text/plain")


def export(visit: Visit) -> Response:
    """Send the whole answer as a file."""
    form = visit.form.get("form", "")
    if form not in ("csv", "parquet"):
        raise RequestError(f"{form[:20]!r} is none of csv and parquet.")
    table = visit.state.desk.export(
        visit.caller, visit.client, visit.form.get("text", ""), name=_name(visit)
    )
    content = csv_of(table) if form == "csv" else _parquet(table)
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/vnd.apache.parquet"
    headers = {"Content-Disposition": f'attachment; filename="answer.{form}"'}
    return Response(content, media_type=kind, headers=headers)


def words(visit: Visit) -> Response:
    """Return what can be completed."""
    found = words_for(visit.client, names_of(visit.client), visit.text("text")[:20_000])
    return Response(
        json.dumps({"tables": found.tables, "columns": found.columns}),
        media_type="application/json",
    )


def csv_of(table: pa.Table) -> bytes:
    """Write rows as CSV; nulls are empty, and nested values are JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [column.to_pylist() for column in batch.columns]
        writer.writerows([[_plain(value) for value in row] for row in zip(*columns, strict=True)])
    return text.getvalue().encode()


def _plain(value: object) -> object:
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat()
        case dict() | list():
            return json.dumps(value, default=str, ensure_ascii=False)
        case _:
            return value


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


# An answer as a picture.


def _lines(answer: SqlAnswer) -> str:
    """Lay the numbers of an answer out as a chart takes them, in the order of the first column."""
    if answer.chart not in ("time", "number"):
        return ""
    rows = sorted((row for row in answer.rows.rows if row[0] is not None), key=_first_number)
    shown = [at for at in range(1, len(answer.rows.columns)) if _is_number(answer.rows, at)]
    shown = shown[:LINES_MAX]
    columns = [[_number(row[at]) for row in rows] for at in (0, *shown)]
    labels = [answer.rows.columns[at][0] for at in shown]
    return json.dumps({"labels": labels, "columns": columns, "time": answer.chart == "time"})


def _bars(answer: SqlAnswer) -> Iterable[tuple[str, float, Strip]]:
    """Draw the first number of each row as a bar."""
    if answer.chart != "bars":
        return
    at = next(at for at in range(1, len(answer.rows.columns)) if _is_number(answer.rows, at))
    # What stands before the first number names the bar.
    names = [", ".join(map(cell, row[:at])) for row in answer.rows.rows[:BARS_MAX]]
    numbers = [_number(row[at]) or 0.0 for row in answer.rows.rows[:BARS_MAX]]
    rows = list(zip(names, numbers, strict=True))
    most = max((abs(value) for _, value in rows), default=0.0) or 1.0
    for name, value in rows:
        width = round(max(abs(value) / most * 100, 0.4), 3)
        bar = TierBar(kind="both" if value >= 0 else "log", x=0, width=width, label=f"{value:g}")
        yield name, value, Strip((bar,), f"{name}: {value:g}")


def _is_number(rows: RowsTable, at: int) -> bool:
    return rows.columns[at][1].startswith(("int", "uint", "float", "double", "decimal"))


def _number(value: object) -> float | None:
    match value:
        case datetime():
            return value.timestamp()
        case date():
            return (value - date(1970, 1, 1)).days * 86_400.0
        case int() | float() | Decimal():
            found = float(value)
            return found if found == found and abs(found) != float("inf") else None  # noqa: PLR0124 - not a number
        case _:
            return None


def _first_number(row: tuple[object, ...]) -> float:
    return _number(row[0]) or 0.0
