"""Snapshots stand one after another, whoever sleeps, expires or writes beside."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import LakeMovedError, LakeRewrittenError, LakeTableDiffersError
from headwater.lake.paimon.commit import Commit, commit_snapshot
from headwater.lake.paimon.files import Files
from headwater.lake.paimon.manifests import APPEND, TIERING_USER
from headwater.lake.spi import Retention
from tests.lake.contract.changes import added

ALL_OLD = Retention(snapshots_min=1, age_ms=0)
NOTHING = Commit(entries=(), user=TIERING_USER, kind=APPEND, properties={})


def place(table, own) -> Path:
    return Path(own(table).root)


def test_hints_lead_to_the_first_and_the_newest(tables, own):
    table = tables.make()
    for at in range(4):
        table.tier([{"id": at, "name": "x"}])
    hints = place(table, own) / "snapshot"
    before = (hints / "EARLIEST").read_text(), (hints / "LATEST").read_text()

    table.keeper.expire(ALL_OLD, now_ms=table.head().committed_ms + 1)

    assert before == ("1", "4")
    assert ((hints / "EARLIEST").read_text(), (hints / "LATEST").read_text()) == ("4", "4")


def test_a_wrong_hint_is_not_believed(tables, own):
    table = tables.make()
    table.tier([{"id": 1, "name": "x"}])
    (place(table, own) / "snapshot" / "LATEST").write_text("77")

    table.tier([{"id": 2, "name": "x"}])

    assert table.head().snapshot_id == 2


class Sleeping(Files):
    """Be files whose owner sleeps before it creates one, while others go on."""

    meanwhile: Callable[[], None]

    def create(self, path: str, content: bytes) -> bool:
        self.meanwhile()
        return super().create(path, content)


def test_a_committer_that_slept_until_its_place_was_expired_is_refused(tables, own):
    table = tables.make()
    table.tier([{"id": 0, "name": "x"}])

    def others() -> None:
        for at in range(1, 6):
            table.tier([{"id": at, "name": "x"}])
        table.keeper.expire(ALL_OLD, now_ms=table.head().committed_ms + 1)

    late = own(table)
    late.files = Sleeping(late.files.io, {}, late.files.places)
    Sleeping.meanwhile = staticmethod(others)

    with pytest.raises(LakeMovedError):
        commit_snapshot(late, NOTHING, on=late.head(), now_ms=1)

    assert own(table).snapshot_ids() == [6]
    assert len(table.values()) == 6


def test_a_snapshot_that_another_one_already_follows_stands(tables, own):
    table = tables.make()
    first = commit_snapshot(own(table), NOTHING, on=None, now_ms=1)

    second = commit_snapshot(own(table), NOTHING, on=first, now_ms=1)

    assert (first.snapshot_id, second.snapshot_id) == (1, 2)
    assert second.properties["headwater.parent"] == first.uuid
    assert second.committed_ms >= first.committed_ms


def test_rows_by_key_that_others_wrote_meanwhile_do_not_win(tables):
    table = tables.keyed()
    table.tier([{"id": 1, "name": "old"}])
    late = table.write([{"id": 1, "name": "late"}], on=table.head())
    table.tier([{"id": 1, "name": "first"}])

    with pytest.raises(LakeRewrittenError):
        table.commit(late, on=table.head())

    assert [row["name"] for row in table.values()] == ["first"]


def test_a_boundary_that_nobody_tells_any_more_is_an_error(tables, foreign, own):
    table = tables.make()
    table.tier([{"id": 1, "name": "x"}])
    builder = foreign(table).new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow_batch(table.batch([{"id": 2, "name": "theirs"}]))
    commit.commit(write.prepare_commit())

    (place(table, own) / "snapshot" / "snapshot-1").unlink()

    with pytest.raises(LakeTableDiffersError, match="how far"):
        table.committer.head()


def test_many_commits_do_not_leave_many_manifests(tables, own):
    table = tables.make()
    for at in range(70):
        table.tier([{"id": at, "name": "x"}])

    manifests = own(table).all_manifests(own(table).head())

    assert len(manifests) < 40
    assert len(table.values()) == 70
    assert table.head().file_count == 70


def test_a_keeper_that_knows_an_older_schema_loses_no_column(tables):
    table = tables.make()
    for at in range(4):
        table.tier([{"id": at, "name": "x"}])
    keeper = table.keeper
    table = table.evolved(added(table.spec, "late"))
    for at in range(4, 8):
        table.tier([{"id": at, "name": "x", "late": "kept"}])
    rows, head = table.values(), table.head()

    keeper.commit_rewrites(
        [keeper.rewrite(work) for work in keeper.plan_rewrites(on=head)], on=head
    )

    assert table.values() == rows
    assert table.head().file_count == 1
