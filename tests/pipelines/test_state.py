"""What a session knows: catalogs, names, temporary tables, settings; and what SHOW says of it."""

from dataclasses import replace

import pytest

from headwater.errors import (
    ConflictError,
    InvalidOptionError,
    InvalidTableError,
    MissingError,
    TableExistsError,
)
from headwater.pipelines.definitions import define
from headwater.pipelines.settings import SessionSettings
from headwater.pipelines.show import pattern_filter
from headwater.pipelines.sql.names import Ability, TableName
from headwater.pipelines.sql.statements import (
    AddTableColumns,
    AlterTable,
    ComputedColumn,
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    LikeClause,
    MetadataColumn,
    PlacedColumn,
    RenameTableColumn,
    ResetTableOptions,
    SetTableOptions,
    ShowKind,
    ShowStatement,
    TableDefinition,
    UseCatalog,
    UseDatabase,
    WatermarkClause,
)
from headwater.pipelines.state import SessionState
from headwater.pipelines.tables import create_text, with_like
from tests.cases import cases
from tests.pipelines.planned import column, table, text

SOURCE = text("…")
DATAGEN = {"connector": "datagen", "rows-per-second": "5"}
DEFINITION = TableDefinition(columns=(column("id"), column("item", "STRING")), options=DATAGEN)
HERE = ("default_catalog", "default_database")


class Conf(dict):
    """The settings of a Spark session."""

    set = dict.__setitem__
    unset = dict.__delitem__


class Session:
    """As much of a Spark session as settings need."""

    def __init__(self):
        self.conf = Conf({"spark.sql.session.timeZone": "UTC"})


@pytest.fixture
def state():
    spark = Session()
    return SessionState(spark, SessionSettings(spark))


def create(state, name="t", definition=DEFINITION, **fields):
    statement = CreateTable(source=SOURCE, name=(name,), definition=definition, **fields)
    return define(state, statement).text


def test_a_session_begins_in_the_default_catalog(state):
    assert (state.catalog, state.database) == HERE


def test_a_temporary_table_hides_one_of_the_catalog(state):
    create(state)
    other = replace(DEFINITION, columns=(column("other"),))
    create(state, definition=other, is_temporary=True)

    found = state.find(TableName(*HERE, "t"))
    assert [each.name for each in found.columns] == ["other"]

    define(state, DropTable(source=SOURCE, name=("t",), is_temporary=True))
    assert len(state.find(TableName(*HERE, "t")).columns) == 2


def test_a_table_is_created_once_unless_that_is_allowed(state):
    create(state)

    with pytest.raises(TableExistsError):
        create(state)
    assert "already" in create(state, if_not_exists=True)


def test_a_table_of_memory_needs_a_connector_whose_options_fit(state):
    with pytest.raises(InvalidTableError, match="connector"):
        create(state, definition=replace(DEFINITION, options={}))
    with pytest.raises(InvalidOptionError, match="rows-per-second"):
        create(state, definition=replace(DEFINITION, options={**DATAGEN, "rows-per-secnd": "5"}))


def test_what_a_table_can_do_is_what_its_connector_can(state):
    create(state)
    create(state, "p", replace(DEFINITION, options={"connector": "print"}))

    made, printed = (state.table(TableName(*HERE, name)) for name in ("t", "p"))

    assert made.abilities == {Ability.BATCH_READ, Ability.STREAM_READ}
    assert printed.abilities == {Ability.APPEND, Ability.PRINT_CHANGES}
    assert made.hint_options is None
    assert printed.hint_options == {"print-identifier", "standard-error"}


def test_a_table_that_does_not_exist_is_refused_with_the_nearest(state):
    create(state, "orders")

    with pytest.raises(MissingError, match="'orders'"):
        state.table(TableName(*HERE, "ordres"))


def test_names_are_completed_with_where_the_session_is(state):
    options = {"type": "generic_in_memory", "default-database": "first"}
    define(state, CreateCatalog(source=SOURCE, name="mine", options=options))
    define(state, UseCatalog(source=SOURCE, name="mine"))
    define(state, CreateDatabase(source=SOURCE, name=("second",)))
    define(state, UseDatabase(source=SOURCE, name=("second",)))

    assert str(state.full(("t",))) == "mine.second.t"
    assert str(state.full(("first", "t"))) == "mine.first.t"


def test_a_catalog_of_an_unknown_type_is_refused_with_the_types(state):
    with pytest.raises(InvalidOptionError, match=r"'flus'.*fluss"):
        define(state, CreateCatalog(source=SOURCE, name="x", options={"type": "flus"}))


def test_a_database_with_tables_is_dropped_only_with_them(state):
    define(state, CreateDatabase(source=SOURCE, name=("d",)))
    define(state, UseDatabase(source=SOURCE, name=("d",)))
    create(state)

    with pytest.raises(ConflictError, match="CASCADE"):
        define(state, DropDatabase(source=SOURCE, name=("d",)))
    assert (
        "Dropped" in define(state, DropDatabase(source=SOURCE, name=("d",), is_cascade=True)).text
    )


@cases(
    "change, names, options",
    [
        (SetTableOptions(options={"rows-per-second": "9"}), ["id", "item"], {"9"}),
        (ResetTableOptions(keys=("rows-per-second",)), ["id", "item"], set()),
        (RenameTableColumn(column="id", to="key"), ["key", "item"], {"5"}),
        (
            AddTableColumns(columns=(PlacedColumn(column=column("x"), after="id"),)),
            ["id", "x", "item"],
            {"5"},
        ),
    ],
)
def test_a_table_is_changed(change, names, options):
    spark = Session()
    state = SessionState(spark, SessionSettings(spark))
    create(state)

    define(state, AlterTable(source=SOURCE, name=("t",), change=change))

    found = state.table(TableName(*HERE, "t"))
    assert [each.name for each in found.columns] == names
    assert set(found.options.values()) == options


# LIKE and SHOW.


def test_a_table_like_another_takes_over_all_that_it_does_not_exclude():
    base = table(key=("id",), options={"path": "a", "format": "json"}, connector="filesystem")
    like = LikeClause(table=("base",), rules=(("EXCLUDING", "CONSTRAINTS"),))
    definition = TableDefinition(columns=(column("x"),), options={"path": "b"}, like=like)

    made = with_like(definition, like, base)

    assert [each.name for each in made.columns] == ["id", "item", "x"]
    assert made.key == ()
    assert made.options == {"connector": "filesystem", "path": "b", "format": "json"}


def test_a_table_is_shown_as_it_would_be_created():
    shown = create_text(
        table(
            columns=(
                column("id", "BIGINT NOT NULL"),
                ComputedColumn(name="later", expression="`id` + 1"),
                MetadataColumn(name="file", type=column("x", "STRING").type, key="file.path"),
            ),
            key=("id",),
            watermark=WatermarkClause(column="at", expression="`at`", delay_ms=0),
        ),
        {"connector": "it's"},
    )

    assert shown == (
        "CREATE TABLE `c`.`d`.`t` (\n  `id` BIGINT NOT NULL,\n  `later` AS `id` + 1,\n"
        "  `file` STRING METADATA FROM 'file.path',\n  WATERMARK FOR `at` AS `at`,\n"
        "  PRIMARY KEY (`id`) NOT ENFORCED\n)\nWITH (\n  'connector' = 'it''s'\n)\n"
    )


@cases(
    "pattern, is_not, ignores_case, found",
    [
        ("or%", False, False, ["orders"]),
        ("OR%", False, True, ["orders"]),
        ("OR%", False, False, []),
        ("o%", True, False, ["items", "a.b"]),
        ("a_b", False, False, ["a.b"]),
    ],
)
def test_names_are_shown_by_pattern(pattern, is_not, ignores_case, found):
    statement = ShowStatement(
        source=SOURCE,
        kind=ShowKind.TABLES,
        pattern=pattern,
        is_not=is_not,
        ignores_case=ignores_case,
    )

    assert pattern_filter(statement, ["orders", "items", "a.b"]) == found


# Settings.


def test_settings_of_spark_get_there_and_others_are_kept(state):
    state.settings.set("spark.sql.shuffle.partitions", "3")
    state.settings.set("restart-strategy", "none")
    state.settings.set("execution.checkpointing.dir", "here")

    assert state.spark.conf["spark.sql.shuffle.partitions"] == "3"
    assert state.setting("restart-strategy") == "none"
    assert state.setting("state.checkpoints.dir") == "here"


def test_a_wrong_value_of_a_setting_is_refused(state):
    with pytest.raises(InvalidOptionError, match="streaming, batch"):
        state.settings.set("execution.runtime-mode", "stream")


def test_the_time_zone_is_that_of_spark_until_it_is_reset(state):
    state.settings.set("table.local-time-zone", "Europe/Berlin")
    during = state.spark.conf["spark.sql.session.timeZone"]

    state.settings.reset(None)

    assert during == "Europe/Berlin"
    assert state.spark.conf["spark.sql.session.timeZone"] == "UTC"
    assert state.settings.is_streaming


@cases("key", ["spark.sql.ansi.enabled", "spark.sql.session.timeZone"])
def test_settings_of_spark_are_as_they_were_when_they_are_reset(key):
    settings = SessionSettings(Session())
    before = dict(settings.spark.conf)

    settings.set(key, "one")
    settings.set(key, "two")
    during = settings.spark.conf[key]
    settings.reset(key)

    assert during == "two"
    assert settings.spark.conf == before


def test_a_setting_is_reset_by_its_other_name():
    settings = SessionSettings(Session())
    settings.set("execution.checkpointing.dir", "/jobs")

    settings.reset("execution.checkpointing.dir")

    assert settings.values == {}
