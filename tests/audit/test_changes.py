"""Changelogs as prints: each change must fit the one before it."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.audit import changes as folding
from headwater.audit.changes import ChangeFold, ChangeRules, Changes, lookup
from headwater.rows.log_batch import ChangeType
from tests.cases import cases

FULL, WAL = ChangeRules(shows_before=True), ChangeRules(shows_before=False)
NEW, OLD, NOW, GONE = (
    ChangeType.INSERT,
    ChangeType.UPDATE_BEFORE,
    ChangeType.UPDATE_AFTER,
    ChangeType.DELETE,
)
Change = tuple[ChangeType, int, int]
"""What happens, to which key, with which row."""

# Each write gives a key a row, or none.
writes = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(1, 3)), max_size=30)


def changes_of(listed: list[Change], start: int = 0) -> Changes:
    types, keys, rows = zip(*listed, strict=True) if listed else ((), (), ())
    offsets = np.arange(start, start + len(listed))
    words = (np.array(each, np.uint64) for each in (keys, rows))
    return Changes(np.array(types, np.uint8), *words, offsets)


def fold_of(listed: list[Change], *, rules: ChangeRules = FULL, is_whole: bool = True):
    fold = ChangeFold(rules, is_whole)
    fold.add(changes_of(listed))
    return fold, fold.held()


def rows_of(fold: ChangeFold) -> dict[int, int]:
    held = fold.held()
    return dict(zip(held.keys.tolist(), held.rows.tolist(), strict=True))


def told(listed: list[Change], **how: object) -> list[tuple[int, str]]:
    fold, _ = fold_of(listed, **how)
    return [(each.offset, each.why) for each in fold.misfits]


def history(written: list[tuple[int, int | None]]) -> tuple[list[list[Change]], dict[int, int]]:
    """Return what the changelog says of each write, and the rows that they leave."""
    held: dict[int, int] = {}
    listed: list[list[Change]] = []
    for key, row in written:
        before = held.get(key)
        if row is None:
            listed.append([] if before is None else [(GONE, key, held.pop(key))])
            continue
        put = [(NEW, key, row)] if before is None else [(OLD, key, before), (NOW, key, row)]
        listed.append(put)
        held[key] = row
    return listed, held


@given(writes, st.integers(1, 7))
def test_a_true_changelog_fits_and_leaves_what_was_written(written, rows_together):
    batches, left = history(written)
    fold, start = ChangeFold(FULL, is_whole=True), 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "ROWS_TOGETHER", rows_together)
        for batch in batches:
            fold.add(changes_of(batch, start))
            start += len(batch)

    assert rows_of(fold) == left
    assert (fold.misfits, fold.change_count) == ([], start)


@given(writes, st.data())
def test_a_change_that_is_left_out_is_noticed(written, data):
    batches, left = history(written)
    listed = [change for batch in batches for change in batch]
    assume(listed)
    lost = data.draw(st.integers(0, len(listed) - 1))

    fold, _ = fold_of(listed[:lost] + listed[lost + 1 :])

    assert fold.misfit_count or rows_of(fold) != left


@cases(
    ("listed", "offset", "why"),
    [
        ([(NEW, 1, 1), (NEW, 1, 2)], 1, "inserts a key that already exists"),
        ([(NEW, 1, 1), (GONE, 2, 1)], 1, "deletes a key that does not exist"),
        ([(NEW, 1, 1), (GONE, 1, 1), (GONE, 1, 1)], 2, "deletes a key that does not exist"),
        ([(OLD, 1, 1), (NOW, 1, 2)], 0, "updates a key that does not exist"),
        ([(NEW, 1, 1), (OLD, 1, 9), (NOW, 1, 2)], 1, "shows another row"),
        ([(NEW, 1, 1), (GONE, 1, 9)], 1, "shows another row"),
        ([(NEW, 1, 1), (NOW, 1, 2)], 1, "half of an update"),
        ([(NEW, 1, 1), (NEW, 2, 2), (OLD, 1, 1), (NOW, 2, 2)], 2, "half of an update"),
    ],
)
def test_a_change_that_does_not_fit_is_named(listed, offset, why):
    first, *_ = told(listed)

    assert first[0] == offset
    assert why in first[1]


def test_a_log_that_was_cut_may_begin_with_any_change():
    listed = [(GONE, 1, 1), (OLD, 2, 1), (NOW, 2, 2), (NEW, 3, 1)]

    fold, held = fold_of(listed, is_whole=False)

    assert fold.misfits == []
    assert held.types.tolist() == [GONE, NOW, NEW]


def test_a_log_without_the_rows_before_may_update_what_it_never_inserted():
    assert told([(NOW, 1, 1), (NOW, 1, 2), (GONE, 1, 2), (NOW, 1, 3)], rules=WAL) == []


def test_a_log_without_the_rows_before_may_not_delete_twice():
    assert told([(NOW, 1, 1), (GONE, 1, 1), (GONE, 1, 1)], rules=WAL) == [
        (2, "deletes a key that does not exist")
    ]


def test_what_came_before_a_gap_proves_nothing_any_more():
    fold = ChangeFold(FULL, is_whole=True)
    fold.add(changes_of([(NEW, 1, 1)]))

    fold.begin_anew()
    fold.add(changes_of([(NEW, 1, 2)], start=5))

    assert fold.held().rows.tolist() == [2]
    assert (fold.misfits, fold.is_whole) == ([], False)


def test_misfits_are_counted_and_the_first_are_kept():
    fold, _ = fold_of([(GONE, key, 1) for key in range(30)])

    assert fold.misfit_count == 30
    assert [each.offset for each in fold.misfits] == [*range(folding.MISFITS_MAX)]


@given(st.sets(st.integers(0, 20)), st.lists(st.integers(0, 20)))
def test_keys_are_found_where_they_stand(held, wanted):
    kept = changes_of([(NEW, key, key) for key in sorted(held)])

    places = lookup(kept, np.array(wanted, np.uint64))

    assert [None if at < 0 else sorted(held)[at] for at in places] == [
        key if key in held else None for key in wanted
    ]
