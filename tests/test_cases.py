"""A test of many cases tries every one, and reports every one that fails."""

import inspect

import pytest

from tests.cases import cases


def test_every_case_is_tried_and_every_failure_is_reported_with_its_case():
    tried = []

    @cases("number", [1, 2, 3])
    def test(number):
        tried.append(number)
        assert number == 2

    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed") as found:
        test()

    assert tried == [1, 2, 3]
    assert [fault.__notes__ for fault in found.value.exceptions] == [
        ["with number = 1"],
        ["with number = 3"],
    ]


def test_two_of_them_make_a_product_beside_a_fixture():
    tried = []

    @cases("letter", "ab")
    @cases(("low", "high"), [(1, 2), (3, 4)])
    def test(fixture, letter, low, high):
        tried.append((fixture, letter, low, high))

    test(fixture="f")

    assert tried == [("f", x, *pair) for x in "ab" for pair in ((1, 2), (3, 4))]
    assert list(inspect.signature(test).parameters) == ["fixture"]


async def test_a_test_that_waits_is_awaited_for_each_case():
    tried = []

    @cases("number", [1, 2])
    async def test(number):
        tried.append(number)
        assert number == 1

    with pytest.raises(ExceptionGroup, match="1 of 2 cases failed"):
        await test()

    assert tried == [1, 2]


def test_a_test_without_cases_is_a_mistake():
    with pytest.raises(AssertionError, match="proves nothing"):
        cases("number", [])
