"""Requests of tierers that make no sense, come late, or are of a table that changed."""

import json
from pathlib import Path

import pytest

import headwater
from headwater import errors
from headwater.cluster.lake import FailedRound, FinishedRound
from headwater.config.server import ServerSettings
from headwater.model.boundary import LakeBucket
from headwater.model.path import TablePath

TIERED = {"table.datalake.enabled": "true"}
FIRST = LakeBucket(None, 0)
PATH = TablePath("fluss", "t")


@pytest.fixture
def storage(tmp_path):
    # The reports here are of a lake that is not there.
    trusting = ServerSettings(lake_trusted_tierers="*")
    with headwater.open(tmp_path / "data", server_settings=trusting) as opened:
        yield opened


@pytest.fixture
def table(storage):
    return storage.create_table("t", {"id": "BIGINT"}, options=TIERED)


@pytest.fixture
def filled(table):
    table.append([{"id": number} for number in range(9)])
    return table


def assigned(storage, **asked):
    answer = storage.lake.heartbeat(request=True, ignore_freshness=True, **asked)
    assert answer.assigned is not None
    return answer.assigned


def test_only_files_that_were_prepared_for_the_table_are_read(storage, filled, tmp_path):
    foreign = tmp_path / "foreign.offsets"
    foreign.write_text('{"version":1,"table_id":1,"bucket_offsets":[1]}')
    prepared = storage.lake.prepare("t", 1, {FIRST: 1})
    other = storage.create_table("other", {"id": "BIGINT"}, options=TIERED).info.table_id

    for table_id, path in (
        (1, foreign.as_uri()),
        (1, f"{prepared.rpartition('/')[0]}/../1/../../../../foreign.offsets"),
        (1, prepared.replace(".offsets", ".draft")),
        (1, prepared.replace("file:", "s3:")),
        (other, prepared),
    ):
        with pytest.raises(errors.RequestError, match="did not prepare"):
            storage.lake.commit(table_id, 5, path)
    assert storage.lake.snapshot("t") is None


def test_a_file_that_is_gone_or_damaged_is_no_snapshot(storage, filled):
    prepared = storage.lake.prepare("t", 1, {FIRST: 1})
    file = Path(prepared.removeprefix("file://"))

    file.write_text("{")
    with pytest.raises(errors.StorageError):
        storage.lake.commit(1, 5, prepared)
    file.unlink()
    with pytest.raises(errors.RequestError, match="Prepare the offsets again"):
        storage.lake.commit(1, 5, prepared)


def test_offsets_that_go_back_are_refused(storage, filled):
    late = storage.lake.prepare("t", 1, {FIRST: 5})
    storage.lake.commit(1, 7, storage.lake.prepare("t", 1, {FIRST: 9}))

    with pytest.raises(errors.TieringFencedError, match="already ends at 9"):
        storage.lake.commit(1, 6, late)

    assert storage.lake.snapshot("t").snapshot_id == 7


def test_a_table_that_was_made_anew_takes_no_offsets_of_the_old_one(storage, filled):
    prepared = storage.lake.prepare("t", 1, {FIRST: 1})
    storage.drop_table("t")
    storage.create_table("t", {"id": "BIGINT"}, options=TIERED)

    with pytest.raises(errors.TableMissingError, match="created again"):
        storage.lake.prepare("t", 1, {FIRST: 1})
    with pytest.raises(errors.MissingError):
        storage.lake.commit(1, 5, prepared)
    assert storage.lake.snapshot("t") is None


def test_a_bucket_that_the_table_has_not_is_refused(storage, table):
    with pytest.raises(errors.RequestError, match="no bucket 3"):
        storage.lake.prepare("t", 1, {LakeBucket(None, 3): 1})


def test_offsets_of_partitions_that_were_dropped_are_left_out(storage):
    table = storage.create_table(
        "t", {"id": "BIGINT", "day": "STRING"}, partition_by="day", options=TIERED
    )
    for day in "ab":
        table.create_partition({"day": day})
    table.append([{"id": 1, "day": "a"}, {"id": 2, "day": "b"}, {"id": 3, "day": "b"}])
    ids = table.partitions()
    ends = {LakeBucket(number, 0): 1 for number in (1, 2)}
    storage.lake.commit(1, 5, storage.lake.prepare("t", 1, ends))

    table.drop_partition({"day": "a"})
    prepared = storage.lake.prepare("t", 1, {LakeBucket(2, 0): 2})

    written = json.loads(Path(prepared.removeprefix("file://")).read_text())
    assert len(ids) == 2
    assert written["partition_offsets"] == [{"partition_id": 2, "bucket_offsets": [2]}]


def test_a_table_that_was_never_tiered_is_told_from_one_without_a_lake(storage, table):
    storage.create_table("plain", {"id": "BIGINT"})
    ask = storage.lake.snapshot

    assert ask("t") is None
    assert ask("plain") is None
    with pytest.raises(errors.RequestError, match="not both"):
        ask("t", 5, readable=True)


def test_what_was_tiered_is_known_after_tiering_was_turned_off(storage, filled):
    storage.lake.commit(1, 7, storage.lake.prepare("t", 1, {FIRST: 9}))

    filled.set_options({"table.datalake.enabled": "false"})

    assert storage.lake.snapshot("t").snapshot_id == 7


def test_turns_are_over_after_a_restart_and_none_is_given_twice(tmp_path):
    with headwater.open(tmp_path) as storage:
        storage.create_table("t", {"id": "BIGINT"}, options=TIERED)
        before = assigned(storage)
        storage_id = storage.lake.heartbeat().storage_id

    with headwater.open(tmp_path) as storage:
        answer = storage.lake.heartbeat(tiering=[before])
        after = assigned(storage)

        assert answer.fenced == {1}
        assert answer.storage_id == storage_id
        assert after.epoch > before.epoch
        assert after.epoch.turn == before.epoch.turn + 1


def test_the_end_of_a_round_from_before_a_restart_is_refused(tmp_path):
    with headwater.open(tmp_path) as storage:
        storage.create_table("t", {"id": "BIGINT"}, options=TIERED)
        before = assigned(storage)

    with headwater.open(tmp_path) as storage:
        ended = storage.lake.heartbeat(finished=[FinishedRound(assignment=before)])
        failed = storage.lake.heartbeat(failed=[FailedRound(assignment=before, failure="late")])
        (state,) = storage.lake.heartbeat(list_states=True).states

        assert ended.fenced == failed.fenced == {1}
        assert (state.last_tiered_ms, state.failures) == (None, 0)


def test_states_are_told_with_why_a_round_failed(storage, table):
    failed = FailedRound(assignment=assigned(storage), failure="the warehouse is read-only")
    storage.lake.heartbeat(failed=[failed])

    (state,) = storage.lake.heartbeat(list_states=True).states

    assert (state.path, state.state, state.failures) == (PATH, "failed", 1)
    assert state.last_failure == "the warehouse is read-only"
    assert 0 < state.due_in_ms <= 5_000


def test_a_round_that_ended_well_is_told_with_its_figures(storage, table):
    storage.lake.commit(1, 7, storage.lake.prepare("t", 1, {FIRST: 0}))
    done = FinishedRound(assignment=assigned(storage), file_size=10, record_count=3)
    storage.lake.heartbeat(finished=[done])

    (state,) = storage.lake.heartbeat(list_states=True).states

    assert (state.state, state.snapshot_id, state.epoch) == ("scheduled", 7, 1)
    assert (state.file_size, state.record_count) == (10, 3)
    assert state.last_duration_ms is not None
    assert 170_000 < state.due_in_ms <= 180_000


def test_a_table_is_handed_out_to_one_tierer_at_a_time(storage, table):
    assigned(storage)

    other = storage.lake.heartbeat(request=True, ignore_freshness=True, only_tables=[PATH])

    assert other.assigned is None


def test_the_table_with_more_rows_to_tier_is_handed_out_first(storage, table):
    other = storage.create_table("u", {"id": "BIGINT"}, options=TIERED)
    table.append([{"id": 1}])
    other.append([{"id": 1}, {"id": 2}])

    first, second = assigned(storage), assigned(storage)

    assert [first.path.table, second.path.table] == ["u", "t"]
    assert storage.lake.heartbeat(request=True, ignore_freshness=True).assigned is None
