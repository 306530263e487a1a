"""The connector `jdbc`: tables of other databases, through Spark and a driver in Java."""

from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from headwater.config.values import INT_MAX, LONG_MAX, TEXT, Option, whole_number
from headwater.errors import InvalidOptionError, MissingError
from headwater.pipelines.connectors.spi import Connector, ConnectorTable

_FORMAT = "jdbc"
_WHOLE = whole_number(low=-LONG_MAX, high=LONG_MAX)
_COUNT = whole_number(low=1, high=INT_MAX)
# What a URL names -> class of the driver, and what its jar is called.
DRIVERS: Mapping[str, tuple[str, str]] = {
    "mysql": ("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j"),
    "mariadb": ("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client"),
    "postgresql": ("org.postgresql.Driver", "org.postgresql:postgresql"),
    "sqlserver": (
        "com.microsoft.sqlserver.jdbc.SQLServerDriver",
        "com.microsoft.sqlserver:mssql-jdbc",
    ),
    "oracle": ("oracle.jdbc.OracleDriver", "com.oracle.database.jdbc:ojdbc11"),
    "sqlite": ("org.sqlite.JDBC", "org.xerial:sqlite-jdbc"),
    "h2": ("org.h2.Driver", "com.h2database:h2"),
    "derby": ("org.apache.derby.iapi.jdbc.AutoloadedDriver", "org.apache.derby:derby"),
}

URL = Option(name="url", kind=TEXT, description="Address, as `jdbc:postgresql://host/database`.")
TABLE_NAME = Option(name="table-name", kind=TEXT, description="The table there.")
DRIVER = Option(
    name="driver", kind=TEXT, description="Class of the driver; by default that of the URL."
)
USERNAME = Option(name="username", kind=TEXT, description="User name, if any.")
PASSWORD = Option(name="password", kind=TEXT, description="Password of that user.")
_COLUMN = Option(
    name="scan.partition.column",
    kind=TEXT,
    description="Column by which tasks divide the rows; with the next three.",
)
_PARTS = Option(
    name="scan.partition.num", kind=_COUNT, description="Number of tasks that read side by side."
)
_LOW = Option(
    name="scan.partition.lower-bound", kind=_WHOLE, description="Smallest value of that column."
)
_HIGH = Option(
    name="scan.partition.upper-bound", kind=_WHOLE, description="Largest value of that column."
)
_FETCH = Option(
    name="scan.fetch-size",
    kind=whole_number(low=0, high=INT_MAX),
    description="Rows that are fetched at once.",
)
_FLUSH = Option(
    name="sink.buffer-flush.max-rows",
    kind=_COUNT,
    default="1000",
    description="Rows that are written at once.",
)
_DIVIDED = (_COLUMN, _PARTS, _LOW, _HIGH)
_NAMES = {
    URL.name: "url",
    TABLE_NAME.name: "dbtable",
    USERNAME.name: "user",
    PASSWORD.name: "password",
    _COLUMN.name: "partitionColumn",
    _PARTS.name: "numPartitions",
    _LOW.name: "lowerBound",
    _HIGH.name: "upperBound",
    _FETCH.name: "fetchsize",
    _FLUSH.name: "batchsize",
}


def driver_of(options: Mapping[str, str]) -> tuple[str, str]:
    """The class of the driver for a URL, and the jar that has it."""
    kind = options[URL.name].removeprefix("jdbc:").partition(":")[0]
    name, jar = DRIVERS.get(kind, ("", f"a JDBC driver for '{kind}'"))
    chosen = options.get(DRIVER.name, name)
    if not chosen:
        raise InvalidOptionError(
            f"There is no known driver for the URL of '{kind}'.",
            hint=f"Name its class with '{DRIVER.name}', and give Spark its jar.",
        )
    return chosen, jar


def _check_driver(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Return the class of the driver; raises if Spark has no jar with it."""
    name, jar = driver_of(options)
    if not hasattr(spark, "_jsparkSession"):
        return name  # over Connect only the server knows
    jvm = spark._jvm  # noqa: SLF001 - the only door to the JVM
    assert jvm is not None
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(name, True, loader)
    except Py4JJavaError:
        raise MissingError(
            f"Spark has no JDBC driver '{name}'.",
            hint=f"Give it the jar of {jar}: --spark spark.jars=/path/to/driver.jar, or --spark "
            f"spark.jars.packages={jar}:VERSION.",
        ) from None
    return name


def _options(spark: SparkSession, table: ConnectorTable) -> dict[str, str]:
    given = table.options
    said = [option.name for option in _DIVIDED if option.name in given]
    if said and len(said) < len(_DIVIDED):
        missing = next(option.name for option in _DIVIDED if option.name not in given)
        raise InvalidOptionError(
            f"'{said[0]}' is set, but '{missing}' is missing ({table.name}).",
            hint=f"Set all of {', '.join(option.name for option in _DIVIDED)}, or none.",
        )
    renamed = {_NAMES[name]: text for name, text in given.items() if name in _NAMES}
    return {**renamed, "driver": _check_driver(spark, given)}


def _read(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    rows = spark.read.format(_FORMAT).options(**_options(spark, table)).load()
    # Databases differ in case and types; the statement says what they are here.
    fields = table.schema.fields or rows.schema.fields
    return rows.select(
        *(rows[f"`{each.name}`"].cast(each.dataType).alias(each.name) for each in fields)
    )


def _write(rows: DataFrame, table: ConnectorTable) -> None:
    _save(rows, table, mode="append")


def _overwrite(rows: DataFrame, table: ConnectorTable) -> None:
    _save(rows, table, mode="overwrite")


def _save(rows: DataFrame, table: ConnectorTable, *, mode: str) -> None:
    options = _options(rows.sparkSession, table)
    # The table there stays, with its types and indexes.
    rows.write.format(_FORMAT).options(**options).option("truncate", True).mode(mode).save()


JDBC = Connector(
    name="jdbc",
    description="A table of another database, in batches; streams can join it.",
    options=(
        URL,
        TABLE_NAME,
        DRIVER,
        USERNAME,
        PASSWORD,
        *_DIVIDED,
        _FETCH,
        _FLUSH,
    ),
    required=(URL.name, TABLE_NAME.name),
    read=_read,
    write=_write,
    overwrite=_overwrite,
)
