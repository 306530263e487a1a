"""What tierers and coordinators tell each other.

A cluster of Apache Fluss must have a lake of the format that is asked for here; without one it
refuses the tables, and the tests are skipped.
"""

import os

import pytest

from headwater import errors
from headwater.cluster.lake import FailedRound, FinishedRound, TieringAssignment
from headwater.model.boundary import LakeBucket, TieringEpoch

FORMAT = os.environ.get("HEADWATER_CONTRACT_LAKE", "paimon")
TIERED = {
    "table.datalake.enabled": "true",
    "table.datalake.format": FORMAT,
    "table.datalake.freshness": "0 ms",
}
FIRST, SECOND = LakeBucket(None, 0), LakeBucket(None, 1)
ASKED_MAX = 200


@pytest.fixture
def table(backend, name):
    schema = {"id": "BIGINT", "text": "STRING"}
    try:
        made = backend.client.create_table(name, schema, buckets=2, bucket_by="id", options=TIERED)
    except errors.HeadwaterError as fault:
        if backend.is_fluss:
            pytest.skip(f"the cluster has no such lake: {fault}")
        raise
    # Enough for both buckets to hold what is said to be tiered of them.
    made.append([{"id": number, "text": "x"} for number in range(40)])
    return made


def assigned(client, table) -> TieringAssignment:
    """Ask until the table is handed out; others that come are given back."""
    path = table.info.path
    for _ in range(ASKED_MAX):
        answer = client.lake.heartbeat(request=True, ignore_freshness=True, only_tables=[path])
        if answer.assigned is not None and answer.assigned.path == path:
            return answer.assigned
        if answer.assigned is not None:
            client.lake.heartbeat(finished=[FinishedRound(assignment=answer.assigned)])
    pytest.skip("the table was not handed out")


def is_lost(client, assignment) -> bool:
    """Ask until the table is not the tierer's any more: a cluster takes its time to drop one."""
    return any(client.lake.heartbeat(tiering=[assignment]).fenced for _ in range(ASKED_MAX))


def test_a_table_that_was_never_tiered_has_no_snapshot(client, table):
    assert client.lake.snapshot(table.info.path) is None
    assert client.lake.snapshot(table.info.path, readable=True) is None


def test_what_was_prepared_and_committed_is_known(client, table):
    path, table_id = table.info.path, table.info.table_id
    ends = {FIRST: 4, SECOND: 6}

    prepared = client.lake.prepare(path, table_id, ends)
    client.lake.commit(table_id, 71, prepared, ends=ends)

    known = client.lake.snapshot(path)
    assert known is not None
    assert (known.table_id, known.snapshot_id, known.ends) == (table_id, 71, ends)
    assert client.lake.snapshot(path, readable=True) == known
    assert client.lake.snapshot(path, 71) == known
    assert client.lake.snapshot(path, 72) is None


def test_offsets_are_put_on_top_of_those_known_or_in_their_place(client, table):
    path, table_id = table.info.path, table.info.table_id
    client.lake.commit(table_id, 1, client.lake.prepare(path, table_id, {FIRST: 4, SECOND: 6}))

    client.lake.commit(table_id, 2, client.lake.prepare(path, table_id, {FIRST: 5}))
    merged = client.lake.snapshot(path).ends
    anew = client.lake.prepare(path, table_id, {FIRST: 3}, ignore_previous=True)
    client.lake.commit(table_id, 3, anew)

    assert merged == {FIRST: 5, SECOND: 6}
    assert client.lake.snapshot(path).ends == {FIRST: 3}


def test_snapshots_stay_known_from_one_on(client, table):
    path, table_id = table.info.path, table.info.table_id
    for snapshot_id in (1, 2, 3):
        prepared = client.lake.prepare(path, table_id, {FIRST: snapshot_id})
        client.lake.commit(table_id, snapshot_id, prepared, earliest_kept=-1)

    client.lake.commit(
        table_id, 4, client.lake.prepare(path, table_id, {FIRST: 4}), earliest_kept=2
    )

    known = [client.lake.snapshot(path, snapshot_id) for snapshot_id in (1, 2, 3, 4)]
    assert [each and each.ends[FIRST] for each in known] == [None, 2, 3, 4]


def test_a_tierer_keeps_a_table_until_it_gives_it_back(client, table):
    assignment = assigned(client, table)

    kept = client.lake.heartbeat(tiering=[assignment])
    done = client.lake.heartbeat(
        finished=[FinishedRound(assignment=assignment, file_size=10, record_count=2)]
    )
    late = client.lake.heartbeat(tiering=[assignment])

    assert not kept.fenced
    assert not done.fenced
    assert late.fenced == {table.info.table_id}


def test_a_table_that_failed_is_handed_out_in_another_turn(client, table):
    first = assigned(client, table)
    client.lake.heartbeat(failed=[FailedRound(assignment=first, failure="the disk was full")])

    second = assigned(client, table)

    assert second.epoch > first.epoch
    assert client.lake.heartbeat(tiering=[first]).fenced == {table.info.table_id}
    assert not client.lake.heartbeat(tiering=[second]).fenced


def test_a_turn_of_another_coordinator_is_over(client, table):
    assignment = assigned(client, table)
    epoch = TieringEpoch(assignment.epoch.coordinator + 1, assignment.epoch.turn)
    other = TieringAssignment(path=assignment.path, table_id=assignment.table_id, epoch=epoch)

    assert client.lake.heartbeat(tiering=[other]).fenced == {table.info.table_id}


def test_a_table_that_was_dropped_is_nobodys(client, table):
    assignment = assigned(client, table)

    client.drop_table(table.info.path)

    assert is_lost(client, assignment)


def test_a_table_that_is_tiered_no_more_is_nobodys(client, table):
    assignment = assigned(client, table)

    table.set_options({"table.datalake.enabled": "false"})

    assert is_lost(client, assignment)


def test_where_the_lake_is_stands_in_the_table(client, table):
    properties = client.table(table.info.path).info.descriptor.properties

    assert any(name.startswith(f"table.datalake.{FORMAT}.") for name in properties)
