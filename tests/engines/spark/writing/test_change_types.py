"""Texts of change types: what they do to a row, and which are refused."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark.sink_rows import changes_of, check_inserts
from headwater.errors import InvalidValueError

UPSERTS = ("+I", "+U", "insert", "update", "update_after", "update_postimage", "INSERT")
DELETES = ("-D", "delete", "Delete")
SKIPPED = ("-U", "update_before", "update_preimage")


@given(st.lists(st.sampled_from(UPSERTS + DELETES + SKIPPED), max_size=50))
def test_every_row_is_judged_by_its_own_text(texts):
    changes = changes_of(pa.array(texts, pa.string()), name="op")

    assert changes.kept.tolist() == [text not in SKIPPED for text in texts]
    assert changes.deleted.tolist() == [text in DELETES for text in texts]


def test_a_text_that_is_no_change_is_named():
    with pytest.raises(InvalidValueError, match="The column 'op' says 'upsrt'") as caught:
        changes_of(pa.array(["+I", "upsrt"]), name="op")

    assert "update_after" in caught.value.hint


def test_a_row_that_says_nothing_is_refused():
    with pytest.raises(InvalidValueError, match="is null in 1 rows"):
        changes_of(pa.array(["+I", None]), name="op")


def test_a_log_table_takes_inserts():
    check_inserts(pa.array(["+I", "insert", "+I"]), name="op", path="shop.orders")


def test_a_log_table_refuses_deletes():
    with pytest.raises(InvalidValueError, match=r"'delete', but shop\.orders has no primary key"):
        check_inserts(pa.array(["insert", "delete"]), name="op", path="shop.orders")


def test_a_long_text_is_shown_in_part():
    with pytest.raises(InvalidValueError) as caught:
        changes_of(pa.array(["x" * 1000]), name="op")

    assert len(caught.value.message) < 120
