"""What every connector keeps to, each of those that are installed."""

import uuid
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from headwater.config.values import TEXT, Option
from headwater.errors import InvalidOptionError, MissingError, UnsupportedError
from headwater.pipelines.connectors.datagen import DATAGEN
from headwater.pipelines.connectors.spi import (
    Connector,
    ConnectorTable,
    OutputMode,
    StreamStart,
    checked,
    connector,
    connector_names,
    read_batch,
    read_streaming,
    write_batch,
    write_streaming,
)
from tests.cases import cases

ALL = [connector(name) for name in connector_names()]
BUILT_IN = {"blackhole", "datagen", "filesystem", "fluss", "jdbc", "print"}
SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField("price", DoubleType()),
        StructField("is_new", BooleanType()),
        StructField("at", TimestampNTZType()),
    ]
)
ROWS = ConnectorTable(
    name="made",
    schema=SCHEMA,
    options={
        "number-of-rows": "50",
        "rows-per-second": "1000",
        "fields.id.kind": "sequence",
        "fields.id.start": "1",
        "fields.id.end": "50",
        "fields.name.length": "8",
    },
)
FORMATS = [{"format": "json"}, {"format": "csv", "compression": "gzip"}, {"format": "parquet"}]


def named(**options) -> ConnectorTable:
    return ConnectorTable(name="t", schema=SCHEMA, options=options)


def required(of: Connector) -> dict[str, str]:
    return {name: "json" if name == "format" else "a.b" for name in of.required}


def test_what_is_built_in_is_installed():
    assert {each.name for each in ALL} >= BUILT_IN


@cases("of", ALL)
def test_every_option_has_a_description_and_a_default_that_fits(of):
    assert of.description
    for option in of.options:
        assert option.description
        assert option.default is None or option.read(option.default) is not None


@cases("of", ALL)
def test_an_option_that_nobody_knows_is_refused_by_name(of):
    with pytest.raises(InvalidOptionError, match="qwertz"):
        checked(of, named(**required(of), qwertz="1"))


def test_a_misspelled_option_is_refused_with_the_nearest():
    with pytest.raises(InvalidOptionError, match=r"fields\.name\.length"):
        checked(DATAGEN, named(**{"fields.name.lenght": "3"}))


@cases("of", [each for each in ALL if each.required])
def test_a_missing_option_is_named(of):
    first = of.required[0]
    options = {name: text for name, text in required(of).items() if name != first}

    with pytest.raises(InvalidOptionError, match=first):
        checked(of, named(**options))


@cases("of", ALL)
def test_what_a_connector_cannot_do_is_refused_by_its_name(of):
    table, start = named(**required(of)), StreamStart(job="j", checkpoint="c")
    tries = {
        of.read: lambda: read_batch(None, of, table),
        of.write: lambda: write_batch(None, of, table, overwrite=False),
        of.overwrite: lambda: write_batch(None, of, table, overwrite=True),
        of.write_stream: lambda: write_streaming(None, of, table, start),
    }

    refused = [attempt for able, attempt in tries.items() if able is None]

    for attempt in refused:
        with pytest.raises(UnsupportedError, match=of.name):
            attempt()


def test_updates_are_refused_where_rows_only_come_in():
    start = StreamStart(job="j", checkpoint="c", mode=OutputMode.UPDATE)

    with pytest.raises(UnsupportedError, match="PRIMARY KEY"):
        write_streaming(None, connector("filesystem"), named(path="p", format="json"), start)


def test_options_of_a_free_namespace_are_passed_on():
    of = Connector(
        name="x",
        description="x",
        options=(Option(name="a", kind=TEXT, description="a"),),
        free=("properties.",),
    )

    known = checked(of, named(**{"properties.any": "1", "connector": "x"}))

    assert known.options == {"properties.any": "1"}


def test_an_unknown_connector_is_refused_with_the_nearest():
    with pytest.raises(UnsupportedError, match="'datagen'"):
        connector("datagne")


# On Spark.


def counted(rows) -> Counter:
    return Counter(map(tuple, rows.collect()))


def derby(spark) -> ConnectorTable:
    """Make a table in a database in memory, whose driver comes with Spark."""
    url = f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"
    statement = 'CREATE TABLE t ("id" BIGINT, "name" VARCHAR(99), "price" DOUBLE, '
    statement += '"is_new" BOOLEAN, "at" TIMESTAMP)'
    # It would write a log into the current directory.
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", "/dev/null")
    spark._jvm.java.sql.DriverManager.getConnection(url).createStatement().execute(statement)
    return named(**{"url": url, "table-name": "t"})


@pytest.fixture
def targets(classic_spark, served, tmp_path):
    """Return a new table of each connector that can be read and written."""
    columns = {field.name: field.dataType.simpleString() for field in SCHEMA}
    columns |= {"at": "TIMESTAMP(6)", "id": "BIGINT"}
    table = served.create(columns)
    found = [(connector("fluss"), named(**served.options, **{"table.name": table.name}))]
    for number, options in enumerate(FORMATS):
        path = str(tmp_path / f"files{number}")
        found.append((connector("filesystem"), named(path=path, **options)))
    return [*found, (connector("jdbc"), derby(classic_spark))]


def test_rows_that_are_written_in_a_batch_are_read_as_they_were(classic_spark, targets):
    rows = read_batch(classic_spark, DATAGEN, ROWS)

    for of, table in targets:
        expected = counted(rows := rows.localCheckpoint())
        write_batch(rows, of, table, overwrite=False)
        assert counted(read_batch(classic_spark, of, table)) == expected, of.name


def test_overwriting_leaves_the_new_rows_only(classic_spark, targets):
    rows = read_batch(classic_spark, DATAGEN, ROWS).localCheckpoint()

    for of, table in targets:
        if of.overwrite is None:
            continue
        write_batch(rows, of, table, overwrite=False)
        write_batch(rows.filter("id > 40"), of, table, overwrite=True)
        assert read_batch(classic_spark, of, table).count() == 10, of.name


def test_a_stream_that_ends_writes_every_row_once_however_often_it_is_run(
    classic_spark, targets, tmp_path
):
    for number, (of, table) in enumerate(targets):
        if of.write_stream is None:
            continue
        start = StreamStart(job=f"j{number}", checkpoint=str(tmp_path / f"c{number}"), ends=True)
        for is_new in (True, False):
            rows = read_streaming(classic_spark, DATAGEN, ROWS)
            query = write_streaming(rows, of, table, replace(start, is_new=is_new))
            query.awaitTermination()
        ids = [row.id for row in read_batch(classic_spark, of, table).collect()]
        assert sorted(ids) == list(range(1, 51)), of.name


def test_rows_are_printed_with_what_they_change(classic_spark, capfd):
    rows = classic_spark.sql("SELECT 1 AS a, 'tea' AS b, CAST(NULL AS INT) AS c")
    changes = classic_spark.sql("SELECT 'delete' AS _change_type, 1 AS a")

    write_batch(rows, connector("print"), named(**{"print-identifier": "x"}), overwrite=False)
    write_batch(changes, connector("print"), named(), overwrite=False)

    assert capfd.readouterr().out == "x> +I[1, tea, null]\n-D[1]\n"


def test_a_driver_that_is_missing_is_named_with_its_jar(classic_spark):
    table = named(**{"url": "jdbc:postgresql://localhost/shop", "table-name": "orders"})

    with pytest.raises(MissingError, match=r"org\.postgresql:postgresql"):
        read_batch(classic_spark, connector("jdbc"), table)
