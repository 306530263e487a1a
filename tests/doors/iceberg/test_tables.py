"""Tables that pyiceberg reads through the catalog have exactly the rows of their position."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, IsNull, LessThan, StartsWith
from pyiceberg.table import StaticTable

from headwater.doors.iceberg.snapshots import POSITION
from headwater.runtime.clock import SystemClock
from tests.doors.iceberg.opening import LAKE, opened_shop, sorted_rows

SCHEMA = {"id": "BIGINT", "city": "STRING", "amount": "DECIMAL(9, 2)"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with opened_shop(tmp_path_factory.mktemp("shop")) as opened:
        yield opened


def rows(start, end, city="Ulm"):
    return [(at, city if at % 3 else None, Decimal(at) / 4) for at in range(start, end)]


def log_table(shop, name, **traits):
    traits = {"buckets": 2, "bucket_by": "id", "options": LAKE, **traits}
    return shop.hw.create_table(name, SCHEMA, **traits)


def keyed_table(shop, name, **traits):
    traits = {"buckets": 2, "primary_key": "id", "options": LAKE, **traits}
    return shop.hw.create_table(name, SCHEMA, **traits)


def test_a_log_table_shows_lake_and_log_as_one(shop):
    table = log_table(shop, "log")
    table.append(rows(0, 50))
    shop.tier()
    table.append(rows(50, 60))

    loaded = shop.loaded("log")

    assert loaded.scan().count() == 60
    assert loaded.current_snapshot().summary["total-records"] == "60"


def test_a_table_by_key_shows_the_last_row_of_each_key(shop):
    table = keyed_table(shop, "keyed")
    table.upsert(rows(0, 50))
    shop.tier()
    table.upsert(rows(45, 60, city="Bonn"))
    table.delete([(3,), (4,), (59,)])

    loaded = shop.loaded("keyed")

    found = loaded.scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [each for each in range(59) if each not in (3, 4)]
    deleted = int(loaded.current_snapshot().summary["added-position-deletes"])
    assert deleted == 7


def test_a_key_that_the_lake_lost_before_is_not_deleted_twice(shop):
    table = keyed_table(shop, "again")
    table.upsert(rows(0, 20))
    shop.tier()
    table.delete([(1,), (2,)])
    shop.tier()
    table.upsert(rows(1, 4, city="back"))

    loaded = shop.loaded("again")

    assert int(loaded.current_snapshot().summary["added-position-deletes"]) == 1


def test_tables_that_were_never_tiered_are_shown(shop):
    log_table(shop, "new_log").append(rows(0, 20))
    keyed = keyed_table(shop, "new_keyed")
    keyed.upsert(rows(0, 20))
    keyed.delete([(7,)])
    log_table(shop, "empty")

    assert shop.loaded("new_log").scan().count() == 20
    assert shop.loaded("new_keyed").scan().count() == 19
    assert shop.loaded("empty").scan().count() == 0


def test_a_table_stays_the_same_table_when_it_is_tiered_first(shop):
    table = log_table(shop, "stays")
    table.append(rows(0, 10))
    before = shop.loaded("stays")
    shop.tier()
    table.append(rows(10, 20))

    before.refresh()

    assert before.scan().count() == 20


def test_a_table_whose_lake_is_paimon_is_shown(shop):
    paimon = {**LAKE, "table.datalake.format": "paimon"}
    log, keyed = log_table(shop, "p_log", options=paimon), keyed_table(shop, "p", options=paimon)
    log.append(rows(0, 30))
    keyed.upsert(rows(0, 30))
    shop.tier()
    log.append(rows(30, 35))
    keyed.upsert(rows(28, 35, city="Kiel"))
    keyed.delete([(1,)])

    assert shop.loaded("p_log").scan().count() == 35
    assert shop.loaded("p").scan().count() == 34


def test_a_table_without_a_lake_says_what_to_do(shop):
    shop.hw.create_table("plain", SCHEMA).append(rows(0, 3))

    with pytest.raises(RESTError, match="--tail-directory"):
        shop.load("plain")


def test_partitions_are_those_of_the_lake(shop):
    table = log_table(shop, "parted", partition_by=["city"])
    keyed = keyed_table(shop, "k_parted", partition_by=["city"], primary_key=["city", "id"])
    for each in (table, keyed):
        for city in ("Ulm", "Bonn"):
            each.create_partition({"city": city})
    for city in ("Ulm", "Bonn"):
        some = [(at, city, Decimal(at)) for at in range(20)]
        table.append(some)
        keyed.upsert(some)
    shop.tier()
    table.append([(at, "Ulm", Decimal(0)) for at in range(20, 25)])
    keyed.upsert([(at, "Ulm", Decimal(0)) for at in range(18, 25)])
    keyed.delete([("Bonn", 0)])

    parted, by_key = shop.loaded("parted"), shop.loaded("k_parted")

    assert parted.scan(row_filter=EqualTo("city", "Ulm")).count() == 25
    assert by_key.scan(row_filter=EqualTo("city", "Bonn")).to_arrow().num_rows == 19
    ulm = parted.scan(row_filter=EqualTo("city", "Ulm")).plan_files()
    assert {task.file.partition[0] for task in ulm} == {"Ulm"}


def test_filters_skip_files_and_lose_no_row(shop):
    table = log_table(shop, "filtered", buckets=3)
    table.append(rows(0, 30))
    shop.tier()
    table.append(rows(100, 130, city="Bonn"))
    shop.load("filtered")
    table.append(rows(1000, 1003, city="Ulm"))

    loaded = shop.loaded("filtered")

    everything = loaded.scan().to_arrow()
    wanted = [
        (
            And(GreaterThanOrEqual("id", 100), LessThan("id", 110)),
            lambda row: 100 <= row["id"] < 110,
        ),
        (EqualTo("id", 1001), lambda row: row["id"] == 1001),
        (In("id", [5, 105, 1002]), lambda row: row["id"] in (5, 105, 1002)),
        (IsNull("city"), lambda row: row["city"] is None),
        (StartsWith("city", "Bo"), lambda row: (row["city"] or "").startswith("Bo")),
        (GreaterThanOrEqual("amount", Decimal("250.00")), lambda row: row["amount"] >= 250),
    ]
    for row_filter, keeps in wanted:
        found = loaded.scan(row_filter=row_filter).to_arrow()
        assert found.to_pylist() != []
        assert sorted_rows(found) == sorted(filter(keeps, everything.to_pylist()), key=repr)
    files = len(list(loaded.scan().plan_files()))
    assert len(list(loaded.scan(row_filter=EqualTo("id", 1001)).plan_files())) < files / 2
    assert loaded.scan(selected_fields=("city",)).to_arrow().column_names == ["city"]


def test_tiered_snapshots_stand_in_the_metadata_as_they_are(shop):
    table = log_table(shop, "past")
    table.append(rows(0, 10))
    shop.tier()
    table.append(rows(10, 30))
    shop.tier()
    table.append(rows(30, 40))

    loaded = shop.loaded("past")

    tiered = [
        each for each in loaded.snapshots() if POSITION not in each.summary.additional_properties
    ]
    counts = [loaded.scan(snapshot_id=each.snapshot_id).count() for each in tiered]
    assert sorted(counts) == [10, 30]
    assert loaded.current_snapshot().parent_snapshot_id in {each.snapshot_id for each in tiered}


def test_columns_that_the_lake_does_not_have_yet_are_shown(shop):
    table = log_table(shop, "evolving")
    table.append(rows(0, 10))
    shop.tier()
    table.append(rows(10, 12))
    shop.load("evolving")
    table.add_column("note", "STRING")
    table.append([(12, "Ulm", Decimal(1), "new")])
    table.rename_column("city", "town")

    loaded = shop.loaded("evolving")

    assert loaded.scan().to_arrow().column_names == ["id", "town", "amount", "note"]
    assert loaded.scan(row_filter=EqualTo("note", "new")).count() == 1
    shop.tier()
    table.append([(13, "Ulm", Decimal(1), "newer")])
    assert shop.loaded("evolving").scan().count() == 14


def test_a_position_is_named_behind_the_name(shop):
    table = log_table(shop, "named")
    table.append(rows(0, 10))
    token = table.view().token()
    shop.tier()
    table.append(rows(10, 20))

    at_token = shop.loaded(f"named@{token}")
    at_lake = shop.load("named@lake")

    assert at_token.scan().count() == 10
    assert at_lake.scan().count() == 10
    with pytest.raises(RESTError, match="no position"):
        shop.load("named@yesterday")
    with pytest.raises(RESTError, match="checksum"):
        shop.load(f"named@{token[:-3]}")
    with pytest.raises(NoSuchTableError):
        shop.load("nobody@lake")


def test_a_moment_is_a_position_as_well(shop):
    table = log_table(shop, "moment")
    table.append(rows(0, 10))
    clock = SystemClock()
    moment = clock.now_ms() + 1
    deadline = clock.monotonic() + 10
    while clock.now_ms() <= moment and clock.monotonic() < deadline:
        pass
    table.append(rows(10, 20))

    text = datetime.fromtimestamp(moment / 1000, UTC).isoformat()
    asked = shop.door.ask(f"/v1/namespaces/fluss/tables/moment?as_of={quote(text)}")

    assert asked.status == 200
    assert shop.loaded(f"moment@{text}").scan().count() == 10
    assert shop.loaded(f"moment@{moment}").scan().count() == 10
    both = shop.door.ask("/v1/namespaces/fluss/tables/moment@lake?as_of=0")
    assert (both.status, both.body["error"]["type"]) == (400, "BadRequestException")


def test_the_metadata_is_a_file_that_stands_alone(shop):
    table = keyed_table(shop, "static")
    table.upsert(rows(0, 20))
    shop.tier()
    table.upsert(rows(10, 30))

    loaded = shop.loaded("static")
    static = StaticTable.from_metadata(loaded.metadata_location)

    assert sorted_rows(static.scan().to_arrow()) == sorted_rows(loaded.scan().to_arrow())


TYPES = {
    "flag": ("BOOLEAN", [True, None]),
    "tiny": ("TINYINT", [-128, None]),
    "small": ("SMALLINT", [32767, None]),
    "number": ("INT", [-5, None]),
    "big": ("BIGINT", [2**62, None]),
    "single": ("FLOAT", [1.5, None]),
    "double": ("DOUBLE", [float("inf"), None]),
    "price": ("DECIMAL(30, 6)", [Decimal("123456789012345678.000001"), None]),
    "code": ("CHAR(3)", ["abc", None]),
    "text": ("STRING", ["\u00fc\U0001f600", None]),
    "fixed": ("BINARY(4)", [b"\0\1\2\3", None]),
    "bytes": ("BYTES", [b"\xff\0", None]),
    "day": ("DATE", [date(1969, 12, 31), None]),
    "clock": ("TIME(3)", [time(23, 59, 59, 999000), None]),
    "local": ("TIMESTAMP(6)", [datetime(2026, 11, 18, 1, 2, 3, 123456), None]),
    "instant": ("TIMESTAMP_LTZ(6)", [datetime(2026, 11, 18, 1, 2, 3, 654321, tzinfo=UTC), None]),
    "list": ("ARRAY<INT>", [[1, None, 3], None]),
    "map": ("MAP<STRING, BIGINT>", [[("a", 1), ("b", None)], None]),
    "row": ("ROW<a INT, b STRING>", [{"a": 1, "b": None}, None]),
    "nothing": ("STRING", [None, None]),
}


def test_every_type_comes_as_it_went_in(shop):
    columns = {"id": "BIGINT", **{name: kind for name, (kind, _) in TYPES.items()}}
    table = shop.hw.create_table("typed", columns, options=LAKE, bucket_by="id", buckets=1)
    values = [
        {"id": at, **{name: both[at % 2] for name, (_, both) in TYPES.items()}} for at in range(4)
    ]
    rows_of = pa.Table.from_pylist(values, table.schema)
    table.append(rows_of.slice(0, 2))
    shop.tier()
    table.append(rows_of.slice(2))

    found = shop.loaded("typed").scan().to_arrow().sort_by("id")

    for name in TYPES:
        assert found[name].to_pylist() == rows_of[name].to_pylist(), name


def test_nanoseconds_are_refused_and_not_rounded(shop):
    paimon = {**LAKE, "table.datalake.format": "paimon"}
    columns = {"id": "BIGINT", "at": "TIMESTAMP(9)"}
    shop.hw.create_table("nanos", columns, options=paimon, bucket_by="id")

    with pytest.raises(RESTError, match="microseconds"):
        shop.load("nanos")
