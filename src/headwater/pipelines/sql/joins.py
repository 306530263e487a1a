"""Joins: what the rows of several things after FROM are, and which joins a stream can do."""

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from headwater.pipelines.sql.relations import (
    FromItem,
    Relation,
    RowKind,
    WindowPart,
    column_parts,
    conjuncts,
    own_columns,
    refusal,
)
from headwater.pipelines.sql.statements import SourceText
from headwater.pipelines.sql.windows import window_part

_OUTER = ("LEFT", "RIGHT", "FULL")


def joined(items: list[FromItem], source: SourceText) -> Relation:
    """What the rows of all items together are; raises for a join that a stream cannot do."""
    if not items:
        return Relation(columns=())
    first, *rest = items
    relation = first.relation
    if len(items) == 1:
        return relation
    done = [first]
    for item in rest:
        relation = _joined(relation, item, done, source)
        done.append(item)
    return replace(
        relation,
        columns=_columns(items),
        hidden=tuple(name for each in items for name in each.relation.hidden),
        process_times=_united(each.relation.process_times for each in items),
        types={name: kind for each in items for name, kind in each.relation.types.items()},
        table=None,
    )


def _united(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset(name for each in sets for name in each)


def _columns(items: list[FromItem]) -> tuple[str, ...] | None:
    found: list[str] = []
    for item in items:
        if item.relation.columns is None:
            return None
        found.extend(item.relation.columns)
    return tuple(found)


def _joined(left: Relation, item: FromItem, before: list[FromItem], source: SourceText) -> Relation:
    right = item.relation
    join = item.join
    side = (join.side or "").upper() if join is not None else ""
    if not (left.is_streaming and right.is_streaming):
        _check_static(left, right, side, item, source)
        return left if left.is_streaming or not right.is_streaming else right
    for each in (left, right):
        if each.kind is not RowKind.INSERTS:
            raise refusal(
                source,
                item.node,
                f"A join of streams needs new rows on both sides, and {each.table or 'one side'}"
                f" is a stream of {each.kind.value}.",
                "Join with FOR SYSTEM_TIME AS OF, aggregate by a window first, or run it in a"
                " batch.",
            )
    _bound_windows(item, before)
    if side in _OUTER and not _is_bounded(item, before):
        raise refusal(
            source,
            item.node,
            f"A {side} JOIN of streams must know when a row has waited long enough.",
            "Declare a WATERMARK in both tables, and write a range of their times into ON:"
            " b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR.",
        )
    return replace(left, is_windowed=left.is_windowed or right.is_windowed)


def _check_static(
    left: Relation, right: Relation, side: str, item: FromItem, source: SourceText
) -> None:
    is_wrong = (left.is_streaming and side in ("RIGHT", "FULL")) or (
        right.is_streaming and side in ("LEFT", "FULL")
    )
    if is_wrong:
        raise refusal(
            source,
            item.node,
            f"A {side} JOIN cannot keep all rows of a table that is read once beside a stream.",
            "Put the stream on the side that is kept.",
        )


def _bound_windows(item: FromItem, before: list[FromItem]) -> None:
    """Join windows by their hidden columns as well, so that Spark can forget old ones."""
    on = item.join.args.get("on") if item.join is not None else None
    if on is None:
        return
    for condition in conjuncts(on):
        pair = _window_pair(condition, [*before, item])
        if pair is None:
            continue
        one, other = pair
        equal = exp.EQ(this=_struct(one), expression=_struct(other))
        assert item.join is not None
        item.join.set("on", exp.And(this=on, expression=equal))
        return


def _window_pair(condition: exp.Expr, items: list[FromItem]) -> tuple[FromItem, FromItem] | None:
    if not isinstance(condition, exp.EQ):
        return None
    sides = [
        window_part(each, items) if isinstance(each, exp.Column) else None
        for each in (condition.this, condition.expression)
    ]
    one, other = sides
    if one is None or other is None or one[0] is other[0]:
        return None
    if one[1] is not other[1] or one[1] is WindowPart.TIME:
        return None
    windows = [each[0].relation.window for each in (one, other)]
    is_plain = all(each is not None and len(each.grouped) == 1 for each in windows)
    return (one[0], other[0]) if is_plain else None


def _struct(item: FromItem) -> exp.Column:
    window = item.relation.window
    assert window is not None
    return exp.column(window.grouped[0], table=item.alias)


def _is_bounded(item: FromItem, before: list[FromItem]) -> bool:
    """Tell whether ON says something about the event times, or windows, of the rows."""
    on = item.join.args.get("on") if item.join is not None else None
    items = [*before, item]
    for column in own_columns([on]):
        parts = [each.name.lower() for each in column_parts(column)]
        if window_part(column, items) is not None or parts[-1].startswith("window__"):
            return True
        for each in items:
            time = each.relation.time
            if time is not None and parts[-1] == time.column.lower():
                return True
    return False
