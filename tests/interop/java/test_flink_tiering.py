"""The tiering service of Apache Fluss, a Flink job, tiers tables of our server."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from scripts.flink import flink_tiering, running_flink
from scripts.fluss_jars import FLUSS
from scripts.fluss_lake import ICEBERG_CATALOG, LOG4J, ClusterLake
from scripts.foreign import Foreign, foreign
from scripts.lake_readers import iceberg_reader, paimon_reader

import headwater
from headwater.cluster.lake import TieringAssignment
from headwater.engines.spark.java import java_home
from headwater.errors import LakeTableDiffersError, UnsupportedError
from headwater.lake.lakes import Lakes
from headwater.model.boundary import TieringEpoch
from headwater.tiering.plan import Limits
from headwater.tiering.progress import TieringTurn
from headwater.tiering.round import tier_round
from headwater.tiering.task import LocalRunner
from tests.cli.commanding import Storage, ok
from tests.interop.lake_cluster import LAKES, config_of
from tests.serving import ServerProcess
from tests.torture.processes import wait_until
from tests.torture.server import MODULE, told

pytestmark = pytest.mark.timeout(900)  # Flink has to start
NAMES = ("log", "parted", "keyed")
COLUMNS = {"id": "INT NOT NULL", "name": "STRING"}
# The service also ends a round after that time, done or not, and shorter ones get nowhere quickly.
TIERED = {"table.datalake.enabled": "true", "table.datalake.freshness": "10s"}
TIERED_WITHIN_S = 300
STEP = 20
# Of one write: rows, and by key, beside these, one that replaces another and one that is deleted.
CHANGES = {"log": STEP, "parted": STEP, "keyed": STEP + 3}
# So small that retention takes the beginning of logs as soon as it is in the lake.
SEGMENT = 500
SHORT = {"table.log.retention.bytes": f"{SEGMENT}b"}

Row = dict[str, object]


@dataclass(frozen=True)
class Lake:
    format: str
    directory: Path
    in_java: ClusterLake

    @property
    def in_python(self) -> dict[str, str]:
        """Return what our clients call otherwise than Java, whose names the server tells."""
        return config_of(self.format, self.directory)


@dataclass
class Tables:
    """Write to some tables, and remember which rows they hold."""

    hw: headwater.Client
    end: int = 0
    log: list[Row] = field(default_factory=list)
    keyed: dict[object, Row] = field(default_factory=dict)

    def make(self) -> None:
        self.hw.create_table("log", COLUMNS, options=TIERED, buckets=2)
        days = {**COLUMNS, "day": "STRING"}
        self.hw.create_table("parted", days, options=TIERED, partition_by="day")
        options = {**TIERED, **SHORT}
        self.hw.create_table("keyed", COLUMNS, primary_key="id", options=options, buckets=2)

    def write(self, **more: object) -> None:
        """Write some rows, in the log with more columns; change one before, delete another."""
        new: list[Row] = [
            {"id": at, "name": f"row {at}"} for at in range(self.end, self.end + STEP)
        ]
        self.log += [{**row, **more} for row in new]
        for row in self.log[-STEP:]:
            # Each to any bucket: Flink waits for ever for one that is empty.
            self.hw.table("log").append([row])
        self.hw.table("parted").append(_with_days(new))
        gone = max(self.end - 1, 2)
        for row in [*new, {"id": 0, "name": f"changed at {self.end}"}]:
            self.hw.table("keyed").upsert([row])
            self.keyed[row["id"]] = row
        self.hw.table("keyed").delete([{"id": gone}])
        del self.keyed[gone]
        self.end += STEP

    def rows(self, name: str) -> list[Row]:
        """Return the rows that a table holds now."""
        columns = self.hw.table(name).schema.names
        kept = {"log": self.log, "parted": _with_days(self.log), "keyed": self.keyed.values()}
        return in_order({column: row.get(column) for column in columns} for row in kept[name])

    def folded(self, name: str, changes: list[list[object]]) -> list[Row]:
        """Return the rows that are left after changes, each with its kind before its values."""
        columns = self.hw.table(name).schema.names
        rows: dict[object, Row] = {}
        for kind, *values in changes:
            row = dict(zip(columns, values, strict=True))
            if kind in ("-U", "-D"):
                assert rows.pop(row["id"]) == row
            else:
                assert rows.setdefault(row["id"], row) is row
        return in_order(rows.values())

    def are_tiered(self) -> bool:
        """Tell whether the lake holds all that the logs hold; no round may fail meanwhile."""
        states = self.hw.lake.heartbeat(list_states=True).states
        assert not [each for each in states if each.failures]
        return all(map(self._is_tiered, NAMES))

    def _is_tiered(self, name: str) -> bool:
        known = self.hw.lake.snapshot(name)
        ends = self.hw.table(name).offsets().values()
        return known is not None and sum(known.ends.values()) == sum(ends)

    def has_short_log(self) -> bool:
        """Tell whether the beginning of a log is gone, which only the lake holds then."""
        return any(self.hw.table("keyed").offsets("earliest").values())


@pytest.fixture(scope="module", params=list(LAKES))
def lake(request, tmp_path_factory) -> Lake:
    directory = tmp_path_factory.mktemp("lake")
    return Lake(request.param, directory, LAKES[request.param](FLUSS, directory))


@pytest.fixture(scope="module")
def server(tmp_path_factory, lake) -> Iterator[ServerProcess]:
    options = ["--datalake-format", lake.format]
    for key, value in lake.in_java.settings.items():
        if key != "datalake.format":
            options += ["--lake", f"{key}={value}"]
    directory = tmp_path_factory.mktemp("tiered") / "data"
    variables = told(log=SEGMENT, retention_check_interval_s=1.0)
    server = ServerProcess(directory, *options, module=MODULE, variables=variables)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def tables(server, lake) -> Iterator[Tables]:
    with headwater.connect(server.address, lake=lake.in_python) as hw:
        yield Tables(hw)


@pytest.fixture(scope="module")
def in_lake(in_java, tables) -> dict[str, int]:
    """Write rows that only the logs have, and return how many are in the lake."""
    counts = {name: len(tables.rows(name)) for name in NAMES}
    tables.write(more=8)
    return counts


@pytest.fixture(scope="module")
def flink(tmp_path_factory, server, lake) -> Iterator[Foreign]:
    """Run a Flink that can reach the lake, too."""
    log = tmp_path_factory.mktemp("flink") / "log"
    with running_flink(server.address, *lake.in_java.jars, LOG4J, log=log) as asked:
        yield asked


@pytest.fixture
def readable(lake) -> tuple[str, ...]:
    """Return the tables that we, and Flink in batches, can read from the lake."""
    return NAMES if lake.format == "paimon" else ("log", "parted")


@pytest.fixture(scope="module")
def in_java(tmp_path_factory, server, lake, tables) -> dict[str, list[Row]]:
    """Have all tables tiered in two rounds, and return what Java then reads from the lake."""
    ours = [f"--lake={key}={value}" for key, value in lake.in_python.items()]
    create = ("lake", "create", "--system-columns", *ours)
    tables.make()
    tables.write()
    for name in NAMES:
        ok(Storage(server.address)(*create, name))
    with foreign(
        "scripts.flink_tiering_in_java",
        log=tmp_path_factory.mktemp("tiering") / "log",
        JAVA_HOME=str(java_home()),
        JARS=flink_tiering(lake.in_java),
        SERVER=server.address,
        LAKE=json.dumps(lake.in_java.settings),
    ) as service:
        service.ask("start")
        wait_until(tables.are_tiered, within_s=TIERED_WITHIN_S)
        wait_until(tables.has_short_log, within_s=TIERED_WITHIN_S)
        tables.hw.table("log").add_column("more", "INT")
        ok(Storage(server.address)(*create, "log"))
        tables.write(more=7)
        wait_until(tables.are_tiered, within_s=TIERED_WITHIN_S)
    with reader_of(lake, tmp_path_factory.mktemp("reader")) as rows:
        return {name: rows(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_row_comes_to_the_lake(in_java, tables, name):
    columns = tables.hw.table(name).schema.names

    found = [{column: row[column] for column in columns} for row in in_java[name]]

    assert found == tables.rows(name)


def test_rows_in_the_lake_tell_where_they_stood_in_the_log(in_java, tables):
    ends = {place.bucket: end for place, end in tables.hw.table("log").offsets().items()}

    found = sorted((row["__bucket"], row["__offset"]) for row in in_java["log"])

    assert found == [(bucket, at) for bucket, end in sorted(ends.items()) for at in range(end)]


def test_lake_and_log_are_read_as_one(in_java, tables, readable):
    for name in readable:
        table = tables.hw.table(name)
        assert in_order(table.scan(mode="lake").to_pylist()) == tables.rows(name)
        assert in_order(table.scan().to_pylist()) == tables.rows(name)


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_keyed_tables_whose_rows_are_deleted_by_equality_are_refused(in_java, tables):
    with pytest.raises(UnsupportedError, match="equality deletes"):
        tables.hw.table("keyed").scan().to_pylist()


def test_rows_that_came_since_are_read_with_those_of_the_lake(in_lake, tables, readable):
    for name in readable:
        table = tables.hw.table(name)
        assert len(table.scan(mode="lake").to_pylist()) == in_lake[name]
        assert in_order(table.scan().to_pylist()) == tables.rows(name)


def test_flink_reads_lake_and_log_as_one(in_lake, tables, flink, readable):
    for name in readable:
        found = flink.ask("rows", text=f"SELECT * FROM {name}", mode="batch")["rows"]
        assert tables.folded(name, found) == tables.rows(name)


@pytest.mark.parametrize("name", NAMES)
def test_flink_goes_on_with_the_log_where_the_lake_ends(in_lake, tables, flink, name):
    count = in_lake[name] + CHANGES[name]

    found = flink.ask("rows", text=f"SELECT * FROM {name}", count=count)["rows"]

    assert tables.folded(name, found) == tables.rows(name)


@pytest.mark.parametrize("name", NAMES)
def test_our_tierer_leaves_these_tables_alone(in_java, tables, lake, name):
    table = tables.hw.table(name)
    epoch = TieringEpoch(coordinator=99, turn=1)
    turn = TieringTurn(
        TieringAssignment(path=table.path, table_id=table.info.table_id, epoch=epoch)
    )

    with pytest.raises(LakeTableDiffersError, match="tiering service of Apache Fluss"):
        # Not as a service, which waits until the one that was ended is not heard of for long.
        tables.hw.run(
            lambda client: tier_round(
                turn,
                client=client,
                runner=LocalRunner(client),
                lakes=Lakes(config=lake.in_python),
                limits=Limits(rows_max=1_000),
            )
        )


@contextmanager
def reader_of(lake: Lake, place: Path) -> Iterator[Callable[[str], list[Row]]]:
    """Give what reads lake tables in Java, with all columns."""

    def by_paimon(name: str) -> list[Row]:
        found = reader.ask("rows", table=f"fluss.{name}")
        return in_order(dict(zip(found["names"], row, strict=True)) for row in found["rows"])

    def by_spark(name: str) -> list[Row]:
        sql, out = f"SELECT * FROM {ICEBERG_CATALOG}.fluss.{name}", place / name
        reader.ask("rows", sql=sql, out=str(out))
        with pa.ipc.open_file(out) as file:
            return in_order(file.read_all().to_pylist())

    log = place / "log"
    if lake.format == "paimon":
        with paimon_reader(str(lake.directory), log=log) as reader:
            yield by_paimon
    else:
        with iceberg_reader(ICEBERG_CATALOG, lake.directory, log=log) as reader:
            yield by_spark


def in_order(rows) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def _with_days(rows: list[Row]) -> list[Row]:
    return [{**row, "day": f"day-{row['name'][-1]}"} for row in rows]
