"""Do what statements about catalogs, databases, tables, views and settings say."""

from dataclasses import replace

from headwater.errors import DatabaseMissingError, MissingError, TableExistsError, UnsupportedError
from headwater.pipelines.catalogs.memory import altered
from headwater.pipelines.results import Told
from headwater.pipelines.sql import statements
from headwater.pipelines.sql.names import DeclaredView, TableName
from headwater.pipelines.state import SessionState
from headwater.pipelines.tables import declared, missing_database, with_like

OfCatalogs = (
    statements.CreateCatalog
    | statements.DropCatalog
    | statements.UseCatalog
    | statements.UseDatabase
    | statements.CreateDatabase
    | statements.DropDatabase
    | statements.AlterDatabase
    | statements.SetSetting
    | statements.ResetSetting
)
OfTables = (
    statements.CreateTable
    | statements.AlterTable
    | statements.DropTable
    | statements.CreateView
    | statements.AlterView
    | statements.DropView
)


def define(state: SessionState, statement: OfCatalogs | OfTables) -> Told:
    """Do what a statement says, and tell it in one sentence."""
    match statement:
        case (
            statements.CreateTable()
            | statements.AlterTable()
            | statements.DropTable()
            | statements.CreateView()
            | statements.AlterView()
            | statements.DropView()
        ):
            return Told(_of_table(state, statement))
        case statements.SetSetting(key=key, value=value):
            state.settings.set(key, value)
            return Told(f"Set '{key}' to '{value}'.")
        case statements.ResetSetting(key=key):
            state.settings.reset(key)
            return Told("Reset all settings." if key is None else f"Reset '{key}'.")
        case statements.CreateDatabase() | statements.DropDatabase() | statements.AlterDatabase():
            return Told(_of_database(state, statement))
        case _:
            return Told(_of_catalog(state, statement))


def _of_catalog(
    state: SessionState,
    statement: statements.CreateCatalog
    | statements.DropCatalog
    | statements.UseCatalog
    | statements.UseDatabase,
) -> str:
    match statement:
        case statements.CreateCatalog(name=name, options=options, if_not_exists=if_not_exists):
            is_new = state.create_catalog(name, options, if_not_exists=if_not_exists)
            return f"Created catalog {name}." if is_new else f"The catalog {name} exists already."
        case statements.DropCatalog(name=name, if_exists=if_exists):
            was_there = state.drop_catalog(name, if_exists=if_exists)
            return f"Dropped catalog {name}." if was_there else f"There is no catalog {name}."
        case statements.UseCatalog(name=name):
            state.use_catalog(name)
            return f"Using catalog {name}."
        case statements.UseDatabase(name=name):
            state.use_database(name)
            return f"Using database {state.catalog}.{state.database}."


def _of_database(
    state: SessionState,
    statement: statements.CreateDatabase | statements.DropDatabase | statements.AlterDatabase,
) -> str:
    catalog_name, name = state.place(statement.name)
    catalog = state.the_catalog(catalog_name)
    exists = name in catalog.databases()
    full = f"{catalog_name}.{name}"
    match statement:
        case statements.CreateDatabase(if_not_exists=True) if exists:
            return f"The database {full} exists already."
        case statements.CreateDatabase(comment=comment, options=options):
            catalog.create_database(name, comment=comment, options=options)
            return f"Created database {full}."
        case statements.DropDatabase(if_exists=True) if not exists:
            return f"There is no database {full}."
        case _ if not exists:
            raise DatabaseMissingError(
                f"There is no database '{full}'.", hint=missing_database(name, ()).hint
            )
        case statements.DropDatabase(is_cascade=is_cascade):
            catalog.drop_database(name, is_cascade=is_cascade)
            return f"Dropped database {full}."
        case statements.AlterDatabase():
            raise UnsupportedError(
                f"The options of the database {full} cannot be changed.",
                hint="Create another database.",
            )


def _of_table(state: SessionState, statement: OfTables) -> str:
    name = state.full(statement.name)
    match statement:
        case statements.CreateTable():
            return create_table(state, statement, statement.definition)
        case statements.AlterTable():
            return _alter_table(state, name, statement)
        case statements.DropTable():
            return _drop_table(state, name, statement)
        case statements.CreateView():
            return _create_view(state, name, statement)
        case statements.AlterView():
            return _alter_view(state, name, statement)
        case statements.DropView():
            return _drop_view(state, name, statement)


# Tables.


def create_table(
    state: SessionState, statement: statements.CreateTable, definition: statements.TableDefinition
) -> str:
    """Create a table, in its catalog or for this session."""
    name = state.full(statement.name)
    if statement.is_replacing:
        raise UnsupportedError(
            f"{name} cannot be replaced.", hint="Write DROP TABLE IF EXISTS, then CREATE TABLE."
        )
    if definition.like is not None:
        base = state.table(state.full(definition.like.table))
        definition = with_like(definition, definition.like, base)
    if is_there(state, name, is_temporary=statement.is_temporary):
        if statement.if_not_exists:
            return f"The table {name} exists already."
        raise TableExistsError(f"{name} already exists.", hint="Write CREATE TABLE IF NOT EXISTS.")
    if statement.is_temporary:
        state.put_temporary(name, definition)
        return f"Created temporary table {name}."
    state.the_catalog(name.catalog).create_table(name, definition)
    return f"Created table {name}."


def is_there(state: SessionState, name: TableName, *, is_temporary: bool) -> bool:
    """Tell whether a name is taken, for this session or in its catalog."""
    if is_temporary:
        return name in state.temporary
    return state.the_catalog(name.catalog).find(name) is not None


def _alter_table(state: SessionState, name: TableName, statement: statements.AlterTable) -> str:
    if statement.if_exists and state.find(name) is None:
        return f"There is no table {name}."
    table = state.table(name)
    held = state.temporary.get(name)
    change = statement.change
    if not isinstance(held, statements.TableDefinition):
        state.the_catalog(name.catalog).alter_table(table, change)
    elif isinstance(change, statements.RenameTable):
        state.put_temporary(state.full(change.to), held)
        del state.temporary[name]
    else:
        changed = altered(held, table, change)
        declared(name, changed)
        state.temporary[name] = changed
    return f"Altered table {name}."


def _drop_table(state: SessionState, name: TableName, statement: statements.DropTable) -> str:
    held = state.temporary.get(name)
    if isinstance(held, statements.TableDefinition):
        del state.temporary[name]
        return f"Dropped temporary table {name}."
    if statement.is_temporary or state.find(name) is None:
        if statement.if_exists:
            return f"There is no table {name}."
        kind = "temporary table" if statement.is_temporary else "table"
        raise MissingError(f"There is no {kind} {name}.", hint="Write DROP TABLE IF EXISTS.")
    state.table(name)
    state.the_catalog(name.catalog).drop_table(name)
    state.materialized.discard(name)
    return f"Dropped table {name}."


# Views.


def _create_view(state: SessionState, name: TableName, statement: statements.CreateView) -> str:
    if is_there(state, name, is_temporary=statement.is_temporary) and not statement.is_replacing:
        if statement.if_not_exists:
            return f"The view {name} exists already."
        raise TableExistsError(f"{name} already exists.", hint="Write CREATE OR REPLACE VIEW.")
    view = _view(state, name, statement.query, statement.columns)
    if statement.is_temporary:
        state.put_temporary(name, view, replaces=True)
        return f"Created temporary view {name}."
    state.the_catalog(name.catalog).put_view(view)
    return f"Created view {name}."


def _view(
    state: SessionState,
    name: TableName,
    query: statements.ParsedQuery,
    columns: tuple[str, ...] = (),
) -> DeclaredView:
    return DeclaredView(
        name=name,
        query=query.source.text,
        columns=columns,
        catalog=state.catalog,
        database=state.database,
    )


def _alter_view(state: SessionState, name: TableName, statement: statements.AlterView) -> str:
    found = state.find(name)
    if not isinstance(found, DeclaredView):
        raise MissingError(f"There is no view {name}.")
    is_temporary = name in state.temporary
    if statement.query is not None:
        changed = _view(state, name, statement.query)
    else:
        assert statement.new_name is not None
        changed = replace(found, name=state.full(statement.new_name))
    if is_temporary:
        del state.temporary[name]
        state.put_temporary(changed.name, changed)
    else:
        catalog = state.the_catalog(name.catalog)
        catalog.drop_view(name)
        catalog.put_view(changed)
    return f"Altered view {name}."


def _drop_view(state: SessionState, name: TableName, statement: statements.DropView) -> str:
    if isinstance(state.temporary.get(name), DeclaredView):
        del state.temporary[name]
        return f"Dropped temporary view {name}."
    if statement.is_temporary or not isinstance(state.find(name), DeclaredView):
        if statement.if_exists:
            return f"There is no view {name}."
        raise MissingError(f"There is no view {name}.", hint="Write DROP VIEW IF EXISTS.")
    state.the_catalog(name.catalog).drop_view(name)
    return f"Dropped view {name}."
