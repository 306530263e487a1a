"""A catalog that commits snapshots itself is asked to do so."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from pypaimon.common.json_util import JSON

from headwater.errors import LakeCommitUnknownError, LakeMovedError
from headwater.lake.paimon.commit import PaimonCommitter
from headwater.lake.paimon.inventory import expire
from headwater.lake.spi import Retention
from headwater.runtime.clock import SystemClock
from tests.lake.lake_table import boundary_after


@dataclass
class Keeping:
    """Be a catalog that keeps the newest snapshot, and writes the files of all of them."""

    directory: str
    files: object
    newest: object = None
    fault: Exception | None = None
    supports_version_management = True

    def snapshot_loader(self):
        return SimpleNamespace(load=lambda: self.newest)

    def snapshot_commit(self, _):
        return self

    def commit(self, base_uuid, snapshot, statistics) -> bool:
        if self.fault is not None:
            raise self.fault
        if base_uuid != (None if self.newest is None else self.newest.uuid):
            return False
        self.newest = snapshot
        text = JSON.to_json(snapshot).encode()
        self.files.write(f"{self.directory}/snapshot-{snapshot.id}", text)
        return True


@pytest.fixture
def kept(tables, own):
    """Give a table, its catalog, and what commits to it through the catalog."""
    table = tables.make()
    opened = own(table)
    catalog = Keeping(f"{opened.root}/snapshot", opened.files)
    opened.handle.catalog_environment = catalog
    return table, catalog, PaimonCommitter(opened, SystemClock())


def boundary_of(results):
    return boundary_after(None, results, round_id="round")


def test_snapshots_follow_what_the_catalog_holds_for_the_newest(kept):
    table, catalog, committer = kept
    results = table.write([{"id": 1, "name": "x"}], on=None)
    boundary = boundary_of(results)

    first = committer.commit(results, boundary=boundary, on=None, properties={})
    second = committer.commit([], boundary=boundary, on=first, properties={})

    assert (first.snapshot_id, second.snapshot_id) == (1, 2)
    assert committer.head() == second
    assert catalog.newest.id == 2


def test_a_commit_that_the_catalog_refuses_has_moved(kept):
    _, catalog, committer = kept
    boundary = boundary_of([])
    first = committer.commit([], boundary=boundary, on=None, properties={})
    catalog.newest.uuid = "another"

    with pytest.raises(LakeMovedError):
        committer.commit([], boundary=boundary, on=first, properties={})


def test_a_commit_without_an_answer_is_unknown(kept):
    _, catalog, committer = kept
    catalog.fault = ConnectionError("no answer")

    with pytest.raises(LakeCommitUnknownError, match="no answer"):
        committer.commit([], boundary=boundary_of([]), on=None, properties={})


def test_snapshots_of_such_a_catalog_are_not_ours_to_drop(kept):
    _, _, committer = kept
    boundary = boundary_of([])
    head = committer.commit([], boundary=boundary, on=None, properties={})
    committer.commit([], boundary=boundary, on=head, properties={})

    cleaned = expire(committer._table, Retention(snapshots_min=1, age_ms=0), now_ms=2**60)

    assert cleaned.snapshots == 0
