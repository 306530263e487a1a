"""Flink reads lake tables that `headwater tier` has filled, with the rows of our logs behind."""

from collections.abc import Iterator

import pytest
from scripts.flink import running_flink
from scripts.fluss_jars import FLUSS
from scripts.fluss_lake import LOG4J

import headwater
from tests.cli.commanding import Storage, ok
from tests.interop.java.test_flink_tiering import TIERED, Lake, in_order
from tests.interop.lake_cluster import LAKES
from tests.serving import ServerProcess

pytestmark = pytest.mark.timeout(900)  # Flink has to start
COLUMNS = {"id": "INT NOT NULL", "name": "STRING"}
NAMES = ("log", "keyed")
STEP = 20


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
    server = ServerProcess(tmp_path_factory.mktemp("tiered") / "data", *options)
    yield server
    server.stop()


def rows(start: int) -> list[dict[str, object]]:
    return [{"id": at, "name": f"row {at}"} for at in range(start, start + STEP)]


@pytest.fixture(scope="module")
def filled(server, lake) -> None:
    """Tier some rows, and write more that only the logs have: some of them replace others."""
    with headwater.connect(server.address, lake=lake.in_python) as hw:
        asked = {} if lake.format == "paimon" else {"table.datalake.system-columns": "true"}
        options = {**TIERED, **asked}
        log = hw.create_table("log", COLUMNS, options=options, buckets=1)
        keyed = hw.create_table("keyed", COLUMNS, primary_key="id", options=options, buckets=1)
        log.append(rows(0))
        keyed.upsert(rows(0))
        ours = [f"--lake={key}={value}" for key, value in lake.in_python.items()]
        ok(Storage(server.address)("tier", "--once", "--here", *ours))
        log.append(rows(STEP))
        keyed.upsert([{"id": 0, "name": "changed"}])


@pytest.fixture(scope="module")
def flink(tmp_path_factory, server, lake, filled):
    log = tmp_path_factory.mktemp("flink") / "log"
    with running_flink(server.address, *lake.in_java.jars, LOG4J, log=log) as asked:
        yield asked


def expected(name: str) -> list[dict[str, object]]:
    if name == "log":
        return rows(0) + rows(STEP)
    return [{"id": 0, "name": "changed"}, *rows(0)[1:]]


def folded(changes: list[list[object]]) -> list[dict[str, object]]:
    held: dict[object, dict[str, object]] = {}
    for kind, number, name in changes:
        if kind in ("-U", "-D"):
            del held[number]
        else:
            held[number] = {"id": number, "name": name}
    return in_order(held.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_reads_lake_and_log_as_one(flink, lake, name):
    if lake.format == "iceberg" and name == "keyed":
        pytest.skip("the connector refuses batches of Iceberg tables by key, on every server")

    found = flink.ask("rows", text=f"SELECT * FROM {name}", mode="batch")["rows"]

    assert folded(found) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_goes_on_with_the_log_where_the_lake_ends(flink, name):
    count = {"log": 2 * STEP, "keyed": STEP + 2}[name]

    found = flink.ask("rows", text=f"SELECT * FROM {name}", count=count)["rows"]

    assert folded(found) == expected(name)
