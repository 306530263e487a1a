"""Changes are folded as a dictionary of Python would fold them."""

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.lake.split import LakeFile
from headwater.model.types import BigIntType
from tests.client.union.merge.folds import LIMITS, PLENTY, fold_of, folded_of
from tests.client.union.merge.histories import History, histories, identity, table_of, values_of

SIZES = st.integers(1, 50)
# Nothing is known of its keys, so every key may be in it.
FILE = LakeFile(path="/a.parquet", row_count=1, byte_count=1, is_plain=True)


@given(histories(), SIZES, LIMITS)
def test_rows_of_the_lake_and_the_tail_are_the_rows_there_are(
    history: History, size: int, limit: int
) -> None:
    folded = folded_of(history, size=size, limit=limit)

    kept = folded.without_changed(iter(history.lake_batches(size)))
    rows = history.seen([*kept, *folded.live()])

    assert rows == values_of(history.state)


@given(histories(), SIZES, LIMITS)
def test_every_changed_key_is_told_once(history: History, size: int, limit: int) -> None:
    folded = folded_of(history, size=size, limit=limit)

    keys = folded.changed_keys()

    assert keys.column_names == list(history.table.schema.primary_key)
    assert sorted(map(repr, history.keys_in(keys))) == sorted(map(repr, history.changed))
    assert folded.key_count == len(history.changed)


@given(histories(), SIZES, LIMITS)
def test_where_inserts_are_told_only_keys_of_the_lake_hide_its_rows(
    history: History, size: int, limit: int
) -> None:
    folded = folded_of(history, size=size, limit=limit, tells_new=True)
    held = [key for name, key in history.changed.items() if name in history.lake]

    keys = folded.changed_keys()
    kept = folded.without_changed(iter(history.lake_batches(size)))
    rows = history.seen([*kept, *folded.live()])

    assert sorted(map(repr, history.keys_in(keys))) == sorted(map(repr, held))
    assert rows == values_of(history.state)
    assert folded.key_count == len(history.changed)


def test_a_tail_of_new_keys_touches_no_file() -> None:
    history = History(table_of([BigIntType()]))
    for number in range(100):
        history.put((number,), number, is_wal=False)

    for limit in (PLENTY, 300):
        folded = folded_of(history, limit=limit, tells_new=True)

        assert folded.is_spilled == (limit == 300)
        assert not folded.may_touch(FILE)
        assert folded_of(history, limit=limit).may_touch(FILE)


@given(histories(), SIZES, LIMITS, st.data())
def test_a_fold_goes_on_and_what_it_gave_before_stays(
    history: History, size: int, limit: int, data: st.DataObject
) -> None:
    batches = history.batches(size)
    cut = data.draw(st.integers(0, len(batches)))
    fold = fold_of(history, limit=limit, tells_new=data.draw(st.booleans()))
    for batch in batches[:cut]:
        fold.add(batch)
    before = fold.folded()
    first = history.seen(list(before.live()))

    for batch in batches[cut:]:
        fold.add(batch)

    rows = fold.folded().without_changed(iter(history.lake_batches(size)))
    assert history.seen([*rows, *fold.folded().live()]) == values_of(history.state)
    assert history.seen(list(before.live())) == first


def test_a_row_stays_what_it_was_where_its_update_is_cut_in_two() -> None:
    history = History(table_of([BigIntType()]))
    history.put((1,), 10, is_wal=False)
    history.put((1,), 20, is_wal=False)
    cut = replace(history, changes=history.changes[:2])

    folded = folded_of(cut)

    assert [kind.name for kind, _, _ in history.changes][1:] == ["UPDATE_BEFORE", "UPDATE_AFTER"]
    assert history.seen(list(folded.live())) == {identity((1,)): 10}


def test_a_row_of_the_lake_stays_where_only_the_first_half_of_its_update_is_there() -> None:
    history = History(table_of([BigIntType()]))
    history.put((1,), 10, is_wal=False)
    history.lake = dict(history.state)
    history.put((1,), 20, is_wal=False)
    cut = replace(history, changes=history.changes[1:2])

    folded = folded_of(cut)

    assert folded.key_count == 0
    kept = list(folded.without_changed(iter(history.lake_batches(1))))
    assert history.seen(kept) == {identity((1,)): 10}


def test_some_columns_of_rows_can_be_asked_for() -> None:
    history = History(table_of([BigIntType()]))
    history.put((1,), 10, is_wal=False)
    history.put((2,), 20, is_wal=False)
    history.put((1,), None, is_wal=False)

    (rows,) = folded_of(history).live(["v"])

    assert rows.to_pydict() == {"v": [20]}


def test_nothing_changes_rows_where_there_are_no_changes() -> None:
    history = History(table_of([BigIntType()]))
    rows = pa.record_batch({"k0": [1, 2], "v": [1, 2]})

    folded = folded_of(history)

    assert list(folded.without_changed(iter([rows]))) == [rows]
    assert list(folded.live()) == []
    assert folded.changed_keys().num_rows == 0
