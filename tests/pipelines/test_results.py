"""The changes of a streaming result: from rows of micro-batches to inserts, updates and deletes."""

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.pipelines.results import ResultChanges, changes_table, rows_table
from headwater.pipelines.sql.steps import CHANGE_COLUMN, ResultMode, ShowRows
from tests.choices import examples

NAMES = ("item", "n")


def rows(*given_rows, kinds=None) -> pa.Table:
    columns = {"item": [row[0] for row in given_rows], "n": [row[1] for row in given_rows]}
    return pa.table(columns if kinds is None else {**columns, CHANGE_COLUMN: kinds})


def changes_of(**fields) -> ResultChanges:
    return ResultChanges(ShowRows(view="v", is_streaming=True, **fields), NAMES)


def test_rows_of_an_appending_query_are_inserts():
    changes = changes_of()

    assert changes.fold(rows(("tea", 1), ("tea", 1))) == [("+I", ("tea", 1))] * 2
    assert changes.result() == [("tea", 1)] * 2


def test_an_updated_row_comes_as_it_was_and_as_it_is():
    changes = changes_of(mode=ResultMode.UPDATE, key=("item",))
    changes.fold(rows(("tea", 1)))

    found = changes.fold(rows(("tea", 2), ("cup", 5)))

    assert found == [("-U", ("tea", 1)), ("+U", ("tea", 2)), ("+I", ("cup", 5))]
    assert Counter(changes.result()) == Counter([("tea", 2), ("cup", 5)])


def test_a_row_that_is_as_before_changes_nothing():
    changes = changes_of(mode=ResultMode.UPDATE, key=("item",))
    changes.fold(rows(("tea", 1)))

    assert changes.fold(rows(("tea", 1))) == []


def test_without_a_key_an_update_is_only_the_new_row():
    assert changes_of(mode=ResultMode.UPDATE).fold(rows(("tea", 1))) == [("+U", ("tea", 1))]


def test_rows_that_say_what_they_change_are_taken_at_their_word():
    kinds = ["insert", "update_before", "update_after", "delete"]
    changes = changes_of(has_changes=True)

    found = changes.fold(rows(("a", 1), ("a", 1), ("a", 2), ("a", 2), kinds=kinds))

    assert [sign for sign, _ in found] == ["+I", "-U", "+U", "-D"]
    assert changes.result() == []


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2))), max_size=4))
@settings(max_examples=examples(100), deadline=None)
def test_the_changes_of_a_complete_result_lead_to_it(batches):
    changes = changes_of(mode=ResultMode.COMPLETE)
    held = Counter()

    for batch in batches:
        for sign, row in changes.fold(rows(*batch)):
            held[row] += 1 if sign == "+I" else -1

    assert +held == Counter(batches[-1] if batches else [])
    assert Counter(changes.result()) == +held


def test_changes_are_shown_with_what_they_do_first():
    schema = pa.schema({"item": pa.string(), "n": pa.list_(pa.int64())})
    shown = changes_table([("+I", ("tea", (1, 2)))], schema)

    assert shown.to_pylist() == [{"op": "+I", "item": "tea", "n": [1, 2]}]
    assert rows_table([("tea", (1, 2))], schema).to_pylist() == [{"item": "tea", "n": [1, 2]}]
