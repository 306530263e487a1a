"""What a user with a rule reads, whichever way, against a naive filter of all rows."""

import itertools

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater
import headwater.duckdb
import headwater.polars
from headwater.errors import AccessError
from headwater.server.logins import Users
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.choices import examples
from tests.serving import serving

COLUMNS = {"id": "INT NOT NULL", "part": "INT NOT NULL", "region": "STRING", "amount": "BIGINT"}
LAKE = {"table.datalake.enabled": True, "table.datalake.format": "iceberg"}
NUMBERS = itertools.count()
KEYS = st.integers(0, 12)
REGIONS = st.sampled_from(["EU", "US", None])
AMOUNTS = st.one_of(st.none(), st.integers(-3, 3))
ROWS = st.builds(
    lambda key, region, amount: {"id": key, "part": key % 2, "region": region, "amount": amount},
    KEYS,
    REGIONS,
    AMOUNTS,
)
WRITES = st.lists(st.lists(ROWS, min_size=1, max_size=9), min_size=1, max_size=6)


def above(row):
    return (row["amount"] or 0) > 0 and row["region"] not in ("US", None)


# A filter as it is granted, and the same in plain Python.
FILTERS = st.sampled_from(
    [
        (None, lambda row: True),
        (("region", "=", "EU"), lambda row: row["region"] == "EU"),
        (("region", "is null"), lambda row: row["region"] is None),
        ([("amount", ">", 0), ("region", "!=", "US")], above),
        (
            [[("amount", "in", [1, 2])], [("id", "<", 3)]],
            lambda row: row["amount"] in (1, 2) or row["id"] < 3,
        ),
        (("amount", ">", 99), lambda row: False),
    ]
)
SHOWN = st.sampled_from([None, ["id", "part"], ["id", "part", "amount"]])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("visible")
    users = root / "users"
    Users({}).with_user("root", "r").with_user("ann", "a").save(users)
    flags = ("--users", str(users), "--authorizer", "--super-users", "User:root")
    with serving(root / "data", *flags) as running:
        yield running


@pytest.fixture(scope="module")
def root(server):
    with headwater.connect(server.address, user="root", password="r") as hw:
        hw.create_database("shop")
        hw.acls.grant("User:ann", "DESCRIBE", "shop")
        yield hw


@pytest.fixture(scope="module")
def ann(server):
    with headwater.connect(server.address, user="ann", password="a") as hw:
        yield hw


async def tier_all(client):
    await TieringService(client, LocalRunner(client), lakes=client.cluster.lakes).run_once()


def granted(root, name, columns, where):
    if columns is None and where is None:
        columns = list(COLUMNS)
    root.acls.grant("User:ann", "READ", f"shop.{name}", columns=columns, where=where)
    return columns or list(COLUMNS)


def seen(rows, columns, wanted):
    return in_order([{name: row[name] for name in columns} for row in rows if wanted(row)])


def in_order(rows):
    return sorted(rows, key=repr)


def through_every_engine(ann, path, columns):
    """Return the rows of a table as each engine reads them."""
    table = ann.table(path)
    yield table.scan(columns=columns).to_arrow().to_pylist()
    yield table.view().scan(columns=columns).to_arrow().to_pylist()
    with table.tail(columns=columns) as tail:
        found = [] if table.info.is_keyed else _polled(tail)
    if not table.info.is_keyed:
        yield found
    yield headwater.polars.scan(table).select(columns).collect().to_dicts()
    with duckdb.connect() as con:
        headwater.duckdb.install(con, ann)
        names = ", ".join(columns)
        yield con.sql(f"select {names} from hw.{path}").to_arrow_table().to_pylist()


def _polled(tail):
    found = []
    while batches := tail.poll(0.2):
        found += [row for batch in batches for row in batch.rows.to_pylist()]
    return found


@settings(max_examples=examples(20), deadline=None)
@given(writes=WRITES, granting=FILTERS, shown=SHOWN, is_tiered=st.booleans())
def test_every_way_to_read_a_log_gives_the_rows_of_a_naive_filter(
    root, ann, writes, granting, shown, is_tiered
):
    name = f"events_{next(NUMBERS)}"
    table = root.create_table(f"shop.{name}", COLUMNS, buckets=2, options=LAKE)
    for rows in writes:
        table.append(rows)
    if is_tiered:
        root.run(tier_all)
    columns = granted(root, name, shown, granting[0])

    answers = list(through_every_engine(ann, f"shop.{name}", columns))

    expected = seen([row for rows in writes for row in rows], columns, granting[1])
    assert [in_order(each) for each in answers] == [expected] * len(answers)


@settings(max_examples=examples(20), deadline=None)
@given(writes=WRITES, granting=FILTERS, shown=SHOWN, is_tiered=st.booleans())
def test_every_way_to_read_by_key_gives_the_rows_of_a_naive_filter(
    root, ann, writes, granting, shown, is_tiered
):
    name = f"orders_{next(NUMBERS)}"
    key = {"primary_key": ["part", "id"], "bucket_by": "part", "buckets": 2}
    table = root.create_table(f"shop.{name}", COLUMNS, **key, options=LAKE)
    held = {}
    for number, rows in enumerate(writes):
        table.upsert(rows)
        held |= {row["id"]: row for row in rows}
        if is_tiered and number == len(writes) // 2:
            root.run(tier_all)
    columns = granted(root, name, shown, granting[0])
    found = ann.table(f"shop.{name}")
    keys = [{"part": each % 2, "id": each} for each in range(13)]

    answers = [
        *through_every_engine(ann, f"shop.{name}", columns),
        found.lookup(keys, columns=columns).to_pylist(),
        [row for each in keys for row in found.lookup([each], columns=columns).to_pylist()],
        found.prefix_lookup([{"part": 0}, {"part": 1}], columns=columns).to_pylist(),
        _folded(ann.table(f"shop.{name}$changelog"), columns),
    ]

    expected = seen(held.values(), columns, granting[1])
    assert [in_order(each) for each in answers] == [expected] * len(answers)
    if shown is None:
        rows = [row for each in keys if (row := found.get((each["part"], each["id"])))]
        assert in_order(rows) == expected


def _folded(changes, columns):
    """Fold the changelog that the user sees: it is that of the rows that the user sees."""
    rows = changes.scan(columns=[*columns, "_change_type"])
    held = {}
    for row in rows.to_arrow().to_pylist():
        kind = row.pop("_change_type")
        if kind in ("update_before", "delete"):
            assert held.pop(row["id"]) == row
        else:
            assert row["id"] not in held
            held[row["id"]] = row
    return list(held.values())


def test_other_columns_are_refused_by_name_however_they_are_asked_for(root, ann):
    table = root.create_table("shop.cards", {**COLUMNS, "card": "STRING"}, primary_key=["id"])
    table.upsert({"id": 1, "part": 1, "region": "EU", "amount": 1, "card": "4711"})
    root.acls.grant("User:ann", "READ", "shop.cards", columns=["id", "amount"])
    found, changes = ann.table("shop.cards"), ann.table("shop.cards$changelog")

    for refused in (
        lambda: found.scan().to_arrow(),
        lambda: found.scan(columns=["id"], where=("card", "=", "4711")).to_arrow(),
        lambda: found.get(1),
        lambda: found.lookup([1], columns=["card"]),
        lambda: changes.scan(columns=["card"]).to_arrow(),
        lambda: ann.table("shop.cards$binlog").scan().to_arrow(),
    ):
        with pytest.raises(AccessError, match=r"card.* of table shop\.cards.*: id, amount\."):
            refused()


def test_rows_that_only_the_lake_has_are_refused_and_not_left_out(root, ann):
    table = root.create_table("shop.old", COLUMNS, options=LAKE)
    table.append([{"id": 1, "part": 1, "region": "EU", "amount": 1}])
    root.run(tier_all)
    root.acls.grant("User:ann", "READ", "shop.old", where=("region", "=", "EU"))
    table.append([{"id": 2, "part": 0, "region": "EU", "amount": 1}])

    assert ann.table("shop.old").scan().to_arrow().num_rows == 2
    with pytest.raises(AccessError, match="only some columns or rows"):
        ann.table("shop.old").scan(mode="lake").to_arrow()
    text = str(ann.table("shop.old").view().plan())
    assert ".parquet" not in text
    assert "warehouse" not in text
