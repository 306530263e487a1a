"""Plan a query: names become views, windows and joins Spark's, and streams are checked.

Each query is planned from the inside out. What comes out is a tree that Spark can parse, and a
`Relation` that says what its rows are: new rows, changes, or results that replace earlier ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.pipelines.sql.dialect import WindowTable
from headwater.pipelines.sql.faults import meant
from headwater.pipelines.sql.functions import REFUSED_HINTS
from headwater.pipelines.sql.hints import check_query_hint, option_hints
from headwater.pipelines.sql.joins import joined
from headwater.pipelines.sql.lookups import LookupExtraction
from headwater.pipelines.sql.names import (
    DeclaredTable,
    DeclaredView,
    Names,
    TableName,
    qualified,
)
from headwater.pipelines.sql.parse import parse_query
from headwater.pipelines.sql.reads import (
    PendingRead,
    PlanSteps,
    check_hints,
    check_readable,
    read_relation,
)
from headwater.pipelines.sql.relations import (
    FromItem,
    Relation,
    RowKind,
    WindowPart,
    own_nodes,
    refusal,
)
from headwater.pipelines.sql.selects import SelectOutput
from headwater.pipelines.sql.statements import ParsedQuery, SourceText
from headwater.pipelines.sql.steps import CHANGE_COLUMN, EventTime, FirstRows
from headwater.pipelines.sql.top_rows import TopRows, top_rows
from headwater.pipelines.sql.windows import (
    WindowCall,
    check_session,
    group_by_window,
    group_call,
    replace_auxiliary,
    replace_parts,
    table_call,
    window_subquery,
)

Scope = Mapping[str, Relation]
_VIEWS_DEPTH_MAX = 32


class QueryPlanner:
    """Plan the queries of one statement; their views go into the same list."""

    __slots__ = ("_catalog", "_database", "_depth", "_is_streaming", "_names", "_source", "_steps")

    def __init__(
        self,
        names: Names,
        steps: PlanSteps,
        source: SourceText,
        *,
        is_streaming: bool,
        place: tuple[str, str] | None = None,
        depth: int = 0,
    ) -> None:
        self._names = names
        self._steps = steps
        self._source = source
        self._is_streaming = is_streaming
        self._catalog, self._database = place or (names.catalog, names.database)
        self._depth = depth

    def plan(self, query: ParsedQuery, *, keeps_order: bool = False) -> tuple[exp.Expr, Relation]:
        """Return a tree in Spark's words, except for functions, and what its rows are.

        With `keeps_order`, the caller decides what ORDER BY of the outermost query means.
        """
        tree = query.tree.copy()
        if keeps_order and (order := tree.args.get("order")) is not None:
            order.meta["is_kept"] = True
        self._steps.note_uses(tree)
        self._check_functions(tree)
        holder = exp.Subquery(this=tree)  # so that the outermost query can be replaced as well
        relation = self._query(tree, {}, is_shown=True)
        return holder.this, relation

    def _check_functions(self, tree: exp.Expr) -> None:
        for node in tree.find_all(exp.Anonymous, exp.MatchRecognize, exp.SimilarTo):
            if isinstance(node, exp.MatchRecognize):
                raise refusal(
                    self._source,
                    node,
                    "MATCH_RECOGNIZE is not supported: Spark has no pattern matching over rows.",
                    "Write the pattern with window functions in a batch, or in Python with"
                    " transformWithState.",
                )
            if isinstance(node, exp.SimilarTo):
                raise refusal(
                    self._source, node, "SIMILAR TO is not supported.", "Write REGEXP(x, 'regex')."
                )
            if (hint := REFUSED_HINTS.get(node.name.upper())) is not None:
                shown = node.name.upper().removesuffix("_TO")
                raise refusal(self._source, node, f"{shown} is not supported here.", hint)

    # Queries.

    def _query(self, node: exp.Expr, scope: Scope, *, is_shown: bool) -> Relation:
        """Plan a query in place; `is_shown` means that nothing hidden may be in its rows."""
        match node:
            case exp.Select():
                return self._select(node, scope, is_shown=is_shown)
            case exp.SetOperation():
                return self._set_operation(node, scope)
            case exp.Subquery():
                scope = self._ctes(node, scope)
                return self._query(node.this, scope, is_shown=is_shown)
            case exp.Values():
                return self._values(node)
            case _:
                raise refusal(self._source, node, "This is not a query.", "Write SELECT.")

    def _values(self, node: exp.Values) -> Relation:
        alias = node.args.get("alias")
        columns = tuple(each.name for each in alias.columns) if alias is not None else ()
        if not columns:
            first = node.expressions[0]
            width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
            columns = tuple(f"col{at + 1}" for at in range(width))
        return Relation(columns=columns)

    def _ctes(self, node: exp.Expr, scope: Scope) -> Scope:
        found = dict(scope)
        with_ = node.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            relation = self._query(cte.this, found, is_shown=False)
            names = tuple(each.name for each in cte.args["alias"].columns)
            if names:
                relation = relation.renamed(names)
            found[cte.alias.lower()] = relation
        return found

    def _set_operation(self, node: exp.SetOperation, scope: Scope) -> Relation:
        scope = self._ctes(node, scope)
        left = self._query(node.left, scope, is_shown=True)
        right = self._query(node.right, scope, is_shown=True)
        is_streaming = left.is_streaming or right.is_streaming
        relation = replace(left.unwindowed(), is_streaming=is_streaming, time=None, key=None)
        if not is_streaming:
            return relation
        self._refuse_order(node)
        if not isinstance(node, exp.Union):
            raise refusal(
                self._source,
                node.right,
                f"{node.key.upper()} of streams is not supported: both sides would have to end.",
                "Run it in a batch, or write a join.",
            )
        if left.kind is not right.kind or left.has_changes or right.has_changes:
            raise refusal(
                self._source,
                node.right,
                "A UNION mixes streams of new rows with streams of updates.",
                "Write two INSERT statements into the same table instead.",
            )
        if not node.args.get("distinct"):
            return relation
        return self._distinct(node, relation)

    def _distinct(self, node: exp.Expr, relation: Relation) -> Relation:
        """Keep the first of equal rows of a stream."""
        if relation.kind is not RowKind.INSERTS or relation.columns is None:
            raise refusal(
                self._source,
                node,
                "DISTINCT of a stream of updates is not supported.",
                "Write DISTINCT in the innermost query, over new rows.",
            )
        holder = node.parent
        assert holder is not None
        node.set("distinct", False if isinstance(node, exp.Union) else None)
        inner = exp.Subquery(this=exp.Placeholder())
        node.replace(inner)
        view = self._steps.add_sql("rows", node)
        first = self._steps.view_name("distinct")
        self._steps.steps.append(FirstRows(view=first, rows=view, keys=relation.columns))
        inner.replace(exp.Select(expressions=[exp.Star()]).from_(exp.to_table(first)))
        return replace(relation.unwindowed(), time=None)

    # SELECT.

    def _select(self, select: exp.Select, scope: Scope, *, is_shown: bool) -> Relation:
        """Plan a SELECT from the inside out.

        1. What it is from. 2. Lookups. 3. Windows. 4. Subqueries in conditions. 5. What comes out.
        """
        self._check_hint(select)
        scope = self._ctes(select, scope)
        top = top_rows(select, self._source) if self._is_streaming else None
        items = self._from_items(select, scope, top)
        self._check_items(items)
        if any(item.version is not None for item in items):
            items = LookupExtraction(select, items, self._steps, self._source).extract()
        relation = joined(items, self._source)
        window, is_final = self._windows(select, items)
        self._subqueries(select, scope)
        if relation.is_streaming:
            self._refuse_order(select)
            self._refuse_offset(select)
        self._steps.count += 1
        fresh = f"window__{self._steps.count}"
        output = SelectOutput(select, items, relation, self._source, fresh=fresh)
        found = output.plan(window=window, is_final=is_final, is_shown=is_shown)
        if select.args.get("distinct") is not None and found.is_streaming:
            return self._distinct(select, found)
        return found

    def _check_hint(self, select: exp.Select) -> None:
        hint = select.args.get("hint")
        if hint is None:
            return
        text = hint.expressions[0].name
        check_query_hint(text, self._place_of(hint, text))
        body = text.removeprefix("/*+").removesuffix("*/").strip()
        hint.set("expressions", [exp.var(body)])

    def _place_of(self, node: exp.Expr, text: str) -> SourceText:
        script = self._source.script or self._source.text
        at = node.meta.get("start", 0)
        line = script.count("\n", 0, at) + 1
        return SourceText(text, line, at - script.rfind("\n", 0, at), script)

    def _check_items(self, items: Sequence[FromItem]) -> None:
        first = items[0] if items else None
        if first is not None and first.version is not None:
            raise refusal(
                self._source,
                first.version,
                "FOR SYSTEM_TIME AS OF stands behind the table of a JOIN.",
                "To read a table as it was, run a batch with"
                " /*+ OPTIONS('scan.timestamp-millis' = '…') */ behind its name.",
            )
        for sample in (each for item in items for each in item.node.find_all(exp.TableSample)):
            raise refusal(
                self._source,
                sample,
                "TABLESAMPLE is not supported.",
                "Write WHERE RAND() < 0.1, or LIMIT in a batch.",
            )

    def _refuse_offset(self, select: exp.Select) -> None:
        offset = select.args.get("offset")
        if offset is not None:
            raise refusal(
                self._source,
                offset,
                "OFFSET leaves out the first rows, and a stream has no order.",
                "SET 'execution.runtime-mode' = 'batch', with ORDER BY.",
            )

    def _refuse_order(self, node: exp.Expr) -> None:
        order = node.args.get("order")
        if order is None or order.meta.get("is_kept"):
            return
        if node.args.get("limit") is not None:
            raise refusal(
                self._source,
                order,
                "The first rows of a stream in some order are never final.",
                "Write ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) with WHERE rownum <= n around"
                " it, into a table whose key includes the number.",
            )
        raise refusal(
            self._source,
            order,
            "A stream cannot be sorted: it has no end.",
            "Remove ORDER BY, or SET 'execution.runtime-mode' = 'batch'.",
        )

    # FROM and JOIN.

    def _from_items(self, select: exp.Select, scope: Scope, top: TopRows | None) -> list[FromItem]:
        items: list[FromItem] = []
        from_ = select.args.get("from_")
        if from_ is not None:
            items.append(self._item(from_, scope, top))
        for join in select.args.get("joins") or ():
            item = self._item(join, scope, None)
            item.join = join
            items.append(item)
        for lateral in select.args.get("laterals") or ():
            relation = Relation(columns=tuple(each.name for each in _alias_columns(lateral)))
            items.append(FromItem(lateral.alias, lateral, relation))
        return items

    def _item(self, holder: exp.Expr, scope: Scope, top: TopRows | None) -> FromItem:
        node = holder.this
        match node:
            case exp.Table() if isinstance(node.this, WindowTable):
                return self._window_item(node, scope)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                return self._table_item(node, scope)
            case exp.Table() if isinstance(node.this, exp.Dot):
                raise self._long_name(node)
            case exp.Subquery():
                return self._subquery_item(node, scope, top)
            case exp.Values():
                return FromItem(node.alias, node, self._values(node))
            case _:
                columns = tuple(each.name for each in _alias_columns(node))
                return FromItem(node.alias, node, Relation(columns=columns or None))

    def _subquery_item(self, node: exp.Subquery, scope: Scope, top: TopRows | None) -> FromItem:
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(self._alias("rows"))))
        if top is not None:
            relation = top.rewrite(node, self._query(top.base, scope, is_shown=False), self._steps)
        else:
            relation = self._query(node.this, scope, is_shown=False)
        if names := tuple(each.name for each in node.args["alias"].columns):
            relation = relation.renamed(names)
        return FromItem(node.alias, node, relation)

    def _alias(self, of: str) -> str:
        self._steps.count += 1
        return f"{of}__{self._steps.count}"

    def _table_item(self, node: exp.Table, scope: Scope) -> FromItem:
        parts = [each.name for each in node.parts]
        alias = node.alias or parts[-1]
        if len(parts) == 1 and parts[0].lower() in scope:
            return FromItem(alias, node, scope[parts[0].lower()])
        found = self._find(node, parts)
        hints = self._table_hints(node)
        if isinstance(found, DeclaredView):
            if hints:
                raise refusal(
                    self._source, node, "A view takes no OPTIONS.", "Give them inside the view."
                )
            view, relation = self._view(found, node)
        elif node.args.get("version") is not None:
            # A lookup reads nothing beforehand.
            relation = read_relation(
                PendingRead(
                    view="",
                    table=found,
                    hints=hints,
                    is_streaming=False,
                    watermark=None,
                    has_changes=False,
                )
            )
            node.meta["table"], node.meta["hints"] = found, hints
            return FromItem(alias, node, relation)
        else:
            view, relation = self._read(found, hints, node)
        _point_at(node, view, alias)
        return FromItem(alias, node, relation)

    def _table_hints(self, node: exp.Table) -> dict[str, str]:
        hints = node.args.get("hints")
        if not hints:
            return {}
        node.set("hints", None)
        text = hints[0].expressions[0].name
        return option_hints(text, self._place_of(hints[0], text))

    def _find(self, node: exp.Table, parts: list[str]) -> DeclaredTable | DeclaredView:
        name = qualified(tuple(parts), catalog=self._catalog, database=self._database)
        found = self._names.find(name)
        if found is None:
            raise self._missing(node, name)
        return found

    def _long_name(self, node: exp.Expr) -> Exception:
        return refusal(
            self._source, node, "A name has at most three parts.", "Write catalog.database.table."
        )

    def _missing(self, node: exp.Table, name: TableName) -> Exception:
        hint = meant(name.table, self._names.near(name))
        return refusal(
            self._source,
            node,
            f"There is no table or view {name}.",
            hint or "Create it, or SHOW TABLES to find its name.",
        )

    def _view(self, view: DeclaredView, node: exp.Expr) -> tuple[str, Relation]:
        if self._depth >= _VIEWS_DEPTH_MAX:
            raise refusal(
                self._source, node, f"The view {view.name} uses itself.", "Change its query."
            )
        query = parse_query(view.query)
        inner = QueryPlanner(
            self._names,
            self._steps,
            query.source,
            is_streaming=self._is_streaming,
            place=(view.catalog, view.database),
            depth=self._depth + 1,
        )
        tree, relation = inner.plan(query)
        if view.columns:
            hidden = (CHANGE_COLUMN,) if relation.has_changes else ()
            tree = _renamed(tree, (*view.columns, *hidden))
            relation = relation.renamed(view.columns)
        return self._steps.add_sql(view.name.table, tree), relation

    def _read(
        self, table: DeclaredTable, hints: Mapping[str, str], node: exp.Expr
    ) -> tuple[str, Relation]:
        check_hints(table, hints, node, self._source)
        streams = check_readable(table, node, self._source, is_streaming=self._is_streaming)
        key = (table.name, tuple(sorted(hints.items())))
        read = self._steps.reads.get(key)
        if read is None:
            mark = table.watermark
            time = EventTime(column=mark.column, delay_ms=mark.delay_ms) if mark else None
            read = PendingRead(
                view=self._steps.view_name(table.name.table),
                table=table,
                hints=dict(hints),
                is_streaming=streams,
                watermark=time if streams else None,
                has_changes=streams and table.is_updating,
            )
            self._steps.reads[key] = read
            self._steps.steps.append(read)
        return read.view, read_relation(read)

    # Windows.

    def _window_item(self, node: exp.Table, scope: Scope) -> FromItem:
        function = node.this
        assert isinstance(function, WindowTable)
        holder = exp.From(this=function.args["table"])
        inner = self._item(holder, scope, None)
        inner.node = holder.this
        call = table_call(function, self._source)
        self._check_time(call, inner, function)
        is_final = self._finalize(call, [inner])
        self._steps.count += 1
        cascaded = _cascaded(call, inner)
        subquery, window = window_subquery(cascaded, inner, self._steps.count, is_final=is_final)
        alias = node.alias or self._alias("windowed")
        subquery.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        node.replace(subquery)
        outer = inner.relation
        relation = replace(
            outer, window=window, hidden=(*outer.hidden, *window.grouped), table=None
        )
        return FromItem(alias, subquery, relation)

    def _check_time(self, call: WindowCall, item: FromItem, node: exp.Expr) -> None:
        columns = item.relation.columns
        if columns is None or not isinstance(call.time, exp.Column):
            return
        if not item.relation.has(call.time.name):
            raise refusal(
                self._source,
                node.args.get("time") or node,
                f"There is no column '{call.time.name}'.",
                meant(call.time.name, columns),
            )

    def _finalize(self, call: WindowCall, items: list[FromItem]) -> bool:
        """Tell whether windows end: their time has a watermark, or is that of processing."""
        if not isinstance(call.time, exp.Column):
            return False
        name = call.time.name.lower()
        for item in items:
            relation = item.relation
            if not relation.has(name):
                continue
            if relation.time is not None and relation.time.column.lower() == name:
                return True
            if relation.window is not None and name in relation.window.parts:
                return relation.window.is_final
            if name in relation.process_times and relation.is_streaming:
                self._watermark_process_time(item, name)
                return True
        return False

    def _watermark_process_time(self, item: FromItem, column: str) -> None:
        """Let windows of processing time end: the time of a micro-batch is its watermark."""
        time = EventTime(column=column, delay_ms=0)
        for read in self._steps.reads.values():
            read.watermark = None
        node = item.node
        if isinstance(node, exp.Table):
            for read in self._steps.reads.values():
                if read.view == node.name:
                    read.watermark = time
                    return
        if isinstance(node, exp.Subquery):
            view = self._steps.add_sql("timed", node.this, time)
            table = exp.to_table(view)
            table.set("alias", exp.TableAlias(this=exp.to_identifier(item.alias)))
            node.replace(table)
            item.node = table

    def _windows(self, select: exp.Select, items: list[FromItem]) -> tuple[exp.Expr | None, bool]:
        """Rewrite windows; returns the grouped window as an expression, and whether it ends."""
        found = group_call(select, self._source)
        if found is not None:
            node, call = found
            is_final = self._finalize(call, items)
            expression = _cascaded(call, items[0]).expression() if len(items) == 1 else None
            expression = expression or call.expression()
            node.replace(expression.copy())
            replace_auxiliary(select, expression, self._source)
            return expression, is_final
        replace_auxiliary(select, None, self._source)
        window = group_by_window(select, items, self._source)
        if window is None:
            for item in items:
                if fault := check_session(item.relation, item.node, self._source):
                    raise fault
        replace_parts(select, items, grouped=window is not None)
        if window is None:
            return None, False
        owner = next(item for item in items if item.relation.window is window)
        hidden = exp.column(window.grouped[0], table=owner.alias)
        return hidden, window.is_final

    # Subqueries in conditions.

    def _subqueries(self, select: exp.Select, scope: Scope) -> None:
        parts = [
            *select.expressions,
            *(select.args.get(each) for each in ("where", "having", "group", "order")),
            *(join.args.get("on") for join in select.args.get("joins") or ()),
        ]
        nodes = [node for part in parts if part is not None for node in own_nodes(part)]
        for query in [each for node in nodes for each in node.iter_expressions()]:
            if isinstance(query, exp.Query):
                self._condition_query(query, scope)

    def _condition_query(self, node: exp.Expr, scope: Scope) -> None:
        relation = self._query(node, scope, is_shown=True)
        if relation.is_streaming:
            raise refusal(
                self._source,
                node,
                "A subquery in a condition cannot read a stream: its result would have to be"
                " known before the stream ends.",
                "Write a join, or a lookup with FOR SYSTEM_TIME AS OF, instead of IN or EXISTS.",
            )


def _alias_columns(node: exp.Expr) -> list[exp.Identifier]:
    alias = node.args.get("alias")
    return list(alias.columns) if isinstance(alias, exp.TableAlias) else []


def _point_at(node: exp.Table, view: str, alias: str) -> None:
    """Let a table's node name a view, under the name that the query knows it by."""
    node.set("this", exp.to_identifier(view))
    node.set("db", None)
    node.set("catalog", None)
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _renamed(tree: exp.Expr, columns: tuple[str, ...]) -> exp.Select:
    names = [exp.to_identifier(each, quoted=True) for each in columns]
    alias = exp.TableAlias(this=exp.to_identifier("renamed__"), columns=names)
    return exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=tree, alias=alias))


def _cascaded(call: WindowCall, item: FromItem) -> WindowCall:
    """Windows over the time of smaller windows need Spark's own idea of that time."""
    window = item.relation.window
    if window is None or not isinstance(call.time, exp.Column):
        return call
    part = window.parts.get(call.time.name.lower())
    if part is None or part is WindowPart.START or len(window.grouped) > 1:
        return call
    struct = exp.column(window.grouped[0], table=item.alias)
    return replace(call, time=exp.Anonymous(this="WINDOW_TIME", expressions=[struct]))
