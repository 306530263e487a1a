"""Tests step into the commits of the plain lake: before one, and after it took effect."""

import pytest

from headwater.errors import LakeCommitUnknownError, LakeMovedError
from tests.lake.plain_lake import PlainLake, hooks, outcome_unknown
from tests.lake.tables import Tables

ROW = [{"id": 1, "name": "a"}]


@pytest.fixture
def table(tmp_path):
    return Tables(PlainLake(str(tmp_path))).make()


def test_somebody_else_can_commit_in_the_moment_before(table, tmp_path):
    other = Tables(table.lake).make()
    other.spec = table.spec
    steps = [lambda: other.tier([{"id": 2, "name": "b"}])]
    hooks(tmp_path).before_commit = lambda: steps.pop()() if steps else None

    with pytest.raises(LakeMovedError):
        table.tier(ROW)

    assert [row["id"] for row in table.values()] == [2]


def test_a_commit_of_unknown_outcome_took_effect_and_is_found(table, tmp_path):
    hooks(tmp_path).after_commit = outcome_unknown

    with pytest.raises(LakeCommitUnknownError):
        table.tier(ROW, round_id="lost")

    assert table.committer.find_round("lost") == table.head()
    assert [row["id"] for row in table.values()] == [1]
