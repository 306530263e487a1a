"""The keys that a DELETE names."""

from collections.abc import Sequence
from itertools import product
from typing import cast

from headwater.client.reading.filters import Term
from headwater.client.reading.literals import Value
from headwater.engines.spark.catalog.filters import Branches
from headwater.errors import UnsupportedError

KEYS_MAX = 100_000


def keys_of(branches: Branches | None, primary_key: Sequence[str]) -> list[dict[str, Value]]:
    """Return the keys of all rows that a filter can want, or say that it names no whole keys."""
    if branches is None:
        raise _refused(primary_key)
    keys = [key for branch in branches for key in _keys_of_branch(branch, primary_key)]
    if len(keys) > KEYS_MAX:
        raise UnsupportedError(
            f"The condition names {len(keys)} keys, and a DELETE takes {KEYS_MAX}.",
            hint="Write the keys with a column '_change_type' of 'delete' instead.",
        )
    return keys


def _keys_of_branch(branch: Sequence[Term], primary_key: Sequence[str]) -> list[dict[str, Value]]:
    values: dict[str, tuple[Value, ...]] = {}
    for term in branch:
        if term[1] == "is not null" and term[0] in primary_key:
            continue
        if term[0] in values or term[0] not in primary_key:
            raise _refused(primary_key)
        values[term[0]] = _values_of_term(term, primary_key)
    if len(values) != len(primary_key):
        raise _refused(primary_key)
    return [dict(zip(values, key, strict=True)) for key in product(*values.values())]


def _values_of_term(term: Term, primary_key: Sequence[str]) -> tuple[Value, ...]:
    match term:
        case (_, "==", float() as number) if number == 0:
            # They are equal, and two keys.
            return (0.0, -0.0)
        case (_, "==", value):
            return (cast(Value, value),)
        case (_, "in", tuple() as values):
            return tuple(dict.fromkeys(value for value in values if value is not None))
        case _:
            raise _refused(primary_key)


def _refused(primary_key: Sequence[str]) -> UnsupportedError:
    names = " and ".join(f"{name} = …" for name in primary_key)
    return UnsupportedError(
        "A DELETE has to name the rows by their whole primary key.",
        hint=f"Write WHERE {names}, or with IN; for other conditions read the keys first and write"
        " them with a column '_change_type' of 'delete'.",
    )
