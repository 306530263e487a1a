"""Parse what declares and changes tables: columns, keys, watermarks, options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from headwater.pipelines.sql.cursor import TokenCursor
from headwater.pipelines.sql.intervals import interval_ms
from headwater.pipelines.sql.statements import (
    AddTableColumns,
    AddTablePartition,
    AlterMaterializedTable,
    AlterTable,
    ComputedColumn,
    CreateMaterializedTable,
    CreateTable,
    Distribution,
    DropTableColumns,
    DropTablePartition,
    LikeClause,
    MaterializedChange,
    MetadataColumn,
    ModifyTableColumns,
    PhysicalColumn,
    PlacedColumn,
    RenameTable,
    RenameTableColumn,
    ResetTableOptions,
    SetTableOptions,
    SetTableWatermark,
    TableChange,
    TableColumn,
    TableDefinition,
    WatermarkClause,
)

_LIKE_RULES = ("INCLUDING", "EXCLUDING", "OVERWRITING")


@dataclass(slots=True)
class _Elements:
    """What stands in the parentheses of CREATE TABLE."""

    columns: list[TableColumn] = field(default_factory=list)
    key: tuple[str, ...] = ()
    watermark: WatermarkClause | None = None


def create_table(
    cursor: TokenCursor, *, is_temporary: bool = False, is_replacing: bool = False
) -> CreateTable:
    """Parse `CREATE TABLE`, after the word TABLE."""
    exists = cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a table")
    definition = _definition(cursor)
    query = None
    if cursor.takes("AS"):
        query = cursor.query()
    cursor.end()
    if query is None and not definition.columns and definition.like is None:
        raise cursor.wrong("Expected columns in parentheses, LIKE or AS SELECT")
    return CreateTable(
        source=cursor.source,
        name=name,
        definition=definition,
        query=query,
        is_temporary=is_temporary,
        if_not_exists=exists,
        is_replacing=is_replacing,
    )


def _definition(cursor: TokenCursor) -> TableDefinition:
    elements = _Elements()
    if cursor.takes("("):
        _element(cursor, elements)
        while cursor.takes(","):
            _element(cursor, elements)
        cursor.expect(")")
    definition = TableDefinition(
        columns=tuple(elements.columns), key=elements.key, watermark=elements.watermark
    )
    return _clauses(cursor, definition)


def _clauses(cursor: TokenCursor, definition: TableDefinition) -> TableDefinition:
    """Read the clauses after the columns, in any order."""
    readers: Mapping[tuple[str, ...], tuple[str, Callable[[TokenCursor], object]]] = {
        ("PARTITIONED", "BY"): ("partitioned_by", _names),
        ("DISTRIBUTED",): ("distribution", _distribution),
        ("WITH",): ("options", TokenCursor.options),
        ("LIKE",): ("like", _like),
    }
    while True:
        if cursor.sees("COMMENT"):
            definition = replace(definition, comment=cursor.comment())
            continue
        for words, (part, read) in readers.items():
            if cursor.takes(*words):
                definition = replace(definition, **{part: read(cursor)})  # type: ignore[arg-type]
                break
        else:
            return definition


def _names(cursor: TokenCursor) -> tuple[str, ...]:
    return cursor.listed(lambda: cursor.identifier("a column"))


def _distribution(cursor: TokenCursor) -> Distribution:
    columns: tuple[str, ...] = ()
    if cursor.takes("BY"):
        if cursor.takes("RANGE"):
            raise cursor.refused(
                "DISTRIBUTED BY RANGE is not supported.", hint="Write DISTRIBUTED BY HASH(column)."
            )
        cursor.takes("HASH")
        columns = _names(cursor)
    buckets = None
    if cursor.takes("INTO"):
        buckets = cursor.number()
        cursor.expect("BUCKETS")
    return Distribution(columns=columns, buckets=buckets)


def _like(cursor: TokenCursor) -> LikeClause:
    table = cursor.name("the name of a table")
    rules: list[tuple[str, str]] = []
    if cursor.takes("("):
        while not cursor.takes(")"):
            rule = cursor.word
            if rule not in _LIKE_RULES:
                raise cursor.wrong("Expected INCLUDING, EXCLUDING or OVERWRITING")
            cursor.advance()
            rules.append((rule, cursor.advance().text.upper()))
    return LikeClause(table=table, rules=tuple(rules))


# What stands between the parentheses.


def _element(cursor: TokenCursor, elements: _Elements) -> None:
    if cursor.sees("WATERMARK", "FOR"):
        if elements.watermark is not None:
            raise cursor.refused("A table has one watermark.", hint="Remove the second.")
        elements.watermark = _watermark(cursor)
    elif cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT"):
        _set_key(cursor, elements, _constraint(cursor))
    elif cursor.sees("UNIQUE", "("):
        raise cursor.refused(
            "UNIQUE is not supported.", hint="Write PRIMARY KEY (columns) NOT ENFORCED."
        )
    else:
        column, is_key = _column(cursor)
        elements.columns.append(column)
        if is_key:
            _set_key(cursor, elements, (column.name,))


def _set_key(cursor: TokenCursor, elements: _Elements, key: tuple[str, ...]) -> None:
    if elements.key:
        raise cursor.refused(
            "A table has one primary key.", hint="Write PRIMARY KEY (a, b) NOT ENFORCED once."
        )
    elements.key = key


def _constraint(cursor: TokenCursor) -> tuple[str, ...]:
    if cursor.takes("CONSTRAINT"):
        cursor.identifier("the name of the constraint")
    cursor.expect("PRIMARY", "KEY", hint="Only primary keys are supported.")
    columns = _names(cursor)
    _not_enforced(cursor)
    return columns


def _not_enforced(cursor: TokenCursor) -> None:
    if cursor.sees("ENFORCED"):
        raise cursor.refused(
            "A primary key cannot be ENFORCED: rows are written by key, and the last one wins.",
            hint="Write PRIMARY KEY (columns) NOT ENFORCED.",
        )
    cursor.expect("NOT", "ENFORCED", hint="Write PRIMARY KEY (columns) NOT ENFORCED.")


def _column(cursor: TokenCursor) -> tuple[TableColumn, bool]:
    """Read a column, and whether it is the primary key."""
    name = cursor.identifier("the name of a column")
    if cursor.takes("AS"):
        tokens = cursor.until("COMMENT", "FIRST", "AFTER")
        cursor.expression(tokens)
        text = cursor.text_of(tokens)
        return ComputedColumn(name=name, expression=text, comment=cursor.comment()), False
    kind = cursor.column_type()
    if cursor.takes("METADATA"):
        key = cursor.string("the key in single quotes") if cursor.takes("FROM") else name
        is_virtual = cursor.takes("VIRTUAL")
        comment = cursor.comment()
        return (
            MetadataColumn(name=name, type=kind, key=key, is_virtual=is_virtual, comment=comment),
            False,
        )
    is_key = _column_key(cursor)
    comment = cursor.comment()
    is_key = is_key or _column_key(cursor)
    return PhysicalColumn(name=name, type=kind, comment=comment), is_key


def _column_key(cursor: TokenCursor) -> bool:
    if cursor.sees("UNIQUE"):
        raise cursor.refused(
            "UNIQUE of a column is not supported.",
            hint="Write PRIMARY KEY (columns) NOT ENFORCED.",
        )
    if cursor.sees("DEFAULT"):
        raise cursor.refused(
            f"{cursor.word} of a column is not supported.",
            hint="Write the value in the INSERT, or COALESCE(column, value) in the SELECT.",
        )
    if cursor.takes("CONSTRAINT"):
        cursor.identifier()
    if not cursor.takes("PRIMARY", "KEY"):
        return False
    _not_enforced(cursor)
    return True


def _watermark(cursor: TokenCursor) -> WatermarkClause:
    cursor.expect("WATERMARK", "FOR")
    column = cursor.identifier("the time column")
    cursor.expect("AS")
    first = cursor.token
    tokens = cursor.until()
    delay = _delay_ms(cursor.expression(tokens), column)
    if delay is None:
        raise _strange_watermark(cursor, column, first)
    return WatermarkClause(column=column, expression=cursor.text_of(tokens), delay_ms=delay)


def _strange_watermark(cursor: TokenCursor, column: str, first: Token | None) -> Exception:
    return cursor.refused(
        "A watermark is a time column and a delay.",
        hint=f"Write WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND; compute anything"
        " else in a column of its own first.",
        at=first,
    )


def _delay_ms(tree: exp.Expr, column: str) -> int | None:
    if isinstance(tree, exp.Sub) and _is_column(tree.this, column):
        delay = interval_ms(tree.expression)
        return delay if delay is not None and delay >= 0 else None
    return 0 if _is_column(tree, column) else None


def _is_column(tree: exp.Expr, column: str) -> bool:
    return isinstance(tree, exp.Column) and tree.name == column


# ALTER TABLE.


def alter_table(cursor: TokenCursor) -> AlterTable:
    """Parse `ALTER TABLE`, after the word TABLE."""
    exists = cursor.takes("IF", "EXISTS")
    name = cursor.name("the name of a table")
    change = _change(cursor)
    cursor.end()
    return AlterTable(source=cursor.source, name=name, change=change, if_exists=exists)


def _change(cursor: TokenCursor) -> TableChange:
    readers: Mapping[str, Callable[[TokenCursor], TableChange]] = {
        "RENAME": _rename,
        "SET": lambda cursor: SetTableOptions(options=cursor.options()),
        "RESET": lambda cursor: ResetTableOptions(keys=cursor.listed(cursor.string)),
        "ADD": _add,
        "MODIFY": _modify,
        "DROP": _drop,
    }
    read = readers.get(cursor.word)
    if read is None:
        raise cursor.wrong("Expected RENAME, SET, RESET, ADD, MODIFY or DROP")
    cursor.advance()
    return read(cursor)


def _rename(cursor: TokenCursor) -> TableChange:
    if cursor.takes("TO"):
        return RenameTable(to=cursor.name("the new name"))
    column = cursor.identifier("a column")
    cursor.expect("TO")
    return RenameTableColumn(column=column, to=cursor.identifier("the new name"))


def _add(cursor: TokenCursor) -> TableChange:
    exists = cursor.takes("IF", "NOT", "EXISTS")
    if cursor.takes("PARTITION"):
        return AddTablePartition(values=cursor.partition(), if_not_exists=exists)
    if cursor.sees("WATERMARK", "FOR"):
        return SetTableWatermark(watermark=_watermark(cursor))
    cursor.takes("COLUMN")
    _refuse_key(cursor, "added")
    return AddTableColumns(columns=_placed_columns(cursor))


def _modify(cursor: TokenCursor) -> TableChange:
    if cursor.sees("WATERMARK", "FOR"):
        return SetTableWatermark(watermark=_watermark(cursor))
    _refuse_key(cursor, "changed")
    return ModifyTableColumns(columns=_placed_columns(cursor))


def _drop(cursor: TokenCursor) -> TableChange:
    exists = cursor.takes("IF", "EXISTS")
    if cursor.takes("PARTITION"):
        return DropTablePartition(values=cursor.partition(), if_exists=exists)
    if cursor.takes("WATERMARK"):
        return SetTableWatermark(watermark=None)
    cursor.takes("COLUMN")
    _refuse_key(cursor, "dropped")
    if cursor.sees("("):
        return DropTableColumns(columns=_names(cursor))
    return DropTableColumns(columns=(cursor.identifier("a column"),))


def _refuse_key(cursor: TokenCursor, verb: str) -> None:
    if cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT") or cursor.sees("DISTRIBUTION"):
        raise cursor.refused(
            f"The key and the buckets of a table cannot be {verb}: they decide where its rows are.",
            hint="Create a new table with them, and INSERT INTO it from this one.",
        )


def _placed_columns(cursor: TokenCursor) -> tuple[PlacedColumn, ...]:
    if cursor.sees("("):
        return cursor.listed(lambda: _placed_column(cursor))
    return (_placed_column(cursor),)


def _placed_column(cursor: TokenCursor) -> PlacedColumn:
    column, is_key = _column(cursor)
    if is_key:
        raise cursor.refused(
            "A new column cannot be the primary key.", hint="Create a new table with it."
        )
    if cursor.takes("FIRST"):
        return PlacedColumn(column=column, is_first=True)
    after = cursor.identifier("a column") if cursor.takes("AFTER") else None
    return PlacedColumn(column=column, after=after)


# Materialized tables.


def create_materialized_table(cursor: TokenCursor) -> CreateMaterializedTable:
    """Parse `CREATE MATERIALIZED TABLE`, after the word TABLE."""
    exists = cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a table")
    key: tuple[str, ...] = ()
    if cursor.takes("("):
        key = _constraint(cursor)
        cursor.expect(")", hint="Columns come from the query; only a primary key is declared.")
    definition = _clauses(cursor, TableDefinition(key=key))
    if definition.like is not None:
        raise cursor.refused("A materialized table cannot be LIKE another.", hint="Remove LIKE.")
    freshness = _freshness_ms(cursor)
    mode = _refresh_mode(cursor)
    cursor.expect("AS")
    query = cursor.query()
    return CreateMaterializedTable(
        source=cursor.source,
        name=name,
        query=query,
        key=key,
        comment=definition.comment,
        partitioned_by=definition.partitioned_by,
        distribution=definition.distribution,
        options=definition.options,
        freshness_ms=freshness,
        refresh_mode=mode,
        if_not_exists=exists,
    )


def _freshness_ms(cursor: TokenCursor) -> int | None:
    if not cursor.takes("FRESHNESS"):
        return None
    cursor.expect("=")
    first = cursor.token
    freshness = interval_ms(cursor.expression(cursor.until("REFRESH_MODE", "AS")))
    if freshness is None or freshness <= 0:
        raise cursor.refused(
            "FRESHNESS is an interval of days to seconds.",
            hint="Write FRESHNESS = INTERVAL '30' SECOND.",
            at=first,
        )
    return freshness


def _refresh_mode(cursor: TokenCursor) -> str | None:
    if not cursor.takes("REFRESH_MODE"):
        return None
    cursor.expect("=")
    if cursor.word not in ("CONTINUOUS", "FULL"):
        raise cursor.wrong("Expected CONTINUOUS or FULL")
    return cursor.advance().text.upper()


def alter_materialized_table(cursor: TokenCursor) -> AlterMaterializedTable:
    """Parse `ALTER MATERIALIZED TABLE`, after the word TABLE."""
    name = cursor.name("the name of a table")
    made = AlterMaterializedTable(
        source=cursor.source, name=name, change=MaterializedChange.SUSPEND
    )
    if cursor.takes("AS"):
        return replace(made, change=MaterializedChange.QUERY, query=cursor.query())
    changes = {each.upper(): each for each in ("suspend", "resume", "refresh")}
    if cursor.word not in changes:
        raise cursor.wrong("Expected SUSPEND, RESUME, REFRESH or AS")
    made = replace(made, change=MaterializedChange(changes[cursor.advance().text.upper()]))
    if made.change is MaterializedChange.RESUME and cursor.takes("WITH"):
        made = replace(made, options=cursor.options())
    if made.change is MaterializedChange.REFRESH and cursor.takes("PARTITION"):
        made = replace(made, partition=cursor.partition())
    cursor.end()
    return made
