"""What a lake does not hold any more goes from its object store, and nothing else does."""

import pytest

from headwater.errors import LakeUnreachableError, UnsupportedError
from headwater.lake.paimon.files import create_object
from headwater.lake.spi import Retention
from headwater.model.types import BigIntType
from tests.lake.formats import opened
from tests.lake.tables import Tables

FAR_AHEAD_MS = 2**45
ROUNDS = 6  # enough files to be worth compacting
KEYS = {
    "iceberg": ("s3.access-key-id", "s3.secret-access-key"),
    "paimon": ("s3.access-key", "s3.secret-key"),
}
VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def row(number: int, name: str = "a") -> dict[str, object]:
    return {"id": number, "name": name}


def test_expired_snapshots_leave_no_objects(table, objects):
    for number in range(ROUNDS):
        table.tier([row(0, str(number)), row(number + 1)])
    table.compact()
    held, rows = objects(), table.values()

    cleaned = table.keeper.expire(Retention(snapshots_min=1, age_ms=0), now_ms=FAR_AHEAD_MS)

    gone = held - objects()
    assert cleaned.snapshots == ROUNDS
    assert len([each for each in gone if each.endswith(".parquet")]) >= ROUNDS
    assert table.values() == rows


def test_objects_that_no_snapshot_holds_are_removed(table, objects):
    table.tier([row(1)])
    held = objects()
    table.write([row(2)], on=table.head())
    assert objects() > held

    table.keeper.remove_orphans(older_than_ms=FAR_AHEAD_MS)

    assert {each for each in objects() if each.endswith(".parquet")} == {
        each for each in held if each.endswith(".parquet")
    }
    assert table.values() == [row(1)]


def test_aborted_results_leave_no_objects(table, objects):
    table.tier([row(1)])
    held = objects()
    results = table.write([row(2)], on=table.head())

    table.committer.abort(results)

    assert objects() == held


def test_a_dropped_table_leaves_no_objects(lake, table, objects):
    table.tier([row(1)])

    lake.catalog().drop(table.spec.path)

    assert objects() == set()


def test_keys_are_taken_from_the_configuration(lake_format, config, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name)
    key, secret = KEYS[lake_format]
    lake = opened(lake_format, {**config, key: "access", secret: "secret"})
    table = Tables(lake).make({"id": BigIntType(nullable=False)}, key=("id",))

    table.tier([{"id": 1}])

    assert table.values() == [{"id": 1}]


def test_a_bucket_that_is_not_there_is_named(lake_format, config):
    lake = opened(lake_format, {**config, "warehouse": "s3://nowhere/warehouse"})

    with pytest.raises(LakeUnreachableError, match="nowhere"):
        Tables(lake).make({"id": BigIntType()})


@pytest.mark.parametrize(("scheme", "package"), [("gs", "gcsfs"), ("abfs", "adlfs")])
def test_other_stores_need_a_package_that_is_named(scheme, package):
    with pytest.raises(UnsupportedError, match=f"'{package}'.*pip install {package}"):
        create_object(f"{scheme}://bucket/file", b"content", options={})
