"""No damage of a file in the lake gives wrong rows; what is damaged is said to be."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, FileFormat

from headwater.errors import CorruptFileError, HeadwaterError
from headwater.lake.iceberg.read import held_fields
from headwater.lake.spi import Retention
from headwater.model.types import BigIntType, StringType
from tests.crashes.mutations import flip, mutated, places
from tests.figures import note
from tests.lake.formats import config_of, opened
from tests.lake.lake_table import LakeTable
from tests.lake.tables import Tables

COLUMNS = {"id": BigIntType(nullable=False), "name": StringType()}
ROUNDS, ROWS = 3, 60
SHORT_EVERY = 97
UNNOTICED_SHARE = 500
PARTITION = b'"field-id": 102'  # as Iceberg numbers the field of manifests
AVRO, AVRO_MARK_BYTES = b"Obj\x01", 16
FAR_MS = 1 << 42
FORMATS = pytest.mark.parametrize("lake_format", ["iceberg", "paimon"])


def filled(lake_format: str, directory: Path) -> LakeTable:
    lake = opened(lake_format, config_of(lake_format, directory))
    table = Tables(lake).make(COLUMNS, key=("id",))
    for turn in range(ROUNDS):
        rows = [
            {"id": turn * 20 + at, "name": f"{turn} text {at * 7919 % 100}"} for at in range(ROWS)
        ]
        table.tier(rows, deleted=[False] * (ROWS - 1) + [True])
    return table


def rows_of(table: LakeTable, snapshot_id: int) -> list[str]:
    return sorted(map(str, table.values(snapshot_id)))


def files_of(directory: Path) -> Iterator[Path]:
    """Yield every file of the lake but the catalog, which is a database of others."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and "sqlite" not in path.name:
            yield path


def check_every(table: LakeTable, directory: Path, *, every: int) -> int:
    """Damage one file after the other, read, and mend it again."""
    snapshot_id = table.head().snapshot_id
    good, wrong, checked = rows_of(table, snapshot_id), [], 0
    for path in files_of(directory):
        content = path.read_bytes()
        for label, damaged in mutated(content)[::every]:
            path.write_bytes(damaged)
            if not is_told_or_right(table, snapshot_id, good):
                wrong.append(f"{path.name}: {label}")
            checked += 1
        path.write_bytes(content)
    assert rows_of(table, snapshot_id) == good
    # Nothing in Iceberg sums up a manifest: one bit in hundreds there is for audits to find.
    assert [each for each in wrong if ".avro: flip" not in each] == []
    assert len(wrong) * UNNOTICED_SHARE <= checked
    return checked


def is_told_or_right(table: LakeTable, snapshot_id: int, good: list[str]) -> bool:
    try:
        return rows_of(table, snapshot_id) == good
    except HeadwaterError as fault:
        return bool(fault.hint)


@FORMATS
def test_damage_of_a_file_in_the_lake_gives_no_wrong_rows(tmp_path, lake_format):
    table = filled(lake_format, tmp_path)

    assert check_every(table, tmp_path, every=SHORT_EVERY) > 20


@pytest.mark.torture
@pytest.mark.timeout(1800)
@FORMATS
def test_damage_at_any_64th_of_any_file_in_the_lake_gives_no_wrong_rows(tmp_path, lake_format):
    table = filled(lake_format, tmp_path)

    note("corruption", places=check_every(table, tmp_path, every=1))


def lists_of_files(directory: Path) -> list[Path]:
    """Return the files of metadata that list others, in both formats."""
    return [path for path in files_of(directory) if path.read_bytes().startswith(AVRO)]


def cut_behind_its_head(path: Path) -> bytes:
    """Leave an Avro file that is whole and lists nothing, and return what it was."""
    content = path.read_bytes()
    mark = content[-AVRO_MARK_BYTES:]
    path.write_bytes(content[: content.index(mark) + AVRO_MARK_BYTES])
    return content


def newest_list(table: LakeTable, directory: Path) -> Path:
    return next(directory.rglob(f"snap-{table.head().snapshot_id}-*.avro"))


@FORMATS
def test_a_list_of_files_that_lost_all_that_it_lists_gives_no_wrong_rows(tmp_path, lake_format):
    table = filled(lake_format, tmp_path)
    snapshot_id = table.head().snapshot_id
    good, wrong, lists = rows_of(table, snapshot_id), [], lists_of_files(tmp_path)
    for path in lists:
        content = cut_behind_its_head(path)
        if not is_told_or_right(table, snapshot_id, good):
            wrong.append(path.name)
        path.write_bytes(content)

    assert len(lists) > ROUNDS
    assert wrong == []


def test_nothing_is_committed_on_a_list_that_lost_all_that_it_lists(tmp_path):
    table = filled("iceberg", tmp_path)
    head = table.head()
    good, path = rows_of(table, head.snapshot_id), newest_list(table, tmp_path)
    content = cut_behind_its_head(path)

    with pytest.raises(CorruptFileError, match=r"lists none of the \d+ data files"):
        table.tier([{"id": 1000, "name": "new"}])

    path.write_bytes(content)
    assert table.head() == head
    assert rows_of(table, head.snapshot_id) == good


def test_nothing_is_removed_while_a_list_has_lost_all_that_it_lists(tmp_path):
    table = filled("iceberg", tmp_path)
    before = {path for path in files_of(tmp_path) if path.suffix == ".parquet"}
    cut_behind_its_head(newest_list(table, tmp_path))

    with pytest.raises(CorruptFileError):
        table.keeper.expire(Retention(snapshots_min=1, age_ms=0), now_ms=FAR_MS)

    assert {path for path in files_of(tmp_path) if path.suffix == ".parquet"} == before


def test_an_inventory_names_a_list_that_lost_all_that_it_lists(tmp_path):
    table = filled("iceberg", tmp_path)
    path = newest_list(table, tmp_path)
    cut_behind_its_head(path)

    missing = table.keeper.inventory().missing

    assert [path.name in each.path and "lists none" in each.fault for each in missing] == [True]


@FORMATS
def test_a_flipped_bit_among_the_values_is_told_with_the_file(tmp_path, lake_format):
    table = filled(lake_format, tmp_path)
    snapshot_id = table.head().snapshot_id
    victim = next(path for path in files_of(tmp_path) if path.suffix == ".parquet")
    content, faults = victim.read_bytes(), []
    for at in places(len(content)):
        victim.write_bytes(flip(content, at))
        try:
            rows_of(table, snapshot_id)
        except HeadwaterError as fault:
            faults.append(fault)

    told = [each for each in faults if victim.name in each.message]
    assert len(told) > 10
    assert all(
        "headwater audit" in each.hint for each in told if isinstance(each, CorruptFileError)
    )


def test_a_manifest_whose_fields_are_others_is_told(tmp_path):
    table = filled("iceberg", tmp_path)
    for manifest in tmp_path.rglob("*-m*.avro"):
        content = manifest.read_bytes()
        assert PARTITION in content
        manifest.write_bytes(content.replace(PARTITION, PARTITION.replace(b"102", b"103")))

    with pytest.raises(CorruptFileError, match="cannot be read"):
        rows_of(table, table.head().snapshot_id)


def test_a_name_that_no_file_can_have_is_told():
    file = DataFile.from_args(file_path="/lake/a\0b.parquet", file_format=FileFormat.PARQUET)

    with pytest.raises(CorruptFileError, match="cannot be read"):
        held_fields(PyArrowFileIO(), file)
