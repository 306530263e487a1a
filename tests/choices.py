"""How much of a test is run: which lake format, which kind of storage, how many examples.

The contract suites run on every format and on every kind of storage, though not on every pair of
both. Elsewhere one of each is chosen by a hash of the test's name, the same on every machine, so
that each is used by about as many tests. `HEADWATER_TEST_ALL=1` runs every combination, all
examples and all samples, as `make torture` does.
"""

import os
from binascii import crc32
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

VARIABLE = "HEADWATER_TEST_ALL"
EVERYTHING = VARIABLE in os.environ
WORLDS = (
    frozenset({"plain", "iceberg", "paimon"}),
    frozenset({"embedded", "served"}),
    frozenset({"directory", "server"}),
)
_TESTS = Path(__file__).parent
CONTRACTS = (_TESTS / "contract", _TESTS / "lake" / "contract")
EXAMPLES_PART = 4
Value = TypeVar("Value")


def some(values: Iterable[Value], *, part: int) -> list[Value]:
    """Return one of every few values, beginning with the first, or all."""
    return list(values)[:: 1 if EVERYTHING else part]


def examples(count: int) -> int:
    """Return how many examples a property is tried with: a part of them, or all."""
    return count if EVERYTHING else max(1, count // EXAMPLES_PART)


def chosen(items: Iterable[pytest.Item]) -> frozenset[pytest.Item]:
    """Return the tests to run: of those that differ only in their world, one."""
    equal: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        equal[_name(item)].append(item)
    return frozenset(each for name, found in equal.items() for each in _of_equal(name, found))


def _of_equal(name: str, items: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    """Choose one; of a contract as many as bring every format and every kind of storage once."""
    turn = crc32(name.encode())
    if not any(suite in items[0].path.parents for suite in CONTRACTS):
        return [items[turn % len(items)]]
    seen: set[str] = set()
    kept: list[pytest.Item] = []
    for item in (*items[turn % len(items) :], *items[: turn % len(items)]):
        if seen.isdisjoint(_worlds(item)):
            kept.append(item)
            seen.update(_worlds(item))
    # Values that are left over, as of three formats on two storages, come on any pair.
    for item in items:
        if not seen.issuperset(_worlds(item)):
            kept.append(item)
            seen.update(_worlds(item))
    return kept


def _worlds(item: pytest.Item) -> list[str]:
    call = getattr(item, "callspec", None)
    values = call.params.values() if call is not None else ()
    return [each for each in values if any(each in w for w in WORLDS if isinstance(each, str))]


def _name(item: pytest.Item) -> str:
    """Return the name of a test without its world."""
    function, _, case = item.nodeid.partition("[")
    for value in _worlds(item):
        case = case.replace(value, "*", 1)
    return f"{function}[{case}"
