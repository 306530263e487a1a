"""A lake that cannot be reached or written says so, in words that help."""

import shutil

import pytest

from headwater.errors import HeadwaterError, LakeUnreachableError
from headwater.model.types import BigIntType
from tests.lake.formats import config_of, opened
from tests.lake.lake_table import LakeTable
from tests.lake.tables import Tables


@pytest.fixture
def below_a_file(tmp_path, lake_format):
    """Give a lake whose warehouse lies below a regular file, so that nothing can be made there."""
    (tmp_path / "file").write_text("no directory")
    config = dict(config_of(lake_format, tmp_path))
    if "uri" in config:
        config["warehouse"] = f"file://{tmp_path}/file/warehouse"
    else:
        config["warehouse"] = f"{tmp_path}/file/warehouse"
    return lambda: opened(lake_format, config)


def test_a_table_cannot_be_made_where_nothing_can_be_written(below_a_file, tables):
    spec = tables.spec({"id": BigIntType()})

    with pytest.raises(LakeUnreachableError):
        below_a_file().catalog().ensure(spec)


def test_the_error_names_the_place_and_what_to_do(below_a_file, tables):
    spec = tables.spec({"id": BigIntType()})

    with pytest.raises(LakeUnreachableError) as caught:
        below_a_file().catalog().ensure(spec)

    assert "file/warehouse" in str(caught.value)
    assert caught.value.hint
    assert caught.value.retriable


def test_a_catalog_that_cannot_be_opened_says_so(tmp_path, lake_format, tables):
    (tmp_path / "file").write_text("no directory")

    with pytest.raises(LakeUnreachableError):
        opened(lake_format, config_of(lake_format, tmp_path / "file")).catalog().ensure(
            tables.spec({"id": BigIntType()})
        )


@pytest.fixture
def blocked(tmp_path, lake_format):
    """Give a table, and what puts a file in the place of the directory that it lies in."""
    lake = opened(lake_format, config_of(lake_format, tmp_path))
    table = Tables(lake).make()
    table.tier([{"id": 1, "name": "a"}])

    def block() -> None:
        shutil.move(tmp_path / "warehouse", tmp_path / "elsewhere")
        (tmp_path / "warehouse").write_text("no directory")

    def unblock() -> None:
        (tmp_path / "warehouse").unlink()
        shutil.move(tmp_path / "elsewhere", tmp_path / "warehouse")

    return LakeTable(lake, table.spec), block, unblock


def test_writing_fails_with_an_error_of_the_lake(blocked):
    table, block, _ = blocked
    (task,) = table.committer.write_tasks([((), 0)], on=table.head())
    writer = table.lake.writer(table.spec, task)
    block()

    with pytest.raises(LakeUnreachableError):
        _written(writer, table.batch([{"id": 2, "name": "b"}]))
    writer.abort()


def _written(writer, rows):
    writer.write(rows)
    return writer.finish()


def test_committing_fails_and_can_be_done_again_later(blocked):
    table, block, unblock = blocked
    head = table.head()
    results = table.write([{"id": 2, "name": "b"}], on=head)
    committer = table.committer
    block()
    with pytest.raises(HeadwaterError):
        table.commit(results, on=head)

    unblock()
    table.commit(results, on=table.head())

    assert [row["id"] for row in table.values()] == [1, 2]
    assert committer.head() == table.head()


def test_reading_fails_with_an_error_of_the_lake(blocked):
    table, block, _ = blocked
    source, head = table.source, table.head()
    splits = source.plan(head.snapshot_id)
    block()

    with pytest.raises(LakeUnreachableError):
        _ = [batch for split in splits for batch in source.read(split)]


def test_aborting_never_raises(blocked):
    table, block, _ = blocked
    results = table.write([{"id": 2, "name": "b"}], on=table.head())
    committer = table.committer
    block()

    committer.abort(results)
