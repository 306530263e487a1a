"""The file of a lake catalog is deleted under a tierer: told, and nothing wrong committed."""

import pytest

import headwater
from headwater.errors import LakeUnreachableError
from headwater.tiering.progress import TurnEnded, TurnFailed
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner

OPTIONS = {"table.datalake.enabled": True, "table.datalake.format": "iceberg"}


@pytest.fixture
def storage(tmp_path):
    with headwater.open(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def catalog_file(tmp_path):
    return tmp_path / "data" / "lake" / "iceberg" / "catalog.sqlite"


def rows(*ids):
    return [{"id": each} for each in ids]


class Deleting(LocalRunner):
    """Delete a file when a round has begun to write."""

    def __init__(self, client, file):
        super().__init__(client)
        self._file = file

    async def run(self, *given, **named):
        self._file.unlink(missing_ok=True)
        return await super().run(*given, **named)


def tier(storage, runner=LocalRunner):
    heard = []

    async def once(client):
        await TieringService(client, runner(client), listener=heard.append).run_once()

    storage.run(once)
    return next(news for news in reversed(heard) if isinstance(news, TurnEnded | TurnFailed))


def ids(table, **position):
    return sorted(row["id"] for row in table.scan(**position).to_pylist())


def test_a_round_whose_catalog_is_deleted_fails_and_the_next_one_starts_anew(storage, catalog_file):
    table = storage.create_table("t", {"id": "BIGINT"}, buckets=1, options=OPTIONS)
    table.append(rows(1, 2))
    tier(storage)
    table.append(rows(3))

    failed = tier(storage, lambda client: Deleting(client, catalog_file))
    between = ids(storage.table("t"))
    done = tier(storage)

    assert isinstance(failed, TurnFailed)
    assert isinstance(failed.fault, LakeUnreachableError)
    assert "was deleted or replaced" in str(failed.fault)
    assert isinstance(done, TurnEnded)
    assert between == [1, 2, 3]
    assert ids(storage.table("t"), mode="lake") == [1, 2, 3]


def test_a_lake_that_begins_anew_without_being_asked_to_is_told(storage, catalog_file, caplog):
    table = storage.create_table("t", {"id": "BIGINT"}, buckets=1, options=OPTIONS)
    table.append(rows(1, 2))
    tier(storage)

    catalog_file.unlink()
    tier(storage)

    assert "lake table was tiered before and is empty" in caplog.text
    assert ids(storage.table("t"), mode="lake") == [1, 2]
