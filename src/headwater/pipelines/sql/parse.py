"""Text to statements: what each statement begins with decides who reads it."""

from collections.abc import Callable, Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from headwater.pipelines.sql.cursor import TokenCursor
from headwater.pipelines.sql.faults import meant
from headwater.pipelines.sql.hints import option_hints
from headwater.pipelines.sql.script import ScriptPiece, split
from headwater.pipelines.sql.statements import (
    AlterDatabase,
    AlterView,
    ClearStatement,
    CreateCatalog,
    CreateDatabase,
    CreateView,
    DeleteStatement,
    DescribeStatement,
    DropCatalog,
    DropDatabase,
    DropMaterializedTable,
    DropTable,
    DropView,
    ExplainStatement,
    HelpStatement,
    InsertSetStatement,
    InsertStatement,
    ParsedQuery,
    QuitStatement,
    ResetSetting,
    SelectStatement,
    SetSetting,
    ShowKind,
    ShowStatement,
    Statement,
    StopJob,
    UpdateStatement,
    UseCatalog,
    UseDatabase,
)
from headwater.pipelines.sql.table_ddl import (
    alter_materialized_table,
    alter_table,
    create_materialized_table,
    create_table,
)

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_FUNCTION_HINT = (
    "Register it in Python with spark.udf.register('name', function) on the session that runs the"
    " script, and call it by that name."
)
_REFUSED = {
    "CREATE FUNCTION": _FUNCTION_HINT,
    "DROP FUNCTION": _FUNCTION_HINT,
    "ALTER FUNCTION": _FUNCTION_HINT,
    "ADD": "There are no jars: add Python packages to the environment of Spark's workers.",
    "REMOVE": "There are no jars to remove.",
    "LOAD": "There are no modules: Spark's functions are always there.",
    "UNLOAD": "There are no modules: Spark's functions are always there.",
    "CALL": "Use the `headwater` command or the Python API instead of a procedure.",
    "ANALYZE": "Statistics come from the storage; nothing has to be collected.",
    "MERGE": "INSERT INTO a table with a primary key updates the rows that are there.",
    "COMPILE": "Run the statement itself: a job goes on from its checkpoint, without a plan file.",
    "CREATE MODEL": "Call the model in a Python function that is registered with Spark.",
}


def parse(text: str) -> tuple[Statement, ...]:
    """Parse all statements of a script; the first wrong one is raised as a `StatementError`."""
    return tuple(parse_piece(each) for each in split(text))


def parse_piece(piece: ScriptPiece) -> Statement:
    """Parse one statement."""
    cursor = TokenCursor(piece)
    word = cursor.word
    read = _READERS.get(word)
    if read is None:
        if word in _REFUSED:
            raise cursor.refused(f"{word} is not supported.", hint=_REFUSED[word])
        raise cursor.wrong("Expected a statement", hint=meant(word, _READERS))
    return read(cursor)


def _select(cursor: TokenCursor) -> Statement:
    return SelectStatement(source=cursor.source, query=cursor.query())


# Rows.


def _insert(cursor: TokenCursor) -> InsertStatement:
    cursor.expect("INSERT")
    is_overwrite = cursor.takes("OVERWRITE")
    if is_overwrite:
        cursor.takes("TABLE")
    else:
        cursor.expect("INTO")
        cursor.takes("TABLE")
    name = cursor.name("the name of a table")
    hints = _hints(cursor)
    partition = _insert_partition(cursor) if cursor.takes("PARTITION") else {}
    columns = _insert_columns(cursor)
    return InsertStatement(
        source=cursor.source,
        table=name,
        query=cursor.query(),
        columns=columns,
        partition=partition,
        hints=hints,
        is_overwrite=is_overwrite,
    )


def _hints(cursor: TokenCursor) -> dict[str, str]:
    token = cursor.token
    if token is None or token.token_type != TokenType.HINT:
        return {}
    cursor.advance()
    return option_hints(token.text, cursor.source_of([token]))


def _insert_partition(cursor: TokenCursor) -> dict[str, str | None]:
    return dict(cursor.listed(lambda: _partition_value(cursor)))


def _partition_value(cursor: TokenCursor) -> tuple[str, str | None]:
    name = cursor.identifier("a partition column")
    if not cursor.takes("="):
        return name, None
    return name, cursor.text_of(cursor.until())


def _insert_columns(cursor: TokenCursor) -> tuple[str, ...]:
    """Read a list of columns; a query may begin with a parenthesis as well."""
    is_query = any(cursor.sees("(", word) for word in ("SELECT", "WITH", "VALUES", "("))
    if not cursor.sees("(") or is_query:
        return ()
    return cursor.listed(lambda: cursor.identifier("a column"))


def _execute(cursor: TokenCursor) -> Statement:
    cursor.expect("EXECUTE")
    if cursor.sees("STATEMENT", "SET"):
        return _statement_set(cursor)
    if cursor.sees("INSERT"):
        return parse_piece(cursor.rest())
    raise cursor.wrong("Expected STATEMENT SET BEGIN … END")


def _statement_set(cursor: TokenCursor) -> InsertSetStatement:
    is_old = cursor.takes("BEGIN")
    cursor.expect("STATEMENT", "SET")
    cursor.expect(";" if is_old else "BEGIN")
    inserts: list[InsertStatement] = []
    while not cursor.takes("END"):
        if not cursor.sees("INSERT"):
            raise cursor.wrong("Expected INSERT INTO, or END")
        inserts.append(_insert(TokenCursor(_until_semicolon(cursor))))
    cursor.end()
    if not inserts:
        raise cursor.at("The statement set is empty.", 0, "Write INSERT INTO … between them.")
    return InsertSetStatement(source=cursor.source, inserts=tuple(inserts))


def _until_semicolon(cursor: TokenCursor) -> ScriptPiece:
    tokens = []
    while not cursor.takes(";"):
        if cursor.is_at_end:
            raise cursor.wrong("Expected ';' after the INSERT, then END")
        tokens.append(cursor.advance())
    return ScriptPiece(cursor.source_of(tokens), tokens)


def _update(cursor: TokenCursor) -> Statement:
    cursor.expect("UPDATE")
    name = cursor.name("the name of a table")
    cursor.expect("SET")
    assignments = [_assignment(cursor)]
    while cursor.takes(","):
        assignments.append(_assignment(cursor))
    condition = cursor.expression(cursor.until()) if cursor.takes("WHERE") else None
    cursor.end()
    return UpdateStatement(
        source=cursor.source, table=name, assignments=tuple(assignments), condition=condition
    )


def _assignment(cursor: TokenCursor) -> tuple[str, exp.Expr]:
    column = cursor.identifier("a column")
    cursor.expect("=")
    return column, cursor.expression(cursor.until("WHERE"))


def _delete(cursor: TokenCursor) -> Statement:
    cursor.expect("DELETE", "FROM")
    name = cursor.name("the name of a table")
    condition = cursor.expression(cursor.until()) if cursor.takes("WHERE") else None
    cursor.end()
    return DeleteStatement(source=cursor.source, table=name, condition=condition)


def _truncate(cursor: TokenCursor) -> Statement:
    cursor.expect("TRUNCATE", "TABLE")
    name = cursor.name("the name of a table")
    cursor.end()
    return DeleteStatement(source=cursor.source, table=name)


# What CREATE, DROP, ALTER and USE are about.


def _create(cursor: TokenCursor) -> Statement:
    cursor.expect("CREATE")
    is_replacing = cursor.takes("OR", "REPLACE")
    is_temporary = cursor.takes("TEMPORARY")
    if cursor.takes("SYSTEM") or cursor.sees("FUNCTION") or cursor.sees("MODEL"):
        word = "MODEL" if cursor.sees("MODEL") else "FUNCTION"
        raise cursor.refused(f"CREATE {word} is not supported.", hint=_REFUSED[f"CREATE {word}"])
    if cursor.takes("TABLE"):
        return create_table(cursor, is_temporary=is_temporary, is_replacing=is_replacing)
    if cursor.takes("VIEW"):
        return _create_view(cursor, is_temporary=is_temporary, is_replacing=is_replacing)
    if cursor.takes("MATERIALIZED", "TABLE"):
        return create_materialized_table(cursor)
    if cursor.takes("CATALOG"):
        return _create_catalog(cursor)
    if cursor.takes("DATABASE"):
        return _create_database(cursor)
    raise cursor.wrong("Expected TABLE, VIEW, MATERIALIZED TABLE, CATALOG or DATABASE")


def _create_view(cursor: TokenCursor, *, is_temporary: bool, is_replacing: bool) -> CreateView:
    exists = cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a view")
    columns = cursor.listed(lambda: _view_column(cursor)) if cursor.sees("(") else ()
    comment = cursor.comment()
    cursor.expect("AS")
    return CreateView(
        source=cursor.source,
        name=name,
        query=cursor.query(),
        columns=columns,
        comment=comment,
        is_temporary=is_temporary,
        if_not_exists=exists,
        is_replacing=is_replacing,
    )


def _view_column(cursor: TokenCursor) -> str:
    name = cursor.identifier("a column")
    cursor.comment()
    return name


def _create_catalog(cursor: TokenCursor) -> CreateCatalog:
    exists = cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.identifier("the name of a catalog")
    comment = cursor.comment()
    cursor.expect("WITH", hint="Write WITH ('type' = 'fluss', 'bootstrap.servers' = '…').")
    options = cursor.options()
    cursor.end()
    return CreateCatalog(
        source=cursor.source, name=name, options=options, comment=comment, if_not_exists=exists
    )


def _create_database(cursor: TokenCursor) -> CreateDatabase:
    exists = cursor.takes("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a database")
    comment = cursor.comment()
    options = cursor.options() if cursor.takes("WITH") else {}
    cursor.end()
    return CreateDatabase(
        source=cursor.source, name=name, comment=comment, options=options, if_not_exists=exists
    )


def _drop(cursor: TokenCursor) -> Statement:
    cursor.expect("DROP")
    is_temporary = cursor.takes("TEMPORARY")
    if cursor.takes("SYSTEM") or cursor.sees("FUNCTION"):
        raise cursor.refused("DROP FUNCTION is not supported.", hint=_FUNCTION_HINT)
    kind = _dropped(cursor)
    exists = cursor.takes("IF", "EXISTS")
    name = cursor.name("a name")
    is_cascade = kind == "DATABASE" and cursor.takes("CASCADE")
    if kind == "DATABASE":
        cursor.takes("RESTRICT")
    cursor.end()
    source = cursor.source
    match kind:
        case "TABLE":
            return DropTable(source=source, name=name, is_temporary=is_temporary, if_exists=exists)
        case "VIEW":
            return DropView(source=source, name=name, is_temporary=is_temporary, if_exists=exists)
        case "MATERIALIZED TABLE":
            return DropMaterializedTable(source=source, name=name, if_exists=exists)
        case "CATALOG":
            return DropCatalog(source=source, name=name[-1], if_exists=exists)
        case _:
            return DropDatabase(source=source, name=name, if_exists=exists, is_cascade=is_cascade)


def _dropped(cursor: TokenCursor) -> str:
    for kind in ("TABLE", "VIEW", "MATERIALIZED TABLE", "CATALOG", "DATABASE"):
        if cursor.takes(*kind.split()):
            return kind
    raise cursor.wrong("Expected TABLE, VIEW, MATERIALIZED TABLE, CATALOG or DATABASE")


def _alter(cursor: TokenCursor) -> Statement:
    cursor.expect("ALTER")
    if cursor.takes("TABLE"):
        return alter_table(cursor)
    if cursor.takes("MATERIALIZED", "TABLE"):
        return alter_materialized_table(cursor)
    if cursor.takes("VIEW"):
        return _alter_view(cursor)
    if cursor.takes("DATABASE"):
        name = cursor.name("the name of a database")
        cursor.expect("SET")
        options = cursor.options()
        cursor.end()
        return AlterDatabase(source=cursor.source, name=name, options=options)
    if cursor.sees("FUNCTION"):
        raise cursor.refused("ALTER FUNCTION is not supported.", hint=_FUNCTION_HINT)
    raise cursor.wrong("Expected TABLE, VIEW, MATERIALIZED TABLE or DATABASE")


def _alter_view(cursor: TokenCursor) -> AlterView:
    name = cursor.name("the name of a view")
    if cursor.takes("RENAME", "TO"):
        new_name = cursor.name("the new name")
        cursor.end()
        return AlterView(source=cursor.source, name=name, new_name=new_name)
    cursor.expect("AS")
    return AlterView(source=cursor.source, name=name, query=cursor.query())


def _use(cursor: TokenCursor) -> Statement:
    cursor.expect("USE")
    if cursor.sees("MODULES"):
        raise cursor.refused("USE MODULES is not supported.", hint=_REFUSED["LOAD"])
    if cursor.takes("CATALOG"):
        catalog = cursor.identifier("the name of a catalog")
        cursor.end()
        return UseCatalog(source=cursor.source, name=catalog)
    name = cursor.name("the name of a database")
    cursor.end()
    return UseDatabase(source=cursor.source, name=name)


# Settings, lists and jobs.


def _set(cursor: TokenCursor) -> Statement:
    cursor.expect("SET")
    if cursor.is_at_end:
        return ShowStatement(source=cursor.source, kind=ShowKind.SETTINGS)
    key = _setting_key(cursor)
    cursor.expect("=")
    tokens = cursor.rest().tokens
    is_text = len(tokens) == 1 and tokens[0].token_type == TokenType.STRING
    value = tokens[0].text if is_text else cursor.text_of(tokens)
    return SetSetting(source=cursor.source, key=key, value=value)


def _setting_key(cursor: TokenCursor) -> str:
    """Read a key in quotes, or bare, where it may have dots and hyphens in it."""
    token = cursor.advance()
    if token.token_type == TokenType.STRING:
        return token.text
    tokens = [token]
    while not cursor.is_at_end and not cursor.sees("="):
        tokens.append(cursor.advance())
    return cursor.text_of(tokens)


def _reset(cursor: TokenCursor) -> Statement:
    cursor.expect("RESET")
    key = None if cursor.is_at_end else _setting_key(cursor)
    cursor.end()
    return ResetSetting(source=cursor.source, key=key)


_SHOWN: Mapping[str, ShowKind] = {
    each.value.upper(): each for each in ShowKind if each is not ShowKind.SETTINGS
}
_OF_ONE = (ShowKind.CREATE_TABLE, ShowKind.CREATE_VIEW, ShowKind.CREATE_CATALOG)


def _show(cursor: TokenCursor) -> Statement:
    cursor.expect("SHOW")
    kind = _shown(cursor)
    name: tuple[str, ...] = ()
    if (
        kind in _OF_ONE
        or (kind is ShowKind.PARTITIONS and not cursor.is_at_end)
        or cursor.takes("FROM")
        or cursor.takes("IN")
    ):
        name = cursor.name("a name")
    partition = cursor.partition() if cursor.takes("PARTITION") else {}
    is_not = cursor.takes("NOT")
    ignores_case = cursor.takes("ILIKE")
    pattern = cursor.string() if ignores_case or cursor.takes("LIKE") else None
    cursor.end()
    return ShowStatement(
        source=cursor.source,
        kind=kind,
        name=name,
        pattern=pattern,
        is_not=is_not,
        ignores_case=ignores_case,
        partition=partition,
    )


def _shown(cursor: TokenCursor) -> ShowKind:
    if cursor.takes("CREATE", "MATERIALIZED", "TABLE"):
        return ShowKind.CREATE_TABLE
    cursor.takes("USER") or cursor.takes("FULL")
    for words, kind in _SHOWN.items():
        if cursor.takes(*words.split()):
            return kind
    raise cursor.wrong(
        "Expected something to show",
        hint=meant(cursor.word, _SHOWN) or f"Write {', '.join(_SHOWN)}.",
    )


def _describe(cursor: TokenCursor) -> Statement:
    cursor.advance()
    what = "table"
    for kind in ("CATALOG", "DATABASE", "JOB", "MATERIALIZED TABLE", "TABLE"):
        if cursor.takes(*kind.split()):
            what = "table" if kind.endswith("TABLE") else kind.lower()
            break
    is_extended = cursor.takes("EXTENDED")
    token = cursor.token
    is_text = token is not None and token.token_type == TokenType.STRING
    name = (cursor.string(),) if is_text else cursor.name("a name")
    cursor.end()
    return DescribeStatement(source=cursor.source, name=name, what=what, is_extended=is_extended)


def _stop(cursor: TokenCursor) -> Statement:
    cursor.expect("STOP", "JOB")
    job = cursor.string("the id or name of a job in single quotes")
    if cursor.sees("WITH", "SAVEPOINT"):
        raise cursor.refused(
            "Savepoints are not supported.",
            hint="A job keeps its checkpoint when it is stopped, and goes on from there.",
        )
    is_drain = cursor.takes("WITH", "DRAIN")
    cursor.end()
    return StopJob(source=cursor.source, job=job, is_drain=is_drain)


def _explain(cursor: TokenCursor) -> Statement:
    cursor.expect("EXPLAIN")
    cursor.takes("PLAN", "FOR")
    details: list[str] = []
    while cursor.word in _DETAILS:
        details.append(cursor.advance().text.upper())
        cursor.takes(",")
    if cursor.sees("STATEMENT", "SET"):
        inner: Statement = _statement_set(TokenCursor(cursor.rest()))
    else:
        inner = parse_piece(cursor.rest())
    if isinstance(inner, ExplainStatement):
        raise cursor.at("EXPLAIN of EXPLAIN is not supported.", 0, "Write EXPLAIN once.")
    return ExplainStatement(source=cursor.source, statement=inner, details=tuple(details))


def _quit(cursor: TokenCursor) -> Statement:
    cursor.advance()
    cursor.end()
    return QuitStatement(source=cursor.source)


def _help(cursor: TokenCursor) -> Statement:
    cursor.advance()
    cursor.end()
    return HelpStatement(source=cursor.source)


def _clear(cursor: TokenCursor) -> Statement:
    cursor.advance()
    cursor.end()
    return ClearStatement(source=cursor.source)


_READERS: Mapping[str, Callable[[TokenCursor], Statement]] = {
    "SELECT": _select,
    "WITH": _select,
    "VALUES": _select,
    "(": _select,
    "INSERT": _insert,
    "EXECUTE": _execute,
    "BEGIN": _statement_set,
    "UPDATE": _update,
    "DELETE": _delete,
    "TRUNCATE": _truncate,
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "USE": _use,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "STOP": _stop,
    "EXPLAIN": _explain,
    "QUIT": _quit,
    "EXIT": _quit,
    "HELP": _help,
    "CLEAR": _clear,
}


def parse_query(text: str) -> ParsedQuery:
    """Parse a text that is one query, such as that of a view."""
    (piece,) = split(text)
    return TokenCursor(piece).query()
