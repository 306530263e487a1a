"""Partition names and the specifications they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidPartitionError, NotPartitionedError
from headwater.model.path import complete_spec, name_of_spec, partial_spec, spec_of_name
from tests.cases import cases

values = st.text("abcXYZ019_-", min_size=1, max_size=8)


@given(st.dictionaries(st.sampled_from("abcd"), values, min_size=1), st.randoms())
def test_a_name_stands_for_the_same_specification_whatever_its_order(spec, random):
    keys = sorted(spec)
    shuffled = dict(random.sample(sorted(spec.items()), len(spec)))

    ordered = complete_spec(shuffled, keys)

    assert [key for key, _ in ordered] == keys
    assert spec_of_name(name_of_spec(ordered), keys) == ordered


def test_missing_and_unknown_keys_are_named():
    with pytest.raises(InvalidPartitionError, match="no value for b"):
        complete_spec({"a": "1"}, ["a", "b"])
    with pytest.raises(InvalidPartitionError, match="not partitioned by c"):
        partial_spec({"c": "1"}, ["a", "b"])


@cases("name", ["1", "1$2$3", ""])
def test_a_name_with_another_number_of_values_is_refused(name):
    with pytest.raises(InvalidPartitionError, match="a, b"):
        spec_of_name(name, ["a", "b"])


def test_without_partition_keys_there_is_no_specification():
    for ask in (lambda: partial_spec({}, []), lambda: spec_of_name("1", [])):
        with pytest.raises(NotPartitionedError):
            ask()
