"""Those who drive targets notice every way in which one can break."""

import pytest

from tests.fuzz import child
from tests.fuzz.broken import BROKEN
from tests.fuzz.driving import run_child


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("crash", "SIGSEGV"),
        ("swell", "MemoryError"),
        ("fail", "ZeroDivisionError"),
        ("hoard", "AssertionError: Arrow held"),
        pytest.param("hang", "SIGALRM", marks=pytest.mark.torture),
    ],
)
def test_a_target_that_breaks_is_told_with_its_input(name, why, tmp_path):
    failure = run_child(["refuse", name], tmp_path, seed=1, count=3, within_s=60)

    assert failure is not None
    assert failure.target == name
    assert why in failure.why
    assert failure.data == BROKEN[name].changed(b"seed", first_edits(turn=3))


def first_edits(*, turn: int):
    """Return the edits of an input of the child, counted from 0."""
    chance = child.random.Random(1)
    for _ in range(turn + 1):
        chance.choice([b"seed"])
        edits = child.random_edits(chance)
    return edits


def test_a_target_that_only_refuses_is_all_right(tmp_path):
    assert run_child(["refuse"], tmp_path, seed=1, count=3, within_s=60) is None
