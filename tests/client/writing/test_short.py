"""The short way for few rows writes what the long way writes, in order, and nothing twice."""

import sys
import threading
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater
from headwater.errors import DisconnectedError, HeadwaterError
from headwater.wire.apis import ApiKey
from tests.serving import serving

PLAIN = {
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "STRING": st.text(max_size=20),
    "BOOLEAN": st.booleans(),
    "BYTES": st.binary(max_size=20),
    "DECIMAL(10, 2)": st.decimals(-1000, 1000, places=2),
    "DATE": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "TIMESTAMP(6)": st.datetimes(),
    "ARRAY<INT>": st.lists(st.integers(0, 9), max_size=3),
}
ODD = st.sampled_from(
    [
        None,
        "x",
        "12",
        1,
        2**40,
        2**70,
        -1.5,
        1.0,
        True,
        b"\xff",
        "\ud800",
        Decimal("1.234"),
        [1],
        {},
    ]
)
KEY_TYPES = ("INT", "BIGINT", "STRING")
NUMBERS = count()


@pytest.fixture(scope="module", params=["embedded", "served"])
def storage(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("short") / "data"
    if request.param == "embedded":
        with headwater.open(directory) as client:
            yield client
        return
    with serving(directory) as server, headwater.connect(server.address) as client:
        yield client


@st.composite
def tables(draw, *, keyed):
    """Return columns, and rows of which nearly all fit them."""
    kinds = draw(st.lists(st.sampled_from(list(PLAIN)), min_size=1, max_size=4))
    if keyed:
        kinds = [draw(st.sampled_from(KEY_TYPES)), *kinds]
    nullable = [not (keyed and at == 0) and draw(st.booleans()) for at in range(len(kinds))]
    columns = {
        f"c{at}": kind if may_be_null else f"{kind} NOT NULL"
        for at, (kind, may_be_null) in enumerate(zip(kinds, nullable, strict=True))
    }
    calls = draw(st.lists(rows_of(dict(zip(columns, kinds, strict=True))), max_size=4))
    return columns, calls


@st.composite
def rows_of(draw, kinds):
    """Return what one call writes: a row, several, rows by place, or something odd."""
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        row = {name: draw(PLAIN[kind]) for name, kind in kinds.items()}
        for name in draw(st.sets(st.sampled_from(list(kinds)), max_size=1)):
            row[name] = draw(ODD)
        if draw(st.integers(0, 9)) == 0:
            row.pop(draw(st.sampled_from(list(kinds))))
        if draw(st.integers(0, 19)) == 0:
            row["other"] = 1
        rows.append(row)
    form = draw(st.sampled_from(["one", "one", "many", "tuples"]))
    if form == "one":
        return rows[0]
    return rows if form == "many" else [tuple(row.values()) for row in rows]


def outcome(write, rows, name):
    """Return the receipt of a write, or the error, without the name of the table."""
    try:
        receipt = write(rows)
    except HeadwaterError as fault:
        return type(fault), str(fault).replace(name, "table")
    return receipt


def both(storage, columns, **traits):
    """Return two tables of a kind: one for the short way, one for the long one."""
    number = next(NUMBERS)
    return [storage.create_table(f"{way}_{number}", columns, **traits) for way in ("short", "long")]


def by_the_long_way(table, verb):
    return lambda rows: table._loop.run(getattr(table._table, verb)(rows))


def stored(storage, table):
    """Return every stored row, of a keyed table with its offset and what it changed."""
    name = f"{table.name}$changelog" if table.is_keyed else table.name
    rows = storage.table(name).scan(start="earliest", end="latest").to_pylist()
    return [{key: row[key] for key in row if key != "_commit_timestamp"} for row in rows]


@settings(max_examples=60, deadline=None)
@given(given_rows=tables(keyed=False))
def test_rows_are_appended_as_by_the_long_way(storage, given_rows):
    columns, calls = given_rows
    short, long = both(storage, columns, buckets=1)

    for rows in calls:
        told = outcome(short.append, rows, short.name)
        assert told == outcome(by_the_long_way(long, "append"), rows, long.name)

    assert stored(storage, short) == stored(storage, long)
    assert short.offsets() == long.offsets()


@settings(max_examples=60, deadline=None)
@given(given_rows=tables(keyed=True))
def test_rows_are_upserted_as_by_the_long_way(storage, given_rows):
    columns, calls = given_rows
    short, long = both(storage, columns, primary_key="c0", buckets=1)

    for rows in calls * 2:
        told = outcome(short.upsert, rows, short.name)
        assert told == outcome(by_the_long_way(long, "upsert"), rows, long.name)

    assert stored(storage, short) == stored(storage, long)
    assert sorted(map(str, short.scan().to_pylist())) == sorted(map(str, long.scan().to_pylist()))
    assert short.offsets() == long.offsets()


def test_partitions_and_bucket_keys_lead_to_the_same_places(storage):
    traits = {"partition_by": "day", "bucket_by": "id", "buckets": 3}
    short, long = both(storage, {"id": "BIGINT", "day": "STRING"}, **traits)

    for number in range(40):
        row = {"id": number % 7, "day": f"d{number % 3}"}
        assert short.append(row) == by_the_long_way(long, "append")(row)


class Watched:
    """Count what goes the short way, in this process or over a wire, and let some go wrong."""

    def __init__(self, way, fate=lambda number: "") -> None:
        self.way, self.fate, self.count = way, fate, 0

    def write(self, request, *, timeout_s):
        fate = self.next_fate()
        if fate == "lost":
            return -1, DisconnectedError("It was lost.")
        answer = self.way.write(request, timeout_s=timeout_s)
        return (-1, DisconnectedError("The answer was lost.")) if fate == "taken" else answer

    def exchange(self, address, api, parts, *, timeout_s):
        if api.key not in (ApiKey.PRODUCE_LOG, ApiKey.PUT_KV):
            return self.way.exchange(address, api, parts, timeout_s=timeout_s)
        fate = self.next_fate()
        if fate == "lost":
            raise DisconnectedError("It was lost.")
        answer = self.way.exchange(address, api, parts, timeout_s=timeout_s)
        if fate == "taken":
            raise DisconnectedError("The answer was lost.")
        return answer

    def next_fate(self):
        self.count += 1
        fate = self.fate(self.count)
        if fate == "interrupted":
            raise KeyboardInterrupt
        return fate

    def close(self):
        self.way.close()


@contextmanager
def watched(table, fate=lambda number: ""):
    cluster = table._table.cluster
    name = "blocking" if cluster.writes is None else "writes"
    before = getattr(cluster, name)
    watching = Watched(before, fate)
    setattr(cluster, name, watching)
    try:
        yield watching
    finally:
        setattr(cluster, name, before)


def test_few_plain_rows_go_the_short_way(storage):
    table, _ = both(storage, {"id": "BIGINT", "name": "STRING", "v": "DOUBLE"})
    keyed, _ = both(storage, {"id": "BIGINT", "name": "STRING"}, primary_key="id", buckets=1)
    table.append({"id": 0})
    keyed.upsert({"id": 0})

    with watched(table) as writes:
        table.append({"id": 1, "name": "x", "v": 1.0})
        table.append([{"id": 2}, (3, "y", None)][:1])
        keyed.upsert({"id": 1, "name": "x"})
        keyed.upsert([(1, "y")])

    assert writes.count == 4
    assert keyed.get(1) == {"id": 1, "name": "y"}


@pytest.mark.parametrize("fate", ["lost", "taken"])
def test_a_write_of_unknown_outcome_is_sent_again_and_there_once(storage, fate):
    table, _ = both(storage, {"id": "BIGINT"}, buckets=1)
    keyed, _ = both(storage, {"id": "BIGINT", "v": "INT"}, primary_key="id", buckets=1)
    table.append({"id": -1})
    keyed.upsert({"id": -1, "v": 0})

    with watched(table, lambda number: fate if number % 2 else "") as writes:
        ends = [table.append({"id": number}).buckets[0].end_offset for number in range(10)]
        for number in range(10):
            keyed.upsert({"id": 1, "v": number})

    assert writes.count == 20
    assert ends == list(range(2, 12))
    assert table.scan().to_arrow()["id"].to_pylist() == list(range(-1, 10))
    assert keyed.get(1) == {"id": 1, "v": 9}
    assert sum(keyed.offsets().values()) == 1 + 1 + 9 * 2


def test_an_interrupted_write_is_finished_and_leaves_the_way_free(storage):
    table, _ = both(storage, {"id": "BIGINT"}, buckets=1)
    table.append({"id": 0})

    with watched(table, lambda number: "interrupted" if number == 1 else "") as writes:
        with pytest.raises(KeyboardInterrupt):
            table.append({"id": 1})
        table.append({"id": 2})
        table.append({"id": 3})

    assert writes.count >= 2
    assert table.scan().to_arrow()["id"].to_pylist() == [0, 1, 2, 3]


def interrupted(step, write, rows):
    """Write rows, interrupted where Python would be by Ctrl-C: at a call, or behind one."""
    left = [step]

    def look(frame, event, _):
        is_ours = "/headwater/write/" in frame.f_code.co_filename
        if is_ours and event in ("call", "c_return"):
            left[0] -= 1
            if not left[0]:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        write(rows)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def test_an_interruption_at_any_point_leaves_the_way_free_and_writes_nothing_twice(storage):
    table, _ = both(storage, {"id": "BIGINT"}, buckets=1)
    table.append({"id": 0})
    table.append({"id": -1})

    step = 1
    while interrupted(step, table.append, {"id": step}):
        table.append({"id": 1000 + step})
        step += 1

    found = table.scan().to_arrow()["id"].to_pylist()
    assert step > 20
    assert len(found) == len(set(found))
    assert {1000 + each for each in range(1, step)} < set(found)


def test_a_refusal_is_told_as_by_the_long_way(storage):
    tables = both(storage, {"id": "BIGINT"}, buckets=1)
    for table in tables:
        table.append({"id": 0})
        storage.drop_table(table.path)
    short, long = tables

    with watched(short) as writes:
        told = outcome(short.append, {"id": 1}, short.name)

    assert writes.count == 1
    assert told == outcome(by_the_long_way(long, "append"), {"id": 1}, long.name)
    assert issubclass(told[0], HeadwaterError)


ROWS_EACH = 60


def append_shortly(table, who):
    for at in range(ROWS_EACH):
        table.append({"who": who, "at": at})


def append_by_the_long_way(table, who):
    for at in range(ROWS_EACH):
        by_the_long_way(table, "append")({"who": who, "at": at})


def append_with_a_writer(table, who):
    with table.writer() as writer:
        for at in range(ROWS_EACH):
            writer.append({"who": who, "at": at})


def test_every_thread_and_way_keeps_its_order_and_writes_once(storage):
    table, _ = both(storage, {"who": "INT", "at": "INT"}, buckets=1)
    table.append({"who": -1, "at": 0})
    work = [append_shortly, append_shortly, append_by_the_long_way, append_with_a_writer]
    threads = [threading.Thread(target=each, args=(table, who)) for who, each in enumerate(work)]

    with watched(table, lambda number: "taken" if number % 5 == 0 else "") as writes:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = table.scan().to_arrow().to_pylist()
    for who in range(len(work)):
        assert [row["at"] for row in found if row["who"] == who] == list(range(ROWS_EACH))
    assert writes.count > 0


def test_closing_waits_for_what_another_thread_writes(tmp_path):
    began, go_on = threading.Event(), threading.Event()
    client = headwater.open(tmp_path / "data")
    table = client.create_table("rows", {"id": "BIGINT"}, buckets=1)
    table.append({"id": 0})

    def fate(_):
        began.set()
        go_on.wait(10)
        return ""

    told = []
    writing = threading.Thread(target=lambda: told.append(table.append({"id": 1})))
    closing = threading.Thread(target=client.close)
    with watched(table, fate):
        writing.start()
        began.wait(10)
        closing.start()
        closing.join(0.2)
        is_waiting = closing.is_alive()
        go_on.set()
        writing.join()
        closing.join()

    assert is_waiting
    assert told[0].rows == 1
    with headwater.open(tmp_path / "data") as again:
        assert again.table("rows").scan().to_arrow()["id"].to_pylist() == [0, 1]
