"""Rows by key: the last change of each key wins, in a round and over rounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.types import (
    BigIntType,
    BinaryType,
    BytesType,
    DateType,
    DecimalType,
    IntType,
    StringType,
    TimestampLtzType,
    TimestampType,
)
from tests.lake.contract.samples import SAMPLES

KEYS = (
    IntType(),
    BigIntType(),
    StringType(),
    DateType(),
    TimestampType(precision=6),
    TimestampLtzType(precision=3),
    DecimalType(precision=9, scale=2),
    DecimalType(precision=38, scale=10),
    BytesType(),
    BinaryType(length=4),
)


def named(table, *rows: tuple[int, str]):
    return table.batch([{"id": key, "name": name} for key, name in rows])


def pairs(table, snapshot_id: int | None = None) -> list[tuple[object, object]]:
    return [(row["id"], row["name"]) for row in table.values(snapshot_id)]


def test_a_later_round_replaces_the_rows_of_its_keys(tables):
    table = tables.keyed()
    table.tier(named(table, (1, "a"), (2, "b"), (3, "c")))

    table.tier(named(table, (2, "B"), (4, "d")))

    assert pairs(table) == [(1, "a"), (2, "B"), (3, "c"), (4, "d")]


def test_a_deleted_key_is_gone(tables):
    table = tables.keyed()
    table.tier(named(table, (1, "a"), (2, "b")))

    table.tier(named(table, (1, "a")), deleted=[True])

    assert pairs(table) == [(2, "b")]


def test_deleting_a_key_that_is_not_there_changes_no_row(tables):
    table = tables.keyed()
    table.tier(named(table, (1, "a")))

    table.tier(named(table, (9, "?")), deleted=[True])

    assert pairs(table) == [(1, "a")]


def test_a_first_round_may_only_delete(tables):
    table = tables.keyed()

    table.tier(named(table, (9, "?")), deleted=[True])

    assert pairs(table) == []
    assert table.head().boundary is not None


def test_the_last_of_many_changes_in_a_round_wins(tables):
    table = tables.keyed()
    changes = [(1, "a"), (2, "x"), (1, "b"), (1, "c"), (2, "y"), (3, "z"), (3, "z")]

    table.tier(named(table, *changes), deleted=[False, False, False, False, False, False, True])

    assert pairs(table) == [(1, "c"), (2, "y")]


def test_a_key_can_come_back_after_it_was_deleted(tables):
    table = tables.keyed()
    table.tier(named(table, (1, "a")))
    table.tier(named(table, (1, "a")), deleted=[True])

    table.tier(named(table, (1, "again")))

    assert pairs(table) == [(1, "again")]


def test_delete_then_insert_in_one_round_leaves_the_new_row(tables):
    table = tables.keyed()
    table.tier(named(table, (1, "a"), (2, "b")))
    flags = [True, False, False, True]

    table.tier(named(table, (1, "a"), (1, "new"), (2, "c"), (2, "c")), deleted=flags)

    assert pairs(table) == [(1, "new")]


def test_every_row_can_be_deleted_and_others_follow(tables):
    table = tables.keyed(bucket_count=2)
    rows = [(at, "x") for at in range(20)]
    table.tier(named(table, *rows))

    table.tier(named(table, *rows), deleted=[True] * 20)
    empty = pairs(table)
    table.tier(named(table, (3, "y")))

    assert empty == []
    assert pairs(table) == [(3, "y")]


def test_many_batches_of_one_round_are_folded_together(lake, tables):
    table = tables.keyed()
    (task,) = table.committer.write_tasks([((), 0)], on=None)
    writer = lake.writer(table.spec, task)
    for turn in range(10):
        writer.write(named(table, *((key, f"{turn}") for key in range(turn, 20))))

    table.commit([writer.finish()], on=None)

    assert pairs(table) == sorted(
        [(key, str(min(key, 9))) for key in range(20)], key=lambda p: str(p[0])
    )


def test_an_older_snapshot_keeps_the_older_rows(tables):
    table = tables.keyed()
    first = table.tier(named(table, (1, "a"), (2, "b")))
    second = table.tier(named(table, (1, "A"), (2, "b")), deleted=[False, True])
    table.tier(named(table, (1, "AA")))

    assert pairs(table, first.snapshot_id) == [(1, "a"), (2, "b")]
    assert pairs(table, second.snapshot_id) == [(1, "A")]


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_a_key_of_any_type_finds_its_older_row(tables, kind):
    columns = {"shard": IntType(nullable=False), "id": kind.not_null(), "name": StringType()}
    # Not every format can tell buckets by every type, or by empty texts.
    table = tables.make(columns, key=("shard", "id"), bucket_keys=("shard",), bucket_count=2)
    keys = [key for key in SAMPLES[kind] if key is not None]
    table.tier([{"shard": 1, "id": key, "name": "old"} for key in keys])

    table.tier([{"shard": 1, "id": key, "name": "new"} for key in keys[1:]])

    names = [name for _, name in pairs(table)]
    assert sorted(names) == ["new"] * (len(keys) - 1) + ["old"]


def test_a_key_of_several_columns_is_told_apart_whole(tables):
    columns = {
        "a": StringType(nullable=False),
        "b": IntType(nullable=False),
        "v": StringType(),
    }
    table = tables.make(columns, key=("a", "b"), bucket_keys=("b",), bucket_count=2)
    table.tier([{"a": a, "b": b, "v": "old"} for a in ("x", "xy", "") for b in (1, 2)])

    table.tier([{"a": "x", "b": 2, "v": "new"}, {"a": "", "b": 1, "v": "new"}])

    assert {(row["a"], row["b"]) for row in table.values() if row["v"] == "new"} == {
        ("x", 2),
        ("", 1),
    }
    assert len(table.values()) == 6


@pytest.mark.parametrize("in_rounds", [1, 4])
def test_rows_come_in_the_order_of_the_key_where_the_format_can(tables, in_rounds):
    table = tables.keyed()
    if not table.source.is_key_ordered:
        pytest.skip("the format keeps no order")
    for turn in range(in_rounds):
        table.tier(named(table, *((key, "x") for key in range(19 - turn, -1, -in_rounds - 1))))

    for split in table.source.plan(table.head().snapshot_id):
        batches = list(table.source.read(split, in_key_order=True))
        ids = [each for batch in batches for each in batch["id"].to_pylist()]
        assert ids == sorted(set(ids))
        assert ids


CHANGES = st.lists(st.tuples(st.integers(0, 7), st.booleans()), min_size=1, max_size=12)


@settings(max_examples=12)
@given(rounds=st.lists(CHANGES, min_size=1, max_size=4))
def test_rounds_of_changes_leave_what_a_dictionary_would(tables, rounds):
    table = tables.keyed(bucket_count=2)
    model: dict[int, str] = {}
    for number, changes in enumerate(rounds):
        names = [f"{number}.{at}" for at in range(len(changes))]
        keys = [key for key, _ in changes]
        deleted = [gone for _, gone in changes]
        table.tier(named(table, *zip(keys, names, strict=True)), deleted=deleted)
        for key, name, gone in zip(keys, names, deleted, strict=True):
            model.pop(key, None) if gone else model.update({key: name})

    assert pairs(table) == sorted(model.items())
