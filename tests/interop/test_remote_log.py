"""Rows that a cluster has moved to its remote store are read like all others."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from scripts.fluss_cluster import FlussCluster

import headwater
from headwater.audit import audit
from tests.torture.processes import wait_until

SETTINGS = {"remote.log.task-interval-duration": "1s", "log.segment.file-size": "64kb"}
OPTIONS = {
    "table.log.tiered.local-segments": "1",
    "table.log.arrow.compression.type": "NONE",
    "table.replication.factor": "1",
}
BATCHES, ROWS_EACH = 60, 2000
MOVED_WITHIN_S = 90.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[FlussCluster]:
    with FlussCluster.start(tablet_servers=1, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster) -> Iterator[headwater.Client]:
    with headwater.connect(cluster.bootstrap) as client:
        yield client


def rows(number: int) -> pa.Table:
    ids = range(number * ROWS_EACH, (number + 1) * ROWS_EACH)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {each}" for each in ids]})


def local_segments(cluster: FlussCluster, table: headwater.Table) -> int:
    """Return how many segments of a log the tablet server still holds itself."""
    place = cluster.layout.directory / "tablet-0" / "data"
    return len(list(place.rglob(f"*/{table.path.table}-*/log-0/*.log")))


@pytest.fixture(scope="module")
def moved(cluster, client) -> headwater.Table:
    """Have a table of which only the newest rows are left on the tablet server."""
    schema = {"id": "BIGINT", "text": "STRING"}
    table = client.create_table("moved", schema, buckets=1, options=OPTIONS)
    for number in range(BATCHES):
        table.append(rows(number))
    held = local_segments(cluster, table)
    assert held > 3
    wait_until(lambda: local_segments(cluster, table) < held // 2, within_s=MOVED_WITHIN_S)
    return table


def test_a_scan_reads_all_rows_wherever_they_are(moved):
    found = moved.scan().to_arrow()

    assert found.sort_by("id").equals(pa.concat_tables(map(rows, range(BATCHES))))


def test_columns_and_rows_are_chosen_in_the_remote_store_too(moved):
    found = moved.scan(columns=["text"], where=("id", "in", [5, 119_999])).to_arrow()

    assert sorted(found["text"].to_pylist()) == ["row 119999", "row 5"]


def test_a_tail_goes_from_the_remote_store_to_the_newest_rows(moved):
    count = 0
    with moved.tail("earliest") as tail:
        while count < BATCHES * ROWS_EACH:
            for batch in tail.poll():
                assert batch.offsets[0] == count
                count += batch.rows.num_rows

    assert count == BATCHES * ROWS_EACH


def test_an_audit_reads_the_remote_store(client, moved):
    report = audit(client, tables=[str(moved.path)])

    assert report.is_clean
    assert "remote" not in str(report)
