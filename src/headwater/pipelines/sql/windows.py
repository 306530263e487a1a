"""Windows of Flink in the words of Spark: `window`, `session_window` and their parts.

A window function becomes a hidden column `window__1`, a struct that carries the watermark with it;
grouping by `window_start` and `window_end` becomes grouping by that column, also in a query around
it. That is what lets Spark end a window when the watermark has passed it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from headwater.errors import StatementError
from headwater.pipelines.sql.dialect import WindowTable
from headwater.pipelines.sql.intervals import interval_ms, spark_interval
from headwater.pipelines.sql.relations import (
    FromItem,
    Relation,
    WindowColumns,
    WindowPart,
    column_parts,
    interval,
    own_nodes,
    refusal,
)
from headwater.pipelines.sql.statements import SourceText

_TVF_PARTS = {
    "window_start": WindowPart.START,
    "window_end": WindowPart.END,
    "window_time": WindowPart.TIME,
}
_GROUP_KINDS = ("TUMBLE", "HOP", "SESSION")
_AUXILIARY: Mapping[str, WindowPart] = {
    f"{kind}_{name}": part
    for kind in _GROUP_KINDS
    for name, part in (
        ("START", WindowPart.START),
        ("END", WindowPart.END),
        ("ROWTIME", WindowPart.TIME),
        ("PROCTIME", WindowPart.TIME),
    )
}
_STEPS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCall:
    """A window with its times in milliseconds."""

    kind: str
    time: exp.Expr
    size_ms: int
    slide_ms: int | None = None
    offset_ms: int | None = None

    def expression(self) -> exp.Expr:
        """Write `window(time, size, slide, offset)` or `session_window(time, gap)`."""
        texts = [spark_interval(self.size_ms)]
        if self.kind != "SESSION" and (self.slide_ms or self.offset_ms):
            is_hop = self.kind == "HOP" and self.slide_ms
            texts.append(spark_interval(self.slide_ms if is_hop else self.size_ms))  # type: ignore[arg-type]
            if self.offset_ms:
                texts.append(spark_interval(self.offset_ms))
        name = "SESSION_WINDOW" if self.kind == "SESSION" else "WINDOW"
        literals = [exp.Literal.string(each) for each in texts]
        return exp.Anonymous(this=name, expressions=[self.time.copy(), *literals])


def table_call(node: WindowTable, source: SourceText) -> WindowCall:
    """Read the arguments of a window function over a table."""
    given = {each.name: each.expression for each in node.expressions}
    times = {name: _duration_ms(value, source) for name, value in given.items()}
    kind = node.args["kind"]
    size = times.get("GAP" if kind == "SESSION" else "SIZE")
    slide = times.get("SLIDE") or times.get("STEP")
    if size is None or (kind in ("HOP", "CUMULATE") and slide is None):
        needs = {"HOP": "SLIDE and SIZE", "CUMULATE": "STEP and SIZE", "SESSION": "a GAP"}
        raise refusal(source, node, f"{kind} needs {needs.get(kind, 'a SIZE')}.", "")
    if kind == "CUMULATE" and slide and (size % slide or size // slide > _STEPS_MAX):
        raise refusal(
            source,
            node,
            "The SIZE of CUMULATE must be a multiple of its STEP, at most 10,000 of them.",
            "Change one of them.",
        )
    return WindowCall(
        kind=kind,
        time=node.args["time"],
        size_ms=size,
        slide_ms=slide,
        offset_ms=times.get("OFFSET"),
    )


def _duration_ms(value: exp.Expr, source: SourceText) -> int:
    found = interval_ms(value)
    if found is None or found <= 0:
        raise refusal(
            source,
            value,
            "The length of a window is an interval of days to seconds.",
            "Write INTERVAL '10' MINUTE; months and years differ in length.",
        )
    return found


def window_subquery(
    call: WindowCall, item: FromItem, number: int, *, is_final: bool
) -> tuple[exp.Subquery, WindowColumns]:
    """Write the rows of a table with the windows they are in."""
    name = f"window__{number}"
    window = exp.alias_(call.expression(), name)
    query = exp.Select(expressions=[exp.Star(), window]).from_(item.node)
    grouped: tuple[str, ...] = (name,)
    if call.kind == "CUMULATE":
        end = f"cumulate__{number}"
        query = _cumulated(query, call, name=name, end=end)
        grouped = (name, end)
    columns = WindowColumns(
        grouped=grouped,
        parts=_TVF_PARTS,
        is_virtual=True,
        is_final=is_final,
        needs_both=call.kind in ("SESSION", "CUMULATE"),
    )
    return exp.Subquery(this=query), columns


def _cumulated(query: exp.Select, call: WindowCall, *, name: str, end: str) -> exp.Select:
    """Put each row into every window from its own to the last of the largest."""
    assert call.slide_ms is not None
    steps = exp.Anonymous(
        this="SEQUENCE",
        expressions=[
            exp.Literal.number(1),
            exp.Literal.number(call.size_ms // call.slide_ms),
        ],
    )
    start = exp.Dot(this=exp.column(name), expression=exp.to_identifier("start"))
    step = exp.Mul(this=exp.column("i__"), expression=interval(str(call.slide_ms / 1000), "SECOND"))
    ends = exp.Anonymous(
        this="TRANSFORM",
        expressions=[
            steps,
            exp.Lambda(
                this=exp.Add(this=start, expression=step), expressions=[exp.to_identifier("i__")]
            ),
        ],
    )
    later = exp.Lambda(
        this=exp.GT(this=exp.column("e__"), expression=call.time.copy()),
        expressions=[exp.to_identifier("e__")],
    )
    kept = exp.Anonymous(this="FILTER", expressions=[ends, later])
    exploded = exp.alias_(exp.Anonymous(this="EXPLODE", expressions=[kept]), end)
    inner = exp.Subquery(this=query)
    return exp.Select(expressions=[exp.Star(), exploded]).from_(inner)


# Group functions: GROUP BY TUMBLE(time, size).


def group_call(select: exp.Select, source: SourceText) -> tuple[exp.Anonymous, WindowCall] | None:
    """Return the window function that a query groups by, if there is one."""
    group = select.args.get("group")
    found = [
        node
        for each in (group.expressions if group is not None else ())
        for node in own_nodes(each)
        if isinstance(node, exp.Anonymous) and node.name.upper() in _GROUP_KINDS
    ]
    if len(found) > 1:
        raise refusal(
            source, found[1], "A query groups by one window.", "Group by the second one outside."
        )
    return (found[0], _group_function(found[0], source)) if found else None


def _group_function(node: exp.Anonymous, source: SourceText) -> WindowCall:
    kind = node.name.upper()
    counts = {"TUMBLE": (2, 3), "HOP": (3, 4), "SESSION": (2, 2)}
    low, high = counts[kind]
    if not low <= len(node.expressions) <= high:
        forms = {"HOP": "HOP(time, slide, size)", "SESSION": "SESSION(time, gap)"}
        raise refusal(
            source,
            node,
            f"{kind} has {len(node.expressions)} arguments.",
            f"Write {forms.get(kind, 'TUMBLE(time, size)')}.",
        )
    time, *given = node.expressions
    times = [_duration_ms(each, source) for each in given]
    if kind == "HOP":
        offset = times[2] if len(times) > 2 else None  # noqa: PLR2004
        return WindowCall(
            kind=kind, time=time, size_ms=times[1], slide_ms=times[0], offset_ms=offset
        )
    offset = times[1] if len(times) > 1 else None
    return WindowCall(kind=kind, time=time, size_ms=times[0], offset_ms=offset)


def replace_auxiliary(select: exp.Select, window: exp.Expr | None, source: SourceText) -> None:
    """Replace `TUMBLE_START(…)` and its neighbours by parts of the window that is grouped by."""
    for node in list(own_nodes(select)):
        part = _AUXILIARY.get(node.name.upper()) if isinstance(node, exp.Anonymous) else None
        if part is None:
            continue
        if window is None:
            raise refusal(
                source,
                node,
                f"{node.name.upper()} is only known in a query that groups by the window.",
                f"Write GROUP BY {node.name.upper().split('_')[0]}(time, size).",
            )
        node.replace(_part_of(window, part))


def _part_of(window: exp.Expr, part: WindowPart) -> exp.Expr:
    name = "start" if part is WindowPart.START else "end"
    found: exp.Expr = exp.Dot(this=window.copy(), expression=exp.to_identifier(name))
    if part is WindowPart.TIME:
        found = exp.Sub(this=found, expression=interval("1", "MILLISECOND"))
    return found


# Columns of window functions.


def window_part(column: exp.Column, items: list[FromItem]) -> tuple[FromItem, WindowPart] | None:
    """Tell which window a column is a part of, if it is."""
    parts = [each.name for each in column_parts(column)]
    for item in items:
        window = item.relation.window
        is_ours = len(parts) == 1 or parts[0].lower() == item.alias.lower()
        if window is not None and is_ours and parts[-1].lower() in window.parts:
            return item, window.parts[parts[-1].lower()]
    return None


def group_by_window(
    select: exp.Select, items: list[FromItem], source: SourceText
) -> WindowColumns | None:
    """Group by the hidden columns instead of `window_start` and `window_end`."""
    group = select.args.get("group")
    found: list[tuple[exp.Expr, FromItem, WindowPart]] = []
    for each in group.expressions if group is not None else ():
        part = window_part(each, items) if isinstance(each, exp.Column) else None
        if part is not None:
            found.append((each, *part))
    if not found or group is None:
        return None
    _, item, _ = found[0]
    window = item.relation.window
    assert window is not None
    if window.needs_both and len({part for _, _, part in found} - {WindowPart.TIME}) < 2:  # noqa: PLR2004
        raise refusal(
            source,
            found[0][0],
            "This window is known by its start and its end.",
            "Write GROUP BY window_start, window_end.",
        )
    theirs = {id(node) for node, each, _ in found if each is item}
    kept = [each for each in group.expressions if id(each) not in theirs]
    hidden = [exp.column(name, table=item.alias) for name in window.grouped]
    group.set("expressions", [*kept, *hidden])
    return window


def replace_parts(select: exp.Select, items: list[FromItem], *, grouped: bool) -> None:
    """Replace names of windows by parts of the hidden columns, where they are no columns."""
    for column in [each for each in own_nodes(select) if isinstance(each, exp.Column)]:
        found = window_part(column, items)
        if found is None:
            continue
        item, part = found
        window = item.relation.window
        assert window is not None
        if not (window.is_virtual or grouped):
            continue
        new = _qualified(window.part(part), item.alias)
        is_projection = column.parent is select and column.arg_key == "expressions"
        column.replace(exp.alias_(new, column.name) if is_projection else new)


def _qualified(tree: exp.Expr, alias: str) -> exp.Expr:
    for each in tree.find_all(exp.Column):
        each.set("table", exp.to_identifier(alias))
    return tree


def check_session(relation: Relation, node: exp.Expr, source: SourceText) -> StatementError | None:
    """Sessions are merged by grouping: without it their ends would be wrong."""
    window = relation.window
    if window is None or not window.is_virtual or not window.needs_both:
        return None
    if len(window.grouped) > 1:  # CUMULATE
        return None
    return refusal(
        source,
        node,
        "The rows of a SESSION window are only known together.",
        "Add GROUP BY window_start, window_end and aggregate its rows.",
    )
