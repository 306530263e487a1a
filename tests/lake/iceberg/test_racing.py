"""A commit is one swap of the newest snapshot: others cannot slip in, nor be lost."""

import multiprocessing

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from requests import ConnectionError as NetworkError

from headwater.errors import LakeCommitUnknownError, LakeMovedError, LakeUnreachableError
from headwater.lake.iceberg.catalog import open_catalog
from headwater.lake.iceberg.commit import IcebergCommitter
from headwater.lake.iceberg.plugin import IcebergStorage
from headwater.model.types import BigIntType, StringType
from headwater.runtime.clock import SystemClock
from tests.choices import EVERYTHING
from tests.lake.formats import config_of
from tests.lake.lake_table import LakeTable, boundary_after

PROCESSES = 3 if EVERYTHING else 2
ROUNDS = 4


def commit_rounds(config, spec, number: int) -> None:
    table = LakeTable(IcebergStorage(config), spec)
    for at in range(ROUNDS):
        row = number * ROUNDS + at
        while True:
            try:
                table.tier([{"id": row, "name": "x"}], round_id=f"{number}-{at}")
                break
            except LakeMovedError:
                continue


def test_rounds_of_several_processes_all_arrive_once(tables, config):
    table = tables.make()
    fork = multiprocessing.get_context("spawn")
    workers = [
        fork.Process(target=commit_rounds, args=(config, table.spec, number))
        for number in range(PROCESSES)
    ]

    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [row["id"] for row in sorted(table.values(), key=lambda row: row["id"])] == list(
        range(PROCESSES * ROUNDS)
    )
    assert len(table.source.snapshots()) == PROCESSES * ROUNDS


class Catalog(SqlCatalog):
    """Be a catalog that does something else at the next commit."""

    def __init__(self, inner, instead) -> None:
        self.inner, self.instead = inner, instead
        self.properties = inner.properties

    def load_table(self, identifier):
        table = self.inner.load_table(identifier)
        table.catalog = self
        return table

    def commit_table(self, table, requirements, updates):
        instead, self.instead = self.instead, lambda commit: commit()
        return instead(lambda: self.inner.commit_table(table, requirements, updates))


@pytest.fixture
def committed(tables, config):
    """Commit a row through a catalog that does something else once."""

    def commit(table, instead):
        head = table.committer.head()
        results = table.write([{"id": 1, "name": "a"}], on=head)
        catalog = Catalog(open_catalog(config), instead)
        committer = IcebergCommitter(catalog, table.spec, config, SystemClock())
        boundary = boundary_after(head, results, round_id="r")
        return committer.commit(results, boundary=boundary, on=head, properties={})

    return commit


def test_a_commit_whose_answer_was_lost_is_found(tables, committed):
    table = tables.make()

    def commit_and_fail(commit):
        commit()
        raise NetworkError("the connection broke")

    snapshot = committed(table, commit_and_fail)

    assert table.head() == snapshot
    assert len(table.values()) == 1


def test_a_commit_that_nobody_can_tell_of_is_unknown(tables, committed):
    table = tables.make()

    def fail(commit):
        raise NetworkError("the connection broke")

    with pytest.raises(LakeCommitUnknownError):
        committed(table, fail)
    assert table.committer.head() is None


def test_a_full_disk_is_told(tables, committed):
    table = tables.make()

    def fail(commit):
        raise OSError(28, "No space left on device")

    with pytest.raises(LakeUnreachableError, match="No space left"):
        committed(table, fail)
    assert table.committer.head() is None


def test_others_that_only_change_properties_are_no_obstacle(tables, committed, foreign):
    table = tables.make()

    def after_properties(commit):
        with foreign(table.spec).transaction() as change:
            change.set_properties({"owner": "someone"})
        raise CommitFailedException("someone was quicker")

    snapshot = committed(table, after_properties)

    assert table.head() == snapshot
    assert foreign(table.spec).properties["owner"] == "someone"


def test_a_commit_after_a_foreign_append_is_refused_and_leaves_no_manifests(
    tables, committed, foreign
):
    table = tables.make()

    def after_append(commit):
        foreign(table.spec).append(pa.table(table.batch([{"id": 9, "name": "z"}])))
        return commit()

    with pytest.raises(LakeMovedError):
        committed(table, after_append)
    assert [row["id"] for row in table.values()] == [9]


def ensure(config, spec) -> None:
    IcebergStorage(config).catalog().ensure(spec)


def test_drivers_that_make_the_first_table_at_once_all_find_it(tables, tmp_path):
    config = config_of("iceberg", tmp_path)
    spec = tables.spec({"id": BigIntType(), "name": StringType()})
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=ensure, args=(config, spec)) for _ in range(PROCESSES)]

    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    assert IcebergStorage(config).catalog().list_tables() == [spec.path]
