"""The log reads as Fluss's $changelog and $binlog, however it is cut into batches."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidTableError, NotPrimaryKeyTableError, UnsupportedError
from headwater.model.bucket import TableBucket
from headwater.read.offsets import LogBatch
from headwater.read.virtual import (
    Binlog,
    Changelog,
    VirtualKind,
    check_shape,
    read_only,
    shaper,
    split_virtual,
    virtual_schema,
)
from headwater.rows.log_batch import ChangeType
from tests.cases import cases
from tests.rows.strategies import record_batches, scalar_types, schema_of

INSERT, BEFORE, AFTER, DELETE = list(ChangeType)[1:]
SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string())])
NOW_MS = 1_700_000_000_123
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def log(*changes, start=0, names=None, timestamp_ms=NOW_MS):
    """Return a batch that holds the changes, of rows (0, "a"), (1, "b") and so on."""
    texts = names or [chr(ord("a") + place) for place in range(len(changes))]
    columns = [pa.array(range(len(texts)), pa.int32()), pa.array(texts, pa.string())]
    rows = pa.record_batch(columns, schema=SCHEMA)
    offsets = np.arange(start, start + len(changes), dtype=np.int64)
    return of_rows(rows, np.array(changes, dtype=np.uint8), offsets, timestamp_ms=timestamp_ms)


def of_rows(rows, changes, offsets, *, timestamp_ms=NOW_MS):
    return LogBatch(
        rows=rows,
        changes=changes,
        offsets=offsets,
        timestamp_ms=timestamp_ms,
        bucket=TableBucket(1, 0),
        partition=None,
    )


def cut(batch, places):
    """Return the batch in pieces."""
    ends = [*sorted(places), batch.rows.num_rows]
    return [
        of_rows(batch.rows[start:end], batch.changes[start:end], batch.offsets[start:end])
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


def folded(batch):
    """Return what $binlog holds, row by row: texts, offsets, and places of before and after."""
    rows, before = [], None
    for place, change in enumerate(batch.changes):
        offset = int(batch.offsets[place])
        if change == INSERT:
            rows.append(("insert", offset, None, place))
        elif change == DELETE:
            rows.append(("delete", offset, place, None))
        elif change == BEFORE:
            before = (offset, place)
        else:
            rows.append(("update", *before, place))
    return rows


@st.composite
def logs(draw):
    effects = draw(
        st.lists(st.sampled_from([(INSERT,), (DELETE,), (BEFORE, AFTER)]), min_size=1, max_size=6)
    )
    changes = [change for effect in effects for change in effect]
    schema = schema_of(draw(st.lists(scalar_types(), min_size=1, max_size=4)))
    count = len(changes)
    rows = draw(record_batches(schema, rows_min=count, rows_max=count))
    offsets = np.arange(7, 7 + count, dtype=np.int64)
    return of_rows(rows, np.array(changes, dtype=np.uint8), offsets)


def test_a_changelog_has_three_columns_before_those_of_the_table():
    assert virtual_schema(SCHEMA, VirtualKind.CHANGELOG) == pa.schema(
        [
            pa.field("_change_type", pa.string(), nullable=False),
            pa.field("_log_offset", pa.int64(), nullable=False),
            pa.field("_commit_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
            *SCHEMA,
        ]
    )


def test_a_binlog_has_the_row_before_and_after_as_nullable_rows():
    image = pa.struct(list(SCHEMA))

    schema = virtual_schema(SCHEMA, VirtualKind.BINLOG)

    assert schema.names[:3] == ["_change_type", "_log_offset", "_commit_timestamp"]
    assert schema.field("before") == pa.field("before", image, nullable=True)
    assert schema.field("after") == pa.field("after", image, nullable=True)


def test_a_changelog_shows_every_record():
    batch = log(INSERT, BEFORE, AFTER, DELETE, start=10)

    shaped = Changelog(SCHEMA).shape(batch)

    shaped.validate(full=True)
    assert shaped.to_pylist()[1] == {
        "_change_type": "update_before",
        "_log_offset": 11,
        "_commit_timestamp": NOW,
        "id": 1,
        "name": "b",
    }
    texts = ["insert", "update_before", "update_after", "delete"]
    assert shaped["_change_type"].to_pylist() == texts


def test_a_changelog_of_a_log_table_inserts():
    batch = of_rows(log(INSERT, INSERT).rows, None, np.array([5, 9], dtype=np.int64))

    shaped = Changelog(SCHEMA).shape(batch)

    assert shaped["_change_type"].to_pylist() == ["insert", "insert"]
    assert shaped["_log_offset"].to_pylist() == [5, 9]


def test_a_binlog_shows_every_change_and_reports_an_update_at_its_first_offset():
    batch = log(INSERT, BEFORE, AFTER, DELETE, start=4)

    shaped = Binlog(SCHEMA).shape(batch)

    a, b, c, d = batch.rows.to_pylist()
    assert shaped.select(["_change_type", "_log_offset", "before", "after"]).to_pylist() == [
        {"_change_type": "insert", "_log_offset": 4, "before": None, "after": a},
        {"_change_type": "update", "_log_offset": 5, "before": b, "after": c},
        {"_change_type": "delete", "_log_offset": 7, "before": d, "after": None},
    ]
    assert shaped["_commit_timestamp"].to_pylist() == [NOW] * 3


def test_an_update_between_two_batches_is_shown_with_the_second():
    binlog = Binlog(SCHEMA)

    first = binlog.shape(log(INSERT, BEFORE, start=0))
    held = binlog.held_offset
    second = binlog.shape(log(AFTER, names=["new"], start=2, timestamp_ms=NOW_MS + 5))

    assert (first.num_rows, held, binlog.held_offset) == (1, 1, None)
    assert second["before"].to_pylist() == [{"id": 1, "name": "b"}]
    assert second["after"].to_pylist() == [{"id": 0, "name": "new"}]
    assert second["_log_offset"].to_pylist() == [1]
    assert second["_commit_timestamp"].to_pylist() == [NOW]


def test_a_held_record_outlives_an_empty_batch():
    binlog = Binlog(SCHEMA)
    binlog.shape(log(BEFORE))

    between = binlog.shape(log(start=1))

    assert between.num_rows == 0
    assert binlog.held_offset == 0


@given(logs(), st.data())
def test_a_binlog_is_the_fold_of_the_log_wherever_it_is_cut(batch, data):
    places = data.draw(st.lists(st.integers(0, batch.rows.num_rows), max_size=3))
    binlog = Binlog(batch.rows.schema)

    shaped = [binlog.shape(piece) for piece in cut(batch, places)]

    texts, offsets, befores, afters = zip(*folded(batch), strict=True)
    images = batch.rows.to_struct_array()
    table = pa.Table.from_batches(shaped).combine_chunks()
    table.validate(full=True)
    assert table["_change_type"].to_pylist() == list(texts)
    assert table["_log_offset"].to_pylist() == list(offsets)
    assert table["before"].chunk(0).equals(images.take(pa.array(befores, pa.int64())))
    assert table["after"].chunk(0).equals(images.take(pa.array(afters, pa.int64())))


def test_a_column_without_nulls_holds_none_below_a_missing_row(tmp_path):
    shaped = Binlog(SCHEMA).shape(log(INSERT, DELETE))
    table = pa.Table.from_batches([shaped])

    pq.write_table(table, tmp_path / "binlog.parquet")

    assert shaped["before"].field("id").null_count == 0
    assert shaped["before"].field("name").null_count == 1
    assert pq.read_table(tmp_path / "binlog.parquet").equals(table)


@cases(
    ("changes", "offset"),
    [
        ((INSERT, AFTER), 11),
        ((AFTER,), 10),
        ((BEFORE, INSERT), 10),
        ((BEFORE, BEFORE, AFTER), 10),
        ((BEFORE, AFTER, AFTER), 12),
    ],
)
def test_half_an_update_is_refused_by_its_offset(changes, offset):
    with pytest.raises(UnsupportedError, match=rf"offset {offset}\..*WAL"):
        Binlog(SCHEMA).shape(log(*changes, start=10))


def test_halves_that_do_not_follow_each_other_are_no_update():
    binlog = Binlog(SCHEMA)
    binlog.shape(log(BEFORE, start=3))

    with pytest.raises(UnsupportedError, match=r"offset 3\."):
        binlog.shape(log(AFTER, start=5))


@cases("changes", [None, np.zeros(2, dtype=np.uint8)])
def test_a_log_table_has_no_binlog(changes):
    batch = of_rows(log(INSERT, INSERT).rows, changes, np.arange(2))

    with pytest.raises(NotPrimaryKeyTableError):
        Binlog(SCHEMA).shape(batch)
    with pytest.raises(NotPrimaryKeyTableError, match=r"Read a\.b\$changelog"):
        check_shape("a.b", VirtualKind.BINLOG, is_keyed=False)


@cases(
    ("kind", "is_keyed"),
    [(None, False), (VirtualKind.CHANGELOG, False), (VirtualKind.BINLOG, True)],
)
def test_a_table_has_the_other_shapes(kind, is_keyed):
    check_shape("a.b", kind, is_keyed=is_keyed)


def test_the_kind_decides_the_shaper():
    assert isinstance(shaper(SCHEMA, VirtualKind.CHANGELOG), Changelog)
    assert isinstance(shaper(SCHEMA, VirtualKind.BINLOG), Binlog)


@cases(
    ("path", "parts"),
    [
        ("a.b", ("a.b", None)),
        ("b$changelog", ("b", VirtualKind.CHANGELOG)),
        ("a.b$binlog", ("a.b", VirtualKind.BINLOG)),
    ],
)
def test_a_suffix_names_the_shape(path, parts):
    assert split_virtual(path) == parts


@cases("path", ["a.b$lake", "a.b$lake$snapshots"])
def test_the_lake_is_a_way_to_read_a_table_and_has_no_name_of_its_own(path):
    with pytest.raises(UnsupportedError, match="mode='lake'"):
        split_virtual(path)


@cases("path", ["a.b$", "a.b$lakes", "a.b$changelog$binlog"])
def test_another_suffix_is_refused_with_those_that_there_are(path):
    with pytest.raises(InvalidTableError, match=r"\$changelog and \$binlog"):
        split_virtual(path)


def test_a_virtual_table_refuses_writes_by_name():
    refusal = read_only("a.b", VirtualKind.BINLOG, wanted="upsert")

    assert "a.b$binlog" in str(refusal)
    assert "upsert" in str(refusal)
    assert refusal.hint == "Use a.b."
