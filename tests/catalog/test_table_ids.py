"""Ids of tables and partitions: they only grow, and copies of a directory share none."""

import shutil

from headwater.model.path import TablePath
from tests.catalog.samples import ORDERS, FakeClock, open_catalog, partitioned_table

MADE = TablePath("fluss", "made")
# Tools that read JSON numbers as floating point numbers keep them exact up to here.
EXACT_MAX = 2**53


def made(directory, *, clock=None) -> tuple[int, int]:
    """Make a table with a partition, drop both, and return their ids."""
    catalog = open_catalog(directory, clock=clock)
    try:
        table = catalog.tables.create(MADE, partitioned_table("day"))
        partition = catalog.partitions.create(MADE, {"day": "monday"})
        catalog.tables.drop(MADE)
        return table.table_id, partition.partition_id
    finally:
        catalog.close()


def test_copies_of_a_directory_never_give_the_same_id(tmp_path):
    clock = FakeClock()  # Stands still: the starts cannot be told apart by it.
    made(tmp_path / "a", clock=clock)
    for name in "bc":
        shutil.copytree(tmp_path / "a", tmp_path / name)

    found = [made(tmp_path / name, clock=clock) for name in "abcabc"]

    for ids in zip(*found, strict=True):
        assert len(set(ids)) == len(found)
        assert max(ids) < EXACT_MAX


def test_a_copy_gives_larger_ids_than_its_original_did_before(tmp_path):
    clock = FakeClock()
    first = made(tmp_path / "a", clock=clock)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    found = [first]
    for name in "abba":
        clock.time_ms += 1000
        found.append(made(tmp_path / name, clock=clock))

    for ids in zip(*found, strict=True):
        assert list(ids) == sorted(set(ids))


def test_a_new_directory_counts_its_tables_from_one(tmp_path):
    catalog = open_catalog(tmp_path)

    assert catalog.tables.create(ORDERS, partitioned_table("day")).table_id == 1
    assert catalog.partitions.create(ORDERS, {"day": "monday"}).partition_id == 1
    catalog.close()
