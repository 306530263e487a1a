"""A warehouse that was moved or copied with its catalog is refused, and nobody is harmed."""

import shutil

import pytest

from headwater.errors import LakeTableDiffersError, LakeUnreachableError
from headwater.lake.lakes import open_lake
from headwater.lake.spi import LakeTableSpec
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.types import BigIntType

SPEC = LakeTableSpec(
    path=TablePath("db", "t"),
    schema=with_column_ids(Schema(columns=(Column(name="id", type=BigIntType()),))),
)


def lake_in(directory):
    return open_lake("iceberg", {"warehouse": str(directory)})


@pytest.fixture
def home(tmp_path):
    lake_in(tmp_path / "home").catalog().ensure(SPEC)
    return tmp_path / "home"


def test_a_copy_of_a_warehouse_does_not_write_to_the_original(home, tmp_path):
    shutil.copytree(home, tmp_path / "copy")
    copy = lake_in(tmp_path / "copy")

    with pytest.raises(LakeTableDiffersError, match="moved or copied"):
        copy.committer(SPEC).head()
    with pytest.raises(LakeTableDiffersError, match="moved or copied"):
        copy.catalog().ensure(SPEC)
    with pytest.raises(LakeTableDiffersError, match="moved or copied"):
        copy.catalog().drop(SPEC.path)

    assert lake_in(home).committer(SPEC).head() is None


def test_a_warehouse_that_was_moved_says_so(home, tmp_path):
    home.rename(tmp_path / "elsewhere")

    with pytest.raises(LakeTableDiffersError, match="moved or copied"):
        lake_in(tmp_path / "elsewhere").committer(SPEC).head()


def test_a_catalog_in_a_directory_that_is_missing_is_not_made_up(tmp_path):
    uri = f"sqlite:///{tmp_path / 'misspelt' / 'catalog.sqlite'}"
    config = {"type": "sql", "uri": uri, "warehouse": str(tmp_path / "warehouse")}

    with pytest.raises(LakeUnreachableError):
        open_lake("iceberg", config).catalog().list_tables()

    assert not (tmp_path / "misspelt").exists()
