"""Rows of an epoch are checked before anything is written."""

import pytest

from headwater import aio, errors


async def refused(tmp_path, kind, rows, *, make=None, **arguments):
    async with await aio.open(tmp_path / "data") as client:
        schema = {"id": "BIGINT", "name": "STRING NOT NULL"}
        table = await client.create_table("people", schema, **(make or {"primary_key": "id"}))
        given = {"sink": "jobs", "epoch": 0, **arguments}
        with pytest.raises(kind) as caught:
            await table.write_epoch(rows, **given)
        assert await table.count() == 0
        return str(caught.value)


async def test_a_row_that_is_written_has_all_it_promises(tmp_path):
    rows = [{"id": 1, "gone": True}, {"id": 2, "gone": False}]

    said = await refused(tmp_path, errors.InvalidValueError, rows, deletes="gone")

    assert "'name' contains 1 nulls" in said


async def test_rows_of_a_log_cannot_be_deleted(tmp_path):
    rows = [{"id": 1, "name": "Ada", "gone": True}]

    said = await refused(
        tmp_path, errors.NotPrimaryKeyTableError, rows, make={"buckets": 1}, deletes="gone"
    )

    assert "cannot be deleted" in said


async def test_rows_are_not_deleted_by_some_columns(tmp_path):
    said = await refused(
        tmp_path,
        errors.InvalidTargetColumnError,
        [{"id": 1, "name": "Ada", "gone": True}],
        deletes="gone",
        columns=["id", "name"],
    )

    assert "only some columns" in said


async def test_deletes_are_not_marked_in_a_column_of_the_table(tmp_path):
    rows = [{"id": 1, "name": "Ada"}]

    said = await refused(tmp_path, errors.InvalidValueError, rows, deletes="name")

    assert "is a column of" in said


@pytest.mark.parametrize(
    "arguments",
    [{"sink": ""}, {"sink": "x" * 300}, {"epoch": -1}, {"lane": -1}, {"epoch": 1, "begins": {}}],
)
async def test_what_names_no_epoch_is_refused(tmp_path, arguments):
    rows = [{"id": 1, "name": "Ada"}]

    await refused(tmp_path, errors.InvalidValueError, rows, **arguments)


async def test_no_rows_write_nothing_and_make_no_ledger(tmp_path):
    async with await aio.open(tmp_path / "data") as client:
        table = await client.create_table("people", {"id": "BIGINT"})

        receipt = await table.write_epoch([], sink="jobs", epoch=0)

        assert (receipt.rows, receipt.offsets) == (0, {})
        assert "headwater" not in await client.list_databases()
