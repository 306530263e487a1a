"""Partitions that a filter rules out are not read; all others are."""

from datetime import date, time

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.schema_in import schema_of
from headwater.model.partition_values import partition_texts
from headwater.model.path import partition_name
from headwater.model.types import BigIntType, DateType, StringType, TimeType
from headwater.read.filters import OPERATORS, Filter
from headwater.read.prune import matching
from tests.cases import cases

SCHEMA = schema_of({"day": "DATE", "city": "STRING", "id": "BIGINT", "at": "TIME(6)"})
KEYS = {"day": DateType(), "city": StringType()}
NAMES = ["2024-05-01$Bonn", "2024-05-01$Ulm", "2024-05-02$Ulm"]
COMPARED = sorted(set(OPERATORS) - {"in", "not in", "is null", "is not null"})


def kept(where, names=NAMES, keys=KEYS):
    return sorted(matching(names, keys, wanted=Filter.of(where, SCHEMA)))


@cases(
    ("where", "left"),
    [
        (("city", "==", "Ulm"), NAMES[1:]),
        (("city", "in", ["Bonn", "Rome"]), NAMES[:1]),
        ([("city", "==", "Ulm"), ("day", "==", date(2024, 5, 2))], NAMES[2:]),
        ([("city", "==", "Ulm"), ("id", ">", 7)], NAMES[1:]),
        ([[("city", "==", "Bonn")], [("day", ">", date(2024, 5, 1))]], [NAMES[0], NAMES[2]]),
        ([[("city", "==", "Bonn")], [("id", "==", 1)]], NAMES),
        (("city", "==", "Rome"), []),
        (("day", "is null"), []),
        (("id", "==", 1), NAMES),
        ([], NAMES),
    ],
)
def test_partitions_are_left_out_where_no_row_can_be_wanted(where, left):
    assert kept(where) == left


def test_partitions_whose_names_cannot_be_read_are_read():
    names = ["2024-05-01$Ulm", "someday$Ulm", "odd"]

    assert kept(("day", "==", date(2024, 5, 2)), names) == sorted(names)


def test_partitions_by_values_that_names_round_are_read():
    where = ("at", "==", time(12, 0, 0, 123))

    assert kept(where, ["12-00-00_000"], {"at": TimeType(precision=6)}) == ["12-00-00_000"]


@given(
    values=st.lists(
        st.tuples(st.text("ab", min_size=1, max_size=3), st.integers(-3, 3)), min_size=1
    ),
    where=st.lists(
        st.lists(
            st.tuples(st.just("city"), st.sampled_from(COMPARED), st.text("ab", max_size=2))
            | st.tuples(st.just("id"), st.sampled_from(["==", "!=", "<", ">="]), st.integers(-3, 3))
        ),
        min_size=1,
    ),
)
def test_exactly_the_partitions_of_wanted_rows_are_left(values, where):
    rows = pa.table(list(zip(*values, strict=True)), ["city", "id"]).to_batches()[0]
    texts = [partition_texts(rows["city"], StringType()), partition_texts(rows["id"], BigIntType())]
    names = [partition_name(each) for each in zip(*texts, strict=True)]
    wanted = Filter.of(where, SCHEMA)

    found = matching(names, {"city": StringType(), "id": BigIntType()}, wanted=wanted)

    mask = wanted.mask(rows).to_pylist()
    assert found == {name for name, is_wanted in zip(names, mask, strict=True) if is_wanted}
