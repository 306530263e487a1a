"""Tables of a cluster brought into its lake by Spark, and read as lake and log in one."""

import json
from collections import Counter

import pytest
from scripts.spark_servers import cluster_settings, standalone_cluster

from tests.interop.pipeline.pipeline import orders
from tests.torture.processes import run_command


@pytest.fixture
def table(pipeline, is_keyed):
    """Have a table with rows in the lake, some changed since where they can be, and new ones."""
    table = pipeline.create(is_keyed=is_keyed, has_lake=True)
    pipeline.write(pipeline.frame(0, 1000), table)
    assert rows_of(pipeline.tier(table)) == 1000
    if is_keyed:
        table.upsert(orders(100, 300, amount=1))
        assert rows_of(pipeline.tier(table)) > 0
        table.upsert(orders(200, 250, amount=2))
        table.delete(list(range(30)))
        return table
    table.append(orders(1000, 1200))
    assert rows_of(pipeline.tier(table)) == 200
    table.append(orders(1200, 1300))
    return table


def rows_of(rounds) -> int:
    return sum(each.rows for each in rounds)


def expected_of(table) -> Counter:
    if not table.is_keyed:
        return Counter(orders(0, 1300))
    changed = [*orders(100, 200, amount=1), *orders(200, 250, amount=2)]
    changed += orders(250, 300, amount=1)
    return Counter([*orders(30, 100), *changed, *orders(300, 1000)])


def to_reach(pipeline) -> list[str]:
    """Return the options by which commands find the cluster and its lake."""
    lake = [f"--lake={key}={value}" for key, value in pipeline.lake.items()]
    return ["--at", pipeline.address, *lake]


KINDS = pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])


@KINDS
def test_every_engine_reads_every_row_of_lake_and_log_once(pipeline, table):
    pipeline.check(table, expected_of(table))


@KINDS
def test_the_coordinator_knows_the_snapshot_and_where_it_ends(pipeline, table):
    ends = {place.bucket: end for place, end in table.offsets().items()}

    rounds = pipeline.tier(table)

    known = pipeline.client.lake.snapshot(table.path)
    assert known.snapshot_id == rounds[-1].snapshot
    assert {bucket.bucket: end for bucket, end in known.ends.items()} == ends
    assert pipeline.lake_rows(table) == expected_of(table)


@KINDS
def test_the_command_tiers_on_a_spark_cluster(pipeline, table, tmp_path):
    settings = [f"--spark={key}={value}" for key, value in cluster_settings().items()]

    # On a cluster of its own: the session of the other tests has taken all cores of theirs.
    with standalone_cluster(tmp_path, workers=1) as master:
        on_cluster = (*settings, "--master", master)
        run_command("tier", table.name, "--once", *on_cluster, *to_reach(pipeline))

    assert pipeline.lake_rows(table) == expected_of(table)


@KINDS
def test_an_audit_of_a_tiered_table_finds_nothing(pipeline, table):
    done = run_command("audit", table.name, "--deep", "--json", *to_reach(pipeline))

    report = json.loads(done.stdout)
    assert report["findings"] == []
