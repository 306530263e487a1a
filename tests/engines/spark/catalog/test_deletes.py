"""The keys that a DELETE names."""

import pytest

from headwater.engines.spark.catalog.filters import KEYS_MAX, keys_of
from headwater.errors import UnsupportedError

KEY = ("a", "b")


def test_a_whole_key_is_found_whatever_the_order():
    branches = ((("b", "==", "x"), ("a", "is not null"), ("a", "==", 1)),)

    assert keys_of(branches, KEY) == [{"b": "x", "a": 1}]


def test_lists_of_values_name_all_their_combinations():
    branches = ((("a", "in", (1, 2, None)), ("b", "in", ("x", "y"))),)

    keys = keys_of(branches, KEY)

    assert [(key["a"], key["b"]) for key in keys] == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


def test_alternatives_name_the_keys_of_each():
    branches = ((("a", "==", 1), ("b", "==", "x")), (("a", "==", 2), ("b", "==", "y")))

    assert keys_of(branches, KEY) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_zero_names_both_zeros():
    keys = keys_of(((("f", "==", 0.0),),), ("f",))

    assert [str(key["f"]) for key in keys] == ["0.0", "-0.0"]


@pytest.mark.parametrize(
    "branches",
    [
        None,
        ((),),
        ((("a", "==", 1),),),
        ((("a", "==", 1), ("b", "!=", "x")),),
        ((("a", "==", 1), ("b", "==", "x"), ("v", "==", 3)),),
        ((("a", "==", 1), ("a", "==", 2), ("b", "==", "x")),),
    ],
)
def test_what_names_no_whole_keys_is_refused_with_what_would(branches):
    with pytest.raises(UnsupportedError, match="a = … and b = …"):
        keys_of(branches, KEY)


def test_more_keys_than_a_statement_may_delete_are_refused():
    many = tuple(range(KEYS_MAX + 1))

    with pytest.raises(UnsupportedError, match=str(KEYS_MAX + 1)):
        keys_of(((("a", "in", many),),), ("a",))
