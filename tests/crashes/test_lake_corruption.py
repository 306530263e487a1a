"""No damage of a file in the lake gives wrong rows; what is damaged is said to be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import CorruptFileError, HeadwaterError
from headwater.model.types import BigIntType, StringType
from tests.crashes.mutations import flip, mutated, places
from tests.figures import note
from tests.lake.formats import config_of, opened
from tests.lake.lake_table import LakeTable
from tests.lake.tables import Tables

COLUMNS = {"id": BigIntType(nullable=False), "name": StringType()}
ROUNDS, ROWS = 3, 60
SHORT_EVERY = 97
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
    good = rows_of(table, snapshot_id)
    checked = 0
    for path in files_of(directory):
        content = path.read_bytes()
        for label, damaged in mutated(content)[::every]:
            path.write_bytes(damaged)
            try:
                assert rows_of(table, snapshot_id) == good, f"{path.name}: {label}"
            except HeadwaterError as fault:
                assert fault.hint
            checked += 1
        path.write_bytes(content)
    assert rows_of(table, snapshot_id) == good
    return checked


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
