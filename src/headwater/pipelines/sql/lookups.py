"""Lookup joins: `JOIN t FOR SYSTEM_TIME AS OF time` becomes a step between two views.

What stands before the join becomes a view with the columns that are needed, each under a name of
its own such as `o__id`; the step adds the columns of the table; the rest of the query reads that.
"""

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from headwater.pipelines.sql.faults import meant
from headwater.pipelines.sql.names import Ability, DeclaredTable
from headwater.pipelines.sql.reads import PlanSteps, check_hints
from headwater.pipelines.sql.relations import (
    FromItem,
    Relation,
    column_parts,
    conjuncts,
    own_columns,
    own_nodes,
    refusal,
)
from headwater.pipelines.sql.statements import PhysicalColumn, SourceText
from headwater.pipelines.sql.steps import (
    CHANGE_COLUMN,
    EventTime,
    LookupJoin,
    MatchKind,
    SqlView,
    VersionJoin,
)

_NOW = ("PROCTIME", "CURRENT_TIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP")


class LookupExtraction:
    """Takes the lookup joins out of one SELECT."""

    __slots__ = ("_done", "_items", "_needed", "_select", "_source", "_steps")

    def __init__(
        self,
        select: exp.Select,
        items: list[FromItem],
        steps: PlanSteps,
        source: SourceText,
    ) -> None:
        self._select = select
        self._items = items
        self._steps = steps
        self._source = source
        self._done: set[str] = set()  # aliases whose columns are under names of their own
        self._needed: dict[str, list[str]] = {item.alias: [] for item in items}

    def extract(self) -> list[FromItem]:
        """Replace FROM and the joins up to the last lookup by one view.

        1. Name all columns. 2. For each lookup: the rows before it as a view, then the step.
        3. Read the rest from there.
        """
        self._expand_stars()
        self._name_outputs()
        self._collect()
        first, *rest = self._items
        held = [first]
        for item in rest:
            if item.version is None:
                held.append(item)
                continue
            held = [self._looked_up(held, item)]
        self._rename([self._select], in_joins=False)
        return self._rebuilt(held)

    # Names.

    def _expand_stars(self) -> None:
        expressions: list[exp.Expr] = []
        for each in self._select.expressions:
            is_star = isinstance(each, exp.Star)
            if not is_star and not (isinstance(each, exp.Column) and each.is_star):
                expressions.append(each)
                continue
            wanted = [
                item
                for item in self._items
                if is_star or item.alias.lower() == each.args["table"].name.lower()
            ]
            for item in wanted:
                expressions.extend(self._all_columns(item, each))
        self._select.set("expressions", expressions)

    def _all_columns(self, item: FromItem, node: exp.Expr) -> Iterable[exp.Column]:
        if item.relation.columns is None:
            raise refusal(
                self._source, node, "The columns of a subquery are not known.", "Name them."
            )
        return [exp.column(name, table=item.alias) for name in item.relation.columns]

    def _name_outputs(self) -> None:
        """Let outputs keep their names when their columns get others."""
        named = [
            exp.alias_(each, each.name, quoted=True) if isinstance(each, exp.Column) else each
            for each in self._select.expressions
        ]
        self._select.set("expressions", named)

    def _owner(self, column: exp.Column) -> tuple[FromItem, str, list[exp.Identifier]] | None:
        """Whose column it is, its name, and the fields after it."""
        parts = column_parts(column)
        if not parts:
            return None
        for item in self._items:
            if parts[0].name.lower() == item.alias.lower() and len(parts) > 1:
                return item, self._spelled(item, parts[1].name), parts[2:]
        for item in self._items:
            if item.relation.has(parts[0].name):
                return item, self._spelled(item, parts[0].name), parts[1:]
        known = [name for item in self._items for name in item.relation.columns or ()]
        if all(item.relation.columns is not None for item in self._items):
            raise refusal(
                self._source,
                column,
                f"There is no column '{parts[0].name}'.",
                meant(parts[0].name, known),
            )
        raise refusal(
            self._source, column, f"It is not known whose column '{parts[0].name}' is.",
            "Write the table's alias before it.",
        )  # fmt: skip

    def _spelled(self, item: FromItem, name: str) -> str:
        """The name as the table spells it."""
        columns = item.relation.columns or ()
        return next((each for each in columns if each.lower() == name.lower()), name)

    def _collect(self) -> None:
        """Note which columns of which item are needed."""
        aliases = {each.alias.lower() for each in self._select.expressions if each.alias}
        for column in own_columns([self._select]):
            parts = column_parts(column)
            is_output = len(parts) == 1 and parts[0].name.lower() in aliases
            if is_output and self._is_ordering(column):
                continue
            owner = self._owner(column)
            if owner is not None and owner[1] not in self._needed[owner[0].alias]:
                self._needed[owner[0].alias].append(owner[1])
        for item in self._items:
            if item.relation.has_changes:
                self._needed[item.alias].append(CHANGE_COLUMN)

    def _is_ordering(self, column: exp.Column) -> bool:
        return column.find_ancestor(exp.Order, exp.Group, exp.Having) is not None and not any(
            item.relation.has(column.name) for item in self._items
        )

    # Lookups.

    def _looked_up(self, held: list[FromItem], item: FromItem) -> FromItem:
        table = item.node.meta["table"]
        hints = item.node.meta["hints"]
        assert isinstance(table, DeclaredTable)
        check_hints(table, hints, item.node, self._source)
        kind = self._kind(item)
        keys, left_over = self._keys(item, table)
        self._check_key(item, table, set(keys.values()))
        time = self._event_time(item, held)
        probe = self._probe(held, self._computed(keys))
        view = self._steps.view_name(table.name.table)
        columns = {name: _named(item.alias, name) for name in self._lookup_columns(item, table)}
        names = self._key_names(keys)
        options = {**table.options, **hints}
        if time is None:
            self._steps.steps.append(
                LookupJoin(view=view, probe=probe, table=table, keys=names, kind=kind,
                           columns=columns, options=options, hints=hints)
            )  # fmt: skip
        else:
            self._steps.steps.append(
                VersionJoin(view=view, probe=probe, table=table, keys=names, time=time, kind=kind,
                            columns=columns, options=options, hints=hints)
            )  # fmt: skip
        self._done |= {each.alias for each in held} | {item.alias}
        is_whole = set(keys.values()) == set(table.key)
        self._apply_rest(item, left_over, kind, is_whole=is_whole)
        return self._result(held, view)

    def _kind(self, item: FromItem) -> MatchKind:
        assert item.join is not None
        side = (item.join.side or "").upper()
        if side not in ("", "LEFT") or (item.join.kind or "").upper() not in ("", "INNER", "OUTER"):
            raise refusal(
                self._source, item.node, f"A lookup cannot be a {side or item.join.kind} JOIN.",
                "Write JOIN or LEFT JOIN.",
            )  # fmt: skip
        return MatchKind.LEFT if side else MatchKind.INNER

    def _keys(
        self, item: FromItem, table: DeclaredTable
    ) -> tuple[dict[exp.Expr, str], list[exp.Expr]]:
        """Split ON into pairs of an expression and a column of the table, and what is left."""
        assert item.join is not None
        keys: dict[exp.Expr, str] = {}
        left_over: list[exp.Expr] = []
        for condition in conjuncts(item.join.args.get("on")):
            pair = self._pair(condition, item)
            wanted = {name for each in (table.key, *table.lookup_keys) for name in each}
            if pair is None or pair[1] not in wanted or pair[1] in keys.values():
                left_over.append(condition)
            else:
                keys[pair[0]] = pair[1]
        return keys, left_over

    def _pair(self, condition: exp.Expr, item: FromItem) -> tuple[exp.Expr, str] | None:
        if not isinstance(condition, exp.EQ):
            return None
        for mine, other in (
            (condition.this, condition.expression),
            (condition.expression, condition.this),
        ):
            owner = self._owner(mine) if isinstance(mine, exp.Column) else None
            if owner is None or owner[0] is not item or owner[2]:
                continue
            theirs = [self._owner(each) for each in own_columns([other])]
            if all(each is not None and each[0] is not item for each in theirs):
                return other, owner[1]
        return None

    def _check_key(self, item: FromItem, table: DeclaredTable, found: set[str]) -> None:
        if Ability.LOOKUP not in table.abilities:
            raise refusal(
                self._source,
                item.node,
                f"Rows of {table.name} ('{table.connector}') cannot be looked up.",
                "Join it without FOR SYSTEM_TIME AS OF: it is read once, or as a stream.",
            )
        keys = [each for each in (table.key, *table.lookup_keys) if each]
        if not any(set(each) == found for each in keys):
            known = " or ".join(f"({', '.join(each)})" for each in keys) or "nothing: it has no key"
            raise refusal(
                self._source,
                item.node,
                f"{table.name} is looked up by {known}, and ON compares"
                f" {', '.join(sorted(found)) or 'no column of it'}.",
                "Compare every column of its key with =.",
            )

    def _event_time(self, item: FromItem, held: list[FromItem]) -> str | None:
        """The name of the probe's time column if this is a join by event time."""
        version = item.version
        assert version is not None
        is_now = isinstance(version, exp.CurrentTimestamp) or (
            isinstance(version, exp.Anonymous) and version.name.upper() in _NOW
        )
        if is_now:
            return None
        owner = self._owner(version) if isinstance(version, exp.Column) else None
        if owner is None:
            raise refusal(
                self._source, version, "FOR SYSTEM_TIME AS OF takes a time column of the stream.",
                "Write FOR SYSTEM_TIME AS OF o.proctime.",
            )  # fmt: skip
        if owner[1].lower() in owner[0].relation.process_times:
            return None
        table = item.node.meta["table"]
        if Ability.VERSIONS not in table.abilities:
            raise refusal(
                self._source, version, f"{table.name} does not keep versions of its rows.",
                "Declare a column proctime AS PROCTIME(), and join AS OF that one.",
            )  # fmt: skip
        if all(owner[0] is not each for each in held):
            raise refusal(self._source, version, "The time must be one of the stream's.", "")
        self._check_versions(table, version, held)
        return _named(owner[0].alias, owner[1])

    def _check_versions(self, table: DeclaredTable, node: exp.Expr, held: list[FromItem]) -> None:
        """Raise where the versions of a table are not known as they have to be."""
        if any(item.relation.is_streaming for item in held):
            raise refusal(
                self._source,
                node,
                f"Spark reads the changes of {table.name} once, when a stream begins, so that the"
                " stream would not see later versions.",
                "Join it AS OF a column that is PROCTIME(), SET 'execution.runtime-mode' ="
                " 'batch', or CREATE MATERIALIZED TABLE with REFRESH_MODE = FULL.",
            )
        mark = table.watermark
        if mark is None:
            return
        if not any(
            isinstance(each, PhysicalColumn) and each.name == mark.column for each in table.columns
        ):
            raise refusal(
                self._source,
                node,
                f"The time '{mark.column}' of {table.name} is computed, and its changelog has only"
                " what the table holds.",
                "Declare the WATERMARK for a column that the table holds.",
            )

    def _computed(self, keys: dict[exp.Expr, str]) -> dict[str, exp.Expr]:
        """Keys that are not just a column, under names of their own."""
        found: dict[str, exp.Expr] = {}
        for node, name in keys.items():
            if self._plain_name(node) is None:
                found[f"key__{name}"] = node.copy()
        return found

    def _plain_name(self, node: exp.Expr) -> str | None:
        owner = self._owner(node) if isinstance(node, exp.Column) else None
        if owner is None or owner[2]:
            return None
        return _named(owner[0].alias, owner[1])

    def _key_names(self, keys: dict[exp.Expr, str]) -> dict[str, str]:
        return {self._plain_name(node) or f"key__{name}": name for node, name in keys.items()}

    def _lookup_columns(self, item: FromItem, table: DeclaredTable) -> list[str]:
        needed = self._needed[item.alias]
        physical = {each.name for each in table.columns if isinstance(each, PhysicalColumn)}
        for name in needed:
            if name not in physical:
                raise refusal(
                    self._source, item.node, f"'{name}' of {table.name} is computed, and a lookup"
                    " gives only what the table holds.",
                    "Compute it in the SELECT.",
                )  # fmt: skip
        return needed

    # The rows before, and after.

    def _probe(self, held: list[FromItem], computed: dict[str, exp.Expr]) -> str:
        """Make a view of what stands before a lookup."""
        expressions: list[exp.Expr] = []
        for item in held:
            if item.alias in self._done:
                expressions.append(exp.Column(this=exp.Star(), table=exp.to_identifier(item.alias)))
                continue
            expressions.extend(
                exp.alias_(
                    exp.column(exp.to_identifier(name, quoted=True), table=item.alias),
                    _named(item.alias, name),
                    quoted=True,
                )
                for name in self._needed[item.alias]
            )
        select = exp.Select(expressions=expressions)
        for name, node in computed.items():
            select.append("expressions", exp.alias_(node, name, quoted=True))
        first, *rest = held
        select.set("from_", exp.From(this=first.node.copy()))
        for item in rest:
            assert item.join is not None
            select.append("joins", item.join.copy())
        pushed = self._pushed(held)
        if pushed:
            select.set("where", exp.Where(this=exp.and_(*pushed)))
        self._rename([select], in_joins=True, aliases=self._done)
        if not _is_stateful(held):
            self._delay_watermarks(held)
        return self._steps.add_sql("probe", select)

    def _pushed(self, held: list[FromItem]) -> list[exp.Expr]:
        """Conditions that are only about the rows before: fewer lookups."""
        where = self._select.args.get("where")
        if where is None or self._done:
            return []
        kept: list[exp.Expr] = []
        pushed: list[exp.Expr] = []
        for condition in conjuncts(where.this):
            owners = [self._owner(each) for each in own_columns([condition])]
            is_theirs = owners and all(each is not None and each[0] in held for each in owners)
            is_plain = not any(isinstance(each, exp.Query) for each in condition.walk())
            (pushed if is_theirs and is_plain else kept).append(condition)
        if any(item.relation.has_changes for item in held):
            return []  # the planner turns it into deletes
        if kept:
            where.set("this", exp.and_(*kept, copy=False))
        elif pushed:
            self._select.set("where", None)
        return [each.copy() for each in pushed]

    def _delay_watermarks(self, held: list[FromItem]) -> None:
        """A lookup forgets the watermark, and Spark takes only one: it is applied afterwards."""
        views = {each.name for item in held for each in item.node.find_all(exp.Table)}
        for read in self._steps.reads.values():
            if read.view in views:
                read.watermark = None

    def _apply_rest(
        self, item: FromItem, left_over: list[exp.Expr], kind: MatchKind, *, is_whole: bool
    ) -> None:
        if not left_over:
            return
        condition = exp.and_(*(each.copy() for each in left_over))
        if kind is MatchKind.INNER:
            where = self._select.args.get("where")
            both = condition if where is None else exp.and_(where.this, condition)
            self._select.set("where", exp.Where(this=both))
            return
        if not is_whole:
            raise refusal(
                self._source,
                left_over[0],
                "A LEFT JOIN that looks up several rows takes no further conditions.",
                "Write them into WHERE, or look up the whole key.",
            )
        for column in own_columns([self._select]):
            owner = self._owner(column)
            if owner is not None and owner[0] is item:
                case = exp.Case(ifs=[exp.If(this=condition.copy(), true=column.copy())])
                column.replace(case)

    def _result(self, held: list[FromItem], view: str) -> FromItem:
        alias = view
        time = self._time_of(held)
        if time is not None:
            top = self._steps.view_name("timed")
            self._steps.steps.append(
                SqlView(view=top, sql=f"SELECT * FROM {view}", watermark=time)  # noqa: S608
            )
            alias = top
        node = exp.to_table(alias)
        relation = self._merged(held, time)
        self._done.add(alias)
        return FromItem(alias, node, relation)

    def _time_of(self, held: list[FromItem]) -> EventTime | None:
        if _is_stateful(held):
            return None  # it was needed before the lookup, and Spark takes only one
        for item in held:
            time = item.relation.time
            if time is None or not item.relation.is_streaming:
                continue
            if item.alias not in self._needed:  # the result of an earlier lookup
                self._drop_watermark(item.alias)
                return time
            if time.column in self._needed[item.alias]:
                return replace(time, column=_named(item.alias, time.column))
        return None

    def _drop_watermark(self, view: str) -> None:
        """Only the last of several lookups gets the watermark."""
        self._steps.steps[:] = [
            replace(each, watermark=None)
            if isinstance(each, SqlView) and each.view == view
            else each
            for each in self._steps.steps
        ]

    def _merged(self, held: list[FromItem], time: EventTime | None) -> Relation:
        streams = [item for item in held if item.relation.is_streaming]
        base = (streams or held)[0].relation
        columns = tuple(
            _named(alias, name) for alias, names in self._needed.items() for name in names
        )
        times = frozenset(
            _named(item.alias, name).lower()
            for item in self._items
            for name in item.relation.process_times
        )
        types = {
            _named(item.alias, name).lower(): kind
            for item in self._items
            for name, kind in item.relation.types.items()
        }
        changes = [item for item in held if item.relation.has_changes]
        # Behind another lookup it has a name of its own already.
        hidden = tuple(
            name
            for item in changes
            for name in (
                (_named(item.alias, CHANGE_COLUMN),)
                if item.alias in self._needed
                else item.relation.hidden
            )
        )
        return replace(
            base, columns=columns, types=types, time=time, process_times=times, window=None,
            hidden=hidden, key=None, table=None,
        )  # fmt: skip

    def _rename(
        self,
        trees: list[exp.Expr],
        *,
        in_joins: bool,
        aliases: set[str] | None = None,
    ) -> None:
        """Replace `o.id` by `o__id`, for everything that went through a lookup."""
        wanted = self._done if aliases is None else aliases
        for tree in trees:
            for column in [each for each in own_nodes(tree) if isinstance(each, exp.Column)]:
                if column.is_star or (not in_joins and column.find_ancestor(exp.Join)):
                    continue
                owner = self._owner_or_none(column)
                if owner is None or owner[0].alias not in wanted:
                    continue
                column.replace(_renamed(*owner))

    def _owner_or_none(
        self, column: exp.Column
    ) -> tuple[FromItem, str, list[exp.Identifier]] | None:
        parts = column_parts(column)
        is_known = any(
            parts[0].name.lower() == item.alias.lower() or item.relation.has(parts[0].name)
            for item in self._items
        )
        return self._owner(column) if parts and is_known else None

    def _rebuilt(self, held: list[FromItem]) -> list[FromItem]:
        first, *rest = held
        self._select.set("from_", exp.From(this=first.node))
        joins = []
        for item in rest:
            assert item.join is not None
            joins.append(item.join)
        self._rename(list(joins), in_joins=True)
        self._select.set("joins", joins)
        return held


def _is_stateful(held: list[FromItem]) -> bool:
    """Tell whether rows wait for others before they are looked up."""
    streams = [item.relation for item in held if item.relation.is_streaming]
    return len(streams) > 1 or any(each.is_windowed for each in streams)


def _named(alias: str, column: str) -> str:
    return f"{alias}__{column}"


def _renamed(item: FromItem, name: str, fields: list[exp.Identifier]) -> exp.Expr:
    found: exp.Expr = exp.column(exp.to_identifier(_named(item.alias, name), quoted=True))
    for each in fields:
        found = exp.Dot(this=found, expression=each.copy())
    return found
