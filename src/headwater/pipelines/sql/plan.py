"""Statements to steps: what the conductor does for each, decided from values alone."""

from sqlglot import exp

from headwater.errors import StatementError
from headwater.pipelines.sql.faults import fault, meant
from headwater.pipelines.sql.names import Ability, DeclaredTable, Names, qualified
from headwater.pipelines.sql.query import QueryPlanner
from headwater.pipelines.sql.reads import PlanSteps, check_hints
from headwater.pipelines.sql.relations import Relation, RowKind
from headwater.pipelines.sql.settings import check_setting, is_streaming
from headwater.pipelines.sql.sinks import final_rows, result_mode, target_columns
from headwater.pipelines.sql.statements import (
    AlterMaterializedTable,
    CreateMaterializedTable,
    CreateTable,
    DeleteStatement,
    ExplainStatement,
    InsertSetStatement,
    InsertStatement,
    MaterializedChange,
    Name,
    ParsedQuery,
    PhysicalColumn,
    PlainStatement,
    SelectStatement,
    SetSetting,
    SourceText,
    Statement,
    UpdateStatement,
)
from headwater.pipelines.sql.steps import (
    CreateTableAs,
    DeleteRows,
    ExplainPlan,
    InsertRows,
    InsertRowsSet,
    Materialize,
    PlainAction,
    Plan,
    ResultMode,
    ShowRows,
)

_CONTINUOUS_MAX_MS = 30 * 60 * 1000
"""Below this freshness, a materialized table is kept fresh by a stream."""


def plan(statement: Statement, names: Names, *, label: str = "hw") -> Plan:
    """Plan one statement; raises `StatementError` if it cannot be done, with the reason."""
    if isinstance(statement, ExplainStatement):
        inner = plan(statement.statement, names, label=label)
        return Plan(action=ExplainPlan(plan=inner, details=statement.details))
    return _StatementPlanner(names, label).plan(statement)


class _StatementPlanner:
    """Plans one statement."""

    __slots__ = ("_names", "_steps", "_streams")

    def __init__(self, names: Names, label: str) -> None:
        self._names = names
        self._steps = PlanSteps(label)
        self._streams = is_streaming(names)

    def plan(self, statement: PlainStatement) -> Plan:
        match statement:
            case SelectStatement():
                return self._plan(self._select(statement))
            case InsertStatement():
                return self._plan(self._insert(statement))
            case InsertSetStatement():
                inserts = tuple(self._insert(each) for each in statement.inserts)
                return self._plan(InsertRowsSet(writes=inserts))
            case UpdateStatement():
                return self._plan(self._update(statement))
            case DeleteStatement():
                return self._plan(self._delete(statement))
            case _:
                return self._other(statement)

    def _other(self, statement: PlainStatement) -> Plan:
        match statement:
            case CreateTable(query=ParsedQuery()):
                return self._plan(self._create_as(statement))
            case CreateMaterializedTable():
                return self._plan(self._materialize(statement))
            case AlterMaterializedTable(change=MaterializedChange.QUERY):
                return self._plan(self._materialize(statement))
            case SetSetting():
                return Plan(action=statement, notes=check_setting(statement))
            case (
                SelectStatement()
                | InsertStatement()
                | InsertSetStatement()
                | UpdateStatement()
                | DeleteStatement()
            ):
                raise AssertionError(statement)
            case _:
                return Plan(action=statement)

    def _plan(
        self,
        action: ShowRows
        | InsertRows
        | InsertRowsSet
        | DeleteRows
        | CreateTableAs
        | Materialize
        | PlainAction,
    ) -> Plan:
        return Plan(action=action, views=self._steps.finished(), notes=tuple(self._steps.notes))

    # Queries.

    def _query(
        self, query: ParsedQuery, *, streams: bool, keeps_order: bool = False
    ) -> tuple[exp.Expr, Relation]:
        planner = QueryPlanner(self._names, self._steps, query.source, is_streaming=streams)
        return planner.plan(query, keeps_order=keeps_order)

    def _select(self, statement: SelectStatement) -> ShowRows:
        tree, relation = self._query(statement.query, streams=self._streams, keeps_order=True)
        limit: int | None = None
        mode = result_mode(relation)
        if relation.is_streaming:
            ordered = tree.args.get("order") is not None
            if ordered and (relation.kind is not RowKind.UPDATES or relation.has_changes):
                raise fault(
                    statement.source,
                    "A stream cannot be sorted: it has no end.",
                    hint="Remove ORDER BY, or SET 'execution.runtime-mode' = 'batch'.",
                )
            mode = ResultMode.COMPLETE if ordered else mode
            if not ordered:
                limit = _taken_limit(tree)
        view = self._steps.add_sql("result", final_rows(tree, relation, relation.columns))
        return ShowRows(
            view=view,
            is_streaming=relation.is_streaming,
            mode=mode,
            key=relation.key or (),
            has_changes=relation.has_changes,
            limit=limit,
        )

    # Writes.

    def _sink(self, name: Name, source: SourceText) -> DeclaredTable:
        full = qualified(name, catalog=self._names.catalog, database=self._names.database)
        found = self._names.find(full)
        if found is None:
            raise fault(
                source,
                f"There is no table {full}.",
                hint=meant(full.table, self._names.near(full)) or "CREATE TABLE it first.",
            )
        if not isinstance(found, DeclaredTable):
            raise fault(source, f"{full} is a view.", hint="Write into the table behind it.")
        return found

    def _insert(self, statement: InsertStatement) -> InsertRows:
        """Plan an INSERT.

        1. Which columns of the sink. 2. The query. 3. Whether the sink can take its rows.
        """
        source = statement.source
        self._steps.reads.clear()  # each write is a stream of its own, with its own watermarks
        table = self._sink(statement.table, source)
        if statement.hints:
            check_hints(table, statement.hints, statement.query.tree, source)
        _check_overwrite(statement, table)
        targets = target_columns(table, statement)
        tree, relation = self._query(statement.query, streams=self._streams)
        given = [each for each in targets if statement.partition.get(each) is None]
        _check_count(relation, given, table, source)
        if statement.is_overwrite and relation.is_streaming:
            raise _overwriting_stream(source)
        mode = _checked_mode(relation, table, given, source)
        fixed = {each: value for each, value in statement.partition.items() if value is not None}
        rows = final_rows(tree, relation, tuple(given), fixed=fixed, order=tuple(targets))
        view = self._steps.add_sql("rows", rows)
        is_partial = bool(table.key) and len(targets) < len(_writable(table))
        return InsertRows(
            view=view,
            table=table,
            columns=tuple(targets),
            is_streaming=relation.is_streaming,
            mode=mode,
            key=table.key if Ability.UPSERT in table.abilities else (),
            is_overwrite=statement.is_overwrite,
            is_partial=is_partial,
            has_changes=relation.has_changes,
            options={**table.options, **statement.hints},
            hints=statement.hints,
        )

    def _keyed(self, statement: UpdateStatement | DeleteStatement) -> DeclaredTable:
        table = self._sink(statement.table, statement.source)
        if not table.key or Ability.UPSERT not in table.abilities:
            raise fault(
                statement.source,
                f"{table.name} has no primary key, so its rows cannot be updated or deleted.",
                hint="Create a table with PRIMARY KEY … NOT ENFORCED.",
            )
        if Ability.BATCH_READ not in table.abilities:
            raise fault(statement.source, f"{table.name} cannot be read.", hint="")
        return table

    def _rows_of(
        self,
        statement: UpdateStatement | DeleteStatement,
        table: DeclaredTable,
        expressions: list[exp.Expr],
    ) -> exp.Expr:
        name = table.name
        node = exp.Table(
            this=exp.to_identifier(name.table, quoted=True),
            db=exp.to_identifier(name.database, quoted=True),
            catalog=exp.to_identifier(name.catalog, quoted=True),
        )
        select = exp.Select(expressions=expressions).from_(node)
        if statement.condition is not None:
            select.set("where", exp.Where(this=statement.condition.copy()))
        tree, _ = self._query(ParsedQuery(statement.source, select), streams=False)
        return tree

    def _update(self, statement: UpdateStatement) -> InsertRows:
        table = self._keyed(statement)
        given = dict(statement.assignments)
        columns = _writable(table)
        for column in given:
            if column not in columns:
                raise fault(
                    statement.source,
                    f"{table.name} has no column '{column}' that can be written.",
                    hint=meant(column, columns),
                )
            if column in table.key:
                raise fault(
                    statement.source,
                    f"'{column}' is part of the primary key, which an UPDATE cannot change.",
                    hint="DELETE the row, and INSERT it with the new key.",
                )
        expressions = [
            exp.alias_(given[each].copy(), each, quoted=True)
            if each in given
            else exp.column(exp.to_identifier(each, quoted=True))
            for each in columns
        ]
        tree = self._rows_of(statement, table, expressions)
        view = self._steps.add_sql("rows", tree)
        return InsertRows(
            view=view, table=table, columns=tuple(columns), key=table.key, options=table.options
        )

    def _delete(self, statement: DeleteStatement) -> DeleteRows:
        table = self._keyed(statement)
        keys = [exp.column(exp.to_identifier(each, quoted=True)) for each in table.key]
        tree = self._rows_of(statement, table, list(keys))
        return DeleteRows(view=self._steps.add_sql("keys", tree), table=table)

    # Tables from queries.

    def _create_as(self, statement: CreateTable) -> CreateTableAs:
        query = statement.query
        assert query is not None
        tree, relation = self._query(query, streams=self._streams)
        key = statement.definition.key
        if relation.kind is not RowKind.INSERTS and not key:
            raise _needs_key(query.source, "The new table", relation)
        view = self._steps.add_sql("rows", final_rows(tree, relation, relation.columns))
        return CreateTableAs(
            statement=statement,
            view=view,
            is_streaming=relation.is_streaming,
            mode=result_mode(relation),
            has_changes=relation.has_changes,
        )

    def _materialize(
        self, statement: CreateMaterializedTable | AlterMaterializedTable
    ) -> Materialize:
        query = statement.query
        assert query is not None
        freshness, streams, has_key = None, False, True
        if isinstance(statement, CreateMaterializedTable):
            freshness, has_key = statement.freshness_ms, bool(statement.key)
            streams = _is_continuous(statement)
        tree, relation = self._query(query, streams=streams)
        if relation.kind is not RowKind.INSERTS and not has_key:
            raise _needs_key(query.source, ".".join(statement.name), relation)
        view = self._steps.add_sql("rows", final_rows(tree, relation, relation.columns))
        return Materialize(
            statement=statement,
            view=view,
            is_streaming=relation.is_streaming,
            freshness_ms=freshness,
            mode=result_mode(relation),
            has_changes=relation.has_changes,
        )


def _is_continuous(statement: CreateMaterializedTable) -> bool:
    if statement.refresh_mode is not None:
        return statement.refresh_mode == "CONTINUOUS"
    freshness = statement.freshness_ms
    return freshness is None or freshness < _CONTINUOUS_MAX_MS


def _taken_limit(tree: exp.Expr) -> int | None:
    """Take a LIMIT out of the outermost query: the stream is stopped instead."""
    limit = tree.args.get("limit")
    expression = limit.args.get("expression") or limit.args.get("count") if limit else None
    if not isinstance(expression, exp.Literal) or not expression.name.isdigit():
        return None
    tree.set("limit", None)
    return int(expression.name)


def _writable(table: DeclaredTable) -> list[str]:
    return [
        each.name
        for each in table.columns
        if isinstance(each, PhysicalColumn) or getattr(each, "is_virtual", True) is False
    ]


def _check_overwrite(statement: InsertStatement, table: DeclaredTable) -> None:
    if not statement.is_overwrite:
        return
    if Ability.OVERWRITE not in table.abilities:
        raise fault(
            statement.source,
            f"{table.name} ('{table.connector}') cannot be overwritten.",
            hint="DELETE FROM it first, or write INSERT INTO.",
        )


def _overwriting_stream(source: SourceText) -> StatementError:
    return fault(
        source,
        "A stream cannot overwrite a table: it has no end.",
        hint="SET 'execution.runtime-mode' = 'batch'.",
    )


def _check_count(
    relation: Relation, targets: list[str], table: DeclaredTable, source: SourceText
) -> None:
    if relation.columns is None or len(relation.columns) == len(targets):
        return
    raise fault(
        source,
        f"The query has {len(relation.columns)} columns ({', '.join(relation.columns)}), and"
        f" {len(targets)} of {table.name} are written ({', '.join(targets)}).",
        hint=f"Name the columns: INSERT INTO {table.name.table} (a, b) SELECT a, b ….",
    )


def _needs_key(source: SourceText, what: str, relation: Relation) -> StatementError:
    return fault(
        source,
        f"{what} has no primary key, and the query gives {relation.kind.value}: a log keeps"
        " every row and cannot take one back.",
        hint="Declare PRIMARY KEY (…) NOT ENFORCED, aggregate by a window with a WATERMARK, or"
        " SET 'execution.runtime-mode' = 'batch'.",
    )


def _checked_mode(
    relation: Relation, table: DeclaredTable, targets: list[str], source: SourceText
) -> ResultMode:
    """The output mode of a write; raises if the sink cannot take the rows."""
    able = table.abilities
    if not able & {Ability.APPEND, Ability.UPSERT, Ability.PRINT_CHANGES}:
        raise fault(
            source, f"{table.name} ('{table.connector}') cannot be written.", hint="It is a source."
        )
    if relation.kind is RowKind.INSERTS or Ability.PRINT_CHANGES in able:
        return result_mode(relation)
    if Ability.UPSERT not in able or not table.key:
        raise _needs_key(source, str(table.name), relation)
    if relation.kind is RowKind.UPDATES:
        _check_result_key(relation, table, targets, source)
    return result_mode(relation)


def _check_result_key(
    relation: Relation, table: DeclaredTable, targets: list[str], source: SourceText
) -> None:
    """A result that changes must always have the same key in the sink."""
    if relation.columns is None:
        return
    outputs = dict(zip(targets, relation.columns, strict=False))
    stable = {*(relation.key or ()), *relation.constants}
    for column in table.key:
        if column in outputs and outputs[column] in stable:
            continue
        known = ", ".join(relation.key or ()) or "no column"
        raise fault(
            source,
            f"The key column '{column}' of {table.name} is not what the results are identified"
            f" by, which is {known}: when it changes, the old row would stay.",
            hint="Make the columns of GROUP BY (or PARTITION BY, with the row number) the key.",
        )
