"""What comes out of a SELECT: its columns, and whether its rows are new, changes or updates."""

from dataclasses import replace

from sqlglot import exp

from headwater.model.types import DataType
from headwater.pipelines.sql.dialect import spark_sql
from headwater.pipelines.sql.functions import is_aggregate
from headwater.pipelines.sql.relations import (
    FromItem,
    Relation,
    RowKind,
    WindowColumns,
    WindowPart,
    own_nodes,
    refusal,
)
from headwater.pipelines.sql.statements import SourceText
from headwater.pipelines.sql.steps import CHANGE_COLUMN, EventTime

Outputs = tuple[tuple[str, exp.Expr | None], ...]
_VIRTUAL = ("window_start", "window_end", "window_time")


class SelectOutput:
    """One SELECT whose FROM is planned."""

    __slots__ = ("_fresh", "_items", "_relation", "_select", "_source")

    def __init__(
        self,
        select: exp.Select,
        items: list[FromItem],
        relation: Relation,
        source: SourceText,
        *,
        fresh: str,
    ) -> None:
        self._select = select
        self._items = items
        self._relation = relation
        self._source = source
        self._fresh = fresh

    def plan(self, *, window: exp.Expr | None, is_final: bool, is_shown: bool) -> Relation:
        """Complete the SELECT; `is_shown` means that nothing hidden may be in its rows."""
        select, relation = self._select, self._relation
        if relation.is_streaming:
            self._refuse_over()
            _count_distinct(select, self._source)
        self._name_expressions()
        is_grouped = select.args.get("group") is not None or _has_aggregates(select)
        if is_grouped and relation.is_streaming:
            self._check_aggregate(window, is_final=is_final)
        if is_grouped:
            return self._grouped(window, is_final=is_final, is_shown=is_shown)
        return self._plain(is_shown=is_shown)

    # Checks.

    def _refuse_over(self) -> None:
        for node in own_nodes(self._select):
            if isinstance(node, exp.Window):
                raise refusal(
                    self._source,
                    node,
                    "Spark cannot compute OVER (…) in a stream.",
                    "For the first or last rows of a key, write ROW_NUMBER() in a subquery and"
                    " WHERE rownum <= n around it; for sums over time, GROUP BY a window.",
                )

    def _check_aggregate(self, window: exp.Expr | None, *, is_final: bool) -> None:
        relation = self._relation
        if relation.kind is RowKind.INSERTS and not (
            relation.is_windowed and not (window is not None and is_final)
        ):
            return
        named = f"{relation.table} is a stream" if relation.table else "It reads a stream"
        raise refusal(
            self._source,
            self._select.args.get("group") or self._select.expressions[0],
            f"Spark cannot aggregate results that still change. {named} of {relation.kind.value}."
            if relation.kind is not RowKind.INSERTS
            else "Spark cannot aggregate the results of windows without a window in one stream.",
            "Write the inner result into a table by key and aggregate that in a batch, group both"
            " by a window with a WATERMARK, or SET 'execution.runtime-mode' = 'batch'.",
        )

    # Outputs.

    def _name_expressions(self) -> None:
        """Name what has no name, as Flink does."""
        named: list[exp.Expr] = []
        for each in self._select.expressions:
            has_name = each.alias or isinstance(each, exp.Column | exp.Star | exp.Aliases)
            if isinstance(each, exp.Dot) and not has_name:
                named.append(exp.alias_(each, each.expression.name, quoted=True))
                continue
            named.append(each if has_name else exp.alias_(each, f"EXPR${len(named)}", quoted=True))
        self._select.set("expressions", named)

    def _outputs(self) -> Outputs | None:
        """Names of the outputs, with the expression of each; None for those of a star."""
        found: list[tuple[str, exp.Expr | None]] = []
        for each in self._select.expressions:
            if isinstance(each, exp.Star) or (isinstance(each, exp.Column) and each.is_star):
                columns = self._star_columns(each)
                if columns is None:
                    return None
                found.extend((name, None) for name in columns)
            else:
                node = each.this if isinstance(each, exp.Alias) else each
                found.append((each.alias_or_name, node))
        return tuple(found)

    def _star_columns(self, star: exp.Expr) -> tuple[str, ...] | None:
        left_out = {each.name.lower() for node in star.walk() if isinstance(node, exp.Star)
                    for each in node.args.get("except_") or ()}  # fmt: skip
        found: list[str] = []
        for item in self._items:
            is_ours = isinstance(star, exp.Star) or star.args["table"].name == item.alias
            if not is_ours:
                continue
            if item.relation.columns is None:
                return None
            found.extend(each for each in item.relation.columns if each.lower() not in left_out)
            window = item.relation.window
            if window is not None and window.is_virtual:
                found.extend(_VIRTUAL)
        return tuple(found)

    @property
    def _stars(self) -> list[exp.Star]:
        found = (each.this if isinstance(each, exp.Column) else each
                 for each in self._select.expressions)  # fmt: skip
        return [each for each in found if isinstance(each, exp.Star)]

    def _hide(self, names: tuple[str, ...]) -> None:
        """Leave columns out of the stars."""
        if not names:
            return
        for each in self._select.expressions:
            star = each.this if isinstance(each, exp.Column) else each
            if not isinstance(star, exp.Star):
                continue
            alias = each.args["table"].name if isinstance(each, exp.Column) else None
            theirs = [
                name
                for name in names
                if alias is None
                or any(name in item.relation.hidden for item in self._items if item.alias == alias)
            ]
            held = list(star.args.get("except_") or ())
            if theirs:
                star.set("except_", [*held, *(exp.to_identifier(name) for name in theirs)])

    # Without aggregates.

    def _plain(self, *, is_shown: bool) -> Relation:
        relation, select = self._relation, self._select
        outputs = self._outputs()
        window = self._window_outputs(outputs)
        change = self._change()
        self._add_virtual()
        hidden = () if select.args.get("distinct") else self._keep_windows(is_shown=is_shown)
        if change is not None:
            select.append("expressions", exp.alias_(change, CHANGE_COLUMN))
            hidden = (*hidden, CHANGE_COLUMN)
        return replace(
            relation,
            columns=None if outputs is None else tuple(name for name, _ in outputs),
            types=self._types(outputs),
            time=self._time(outputs),
            process_times=self._process_times(outputs),
            window=window if hidden and window is not None else None,
            hidden=hidden,
            key=self._key_outputs(outputs),
            constants=_constants(outputs),
            has_changes=change is not None,
            is_filtered=relation.is_filtered or select.args.get("where") is not None,
            table=None,
        )

    def _change(self) -> exp.Expr | None:
        """What `_change_type` of the outputs is; a condition on updates becomes part of it."""
        relation = self._relation
        if not relation.is_streaming:
            return None
        held = self._held_change()
        where = self._select.args.get("where")
        if relation.kind is not RowKind.UPDATES or where is None:
            return held
        self._select.set("where", None)
        inner = held or exp.Literal.string("insert")
        return _kept_or_deleted(where.this, inner)

    def _held_change(self) -> exp.Expr | None:
        for item in self._items:
            if item.relation.has_changes:
                name = next(each for each in item.relation.hidden if each.endswith(CHANGE_COLUMN))
                self._hide((name,))
                return exp.column(exp.to_identifier(name, quoted=True), table=item.alias)
        return None

    def _add_virtual(self) -> None:
        """`SELECT *` from a window function has the columns of the window too."""
        for item in self._items:
            window = item.relation.window
            if window is None or not window.is_virtual or not self._stars:
                continue
            for name in _VIRTUAL:
                part = window.part(window.parts[name])
                for column in part.find_all(exp.Column):
                    column.set("table", exp.to_identifier(item.alias))
                self._select.append("expressions", exp.alias_(part, name))

    def _keep_windows(self, *, is_shown: bool) -> tuple[str, ...]:
        """Pass the hidden columns of windows on to the query around this one, or drop them."""
        names = [
            (item.alias, name)
            for item in self._items
            for name in item.relation.hidden
            if not name.endswith(CHANGE_COLUMN)
        ]
        if is_shown:
            self._hide(tuple(name for _, name in names))
            return ()
        has_star = any(isinstance(each, exp.Star) for each in self._select.expressions)
        if not has_star:
            self._hide(tuple(name for _, name in names))
            for alias, name in names:
                self._select.append("expressions", exp.column(name, table=alias))
        return tuple(name for _, name in names)

    def _window_outputs(self, outputs: Outputs | None) -> WindowColumns | None:
        """Under which names the parts of a window come out."""
        owners = [item for item in self._items if item.relation.window is not None]
        if not owners or outputs is None:
            return None
        window = owners[0].relation.window
        assert window is not None
        texts = {spark_sql(window.part(part)): part for part in WindowPart}
        parts: dict[str, WindowPart] = {}
        for name, node in outputs:
            if node is None or isinstance(node, exp.Column):
                part = window.parts.get((node.name if node is not None else name).lower())
            else:
                part = texts.get(_unqualified(node))
            if part is not None:
                parts[name.lower()] = part
        return replace(window, parts=parts, is_virtual=False)

    # With aggregates.

    def _grouped(self, window: exp.Expr | None, *, is_final: bool, is_shown: bool) -> Relation:
        relation, select = self._relation, self._select
        outputs = self._outputs()
        ends = window is not None and (is_final or not relation.is_streaming)
        updates = relation.is_streaming and not ends
        columns = None if outputs is None else tuple(name for name, _ in outputs)
        found = Relation(
            columns=columns,
            types=self._types(outputs),
            is_streaming=relation.is_streaming,
            kind=RowKind.UPDATES if updates else RowKind.INSERTS,
            key=self._group_outputs(outputs) if updates else None,
            constants=_constants(outputs),
            is_windowed=relation.is_windowed or (relation.is_streaming and ends),
        )
        if updates and (having := select.args.get("having")) is not None:
            select.set("having", None)
            kept = _kept_or_deleted(having.this, exp.Literal.string("insert"))
            select.append("expressions", exp.alias_(kept, CHANGE_COLUMN))
            return replace(found, has_changes=True, hidden=(CHANGE_COLUMN,))
        if window is None or is_shown or select.args.get("distinct") is not None:
            return found
        return self._with_window(found, window, outputs, is_final=ends)

    def _with_window(
        self,
        found: Relation,
        window: exp.Expr,
        outputs: Outputs | None,
        *,
        is_final: bool,
    ) -> Relation:
        """Pass the window on to the query around this one."""
        owner = self._window_outputs(outputs)
        if isinstance(window, exp.Column):
            assert owner is not None
            grouped = owner.grouped
            table = window.args["table"]
            for name in grouped:
                self._select.append("expressions", exp.column(name, table=table.copy()))
            made = replace(owner, is_final=is_final)
        else:
            grouped = (self._fresh,)
            self._select.append("expressions", exp.alias_(window.copy(), self._fresh))
            made = WindowColumns(grouped, self._call_parts(window, outputs), False, is_final)
        return replace(found, window=made, hidden=grouped)

    def _call_parts(self, window: exp.Expr, outputs: Outputs | None) -> dict[str, WindowPart]:
        text = spark_sql(window.copy())
        found: dict[str, WindowPart] = {}
        for name, node in outputs or ():
            if isinstance(node, exp.Dot) and spark_sql(node.this.copy()) == text:
                found[name.lower()] = WindowPart(node.expression.name)
            elif isinstance(node, exp.Sub) and text in spark_sql(node.this.copy()):
                found[name.lower()] = WindowPart.TIME
        return found

    def _group_outputs(self, outputs: Outputs | None) -> tuple[str, ...] | None:
        """Which outputs identify a group; None if they do not tell all of it."""
        group = self._select.args.get("group")
        if group is None:
            return ()
        if outputs is None:
            return None
        if any(group.args.get(each) for each in ("rollup", "cube", "grouping_sets")):
            return None
        found = [self._group_output(each, outputs) for each in group.expressions]
        return None if None in found else tuple(each for each in found if each is not None)

    def _group_output(self, node: exp.Expr, outputs: Outputs) -> str | None:
        """The output that is this part of GROUP BY, if there is one."""
        if isinstance(node, exp.Literal) and not node.is_string:
            return outputs[int(node.name) - 1][0]
        text = _unqualified(node)
        for name, output in outputs:
            if (output is not None and _unqualified(output) == text) or name == text:
                return name
        return self._window_key(node, outputs)

    def _window_key(self, node: exp.Expr, outputs: Outputs) -> str | None:
        """A window is identified by its start or its end."""
        text = _unqualified(node)
        for name, output in outputs:
            if isinstance(output, exp.Dot) and _unqualified(output.this) == text:
                return name
        return None

    # What passes through.

    def _types(self, outputs: Outputs | None) -> dict[str, DataType]:
        found: dict[str, DataType] = {}
        for name, node in outputs or ():
            is_plain = node is None or isinstance(node, exp.Column)
            origin = name if node is None else node.name
            if is_plain and origin.lower() in self._relation.types:
                found[name.lower()] = self._relation.types[origin.lower()]
        return found

    def _time(self, outputs: Outputs | None) -> EventTime | None:
        for item in self._items:
            time = item.relation.time
            if time is None:
                continue
            for name, node in outputs or ():
                origin = name if node is None else node.name if isinstance(node, exp.Column) else ""
                if origin.lower() == time.column.lower():
                    return replace(time, column=name)
        return None

    def _process_times(self, outputs: Outputs | None) -> frozenset[str]:
        found: set[str] = set()
        for name, node in outputs or ():
            is_call = isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME"
            origin = name if node is None else node.name if isinstance(node, exp.Column) else ""
            if is_call or origin.lower() in self._relation.process_times:
                found.add(name.lower())
        return frozenset(found)

    def _key_outputs(self, outputs: Outputs | None) -> tuple[str, ...] | None:
        key = self._relation.key
        if key is None or outputs is None:
            return None
        found: list[str] = []
        for part in key:
            name = next(
                (
                    name
                    for name, node in outputs
                    if (node is None and name == part)
                    or (isinstance(node, exp.Column) and node.name == part)
                ),
                None,
            )
            if name is None:
                return None
            found.append(name)
        return tuple(found)


def _has_aggregates(select: exp.Select) -> bool:
    parts = [*select.expressions, select.args.get("having")]
    for part in parts:
        for node in own_nodes(part) if part is not None else ():
            if is_aggregate(node) and not isinstance(node.parent, exp.Window):
                return True
    return False


def _kept_or_deleted(condition: exp.Expr, kept: exp.Expr) -> exp.Expr:
    return exp.Case(
        ifs=[exp.If(this=condition.copy(), true=kept)], default=exp.Literal.string("delete")
    )


def _constants(outputs: Outputs | None) -> frozenset[str]:
    """Outputs that are the same in every row."""
    return frozenset(
        name
        for name, node in outputs or ()
        if node is not None
        and not any(isinstance(each, exp.Column) or is_aggregate(each) for each in node.walk())
    )


def _unqualified(node: exp.Expr) -> str:
    """The text of an expression without the aliases of tables."""
    copy = node.copy()
    for column in copy.find_all(exp.Column):
        if len([each for each in ("table", "db", "catalog") if column.args.get(each)]) == 1:
            column.set("table", None)
    return spark_sql(copy).replace("`", "")


def _count_distinct(select: exp.Select, source: SourceText) -> None:
    """`COUNT(DISTINCT x)`, which Spark refuses in streams, as the size of a set."""
    for node in [each for each in own_nodes(select) if is_aggregate(each)]:
        first = node.expressions[0] if node.expressions else None
        if not isinstance(first, exp.Distinct):
            continue
        name = node.name.upper()
        if name in ("MIN", "MAX", "LISTAGG"):
            if name != "LISTAGG":
                node.set("expressions", first.expressions)
            continue
        if name != "COUNT" or len(first.expressions) > 1:
            raise refusal(
                source,
                node,
                f"Spark cannot compute {name}(DISTINCT …) in a stream.",
                "Write COUNT(DISTINCT column), or aggregate COLLECT_SET(column).",
            )
        collected = exp.Anonymous(this="COLLECT_SET", expressions=first.expressions)
        filtered = node.parent
        if isinstance(filtered, exp.Filter):
            filter_ = exp.Filter(this=collected, expression=filtered.expression.copy())
            filtered.replace(_size(filter_))
        else:
            node.replace(_size(collected))


def _size(node: exp.Expr) -> exp.Expr:
    size = exp.Anonymous(this="SIZE", expressions=[node])
    kind = exp.DataType(this=exp.DType.USERDEFINED, kind="BIGINT")
    return exp.Cast(this=size, to=kind)
