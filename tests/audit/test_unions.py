"""Where a changelog is cut, lake and log together say what the state must hold."""

import pytest

from headwater.audit import Check, audit
from tests.audit.planting import forget_row, found, proof
from tests.union.storage import Storage
from tests.union.story import Story, Traits


@pytest.fixture(params=["iceberg", "paimon"])
def lake_format(request):
    return request.param


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "data"


def told(storage: Storage, traits: Traits) -> Story:
    """Return a table whose first changes are in the lake alone."""
    story = Story(storage, traits)
    day = {"day": "d1"} if traits.is_partitioned else {}
    story.write([{"id": at, "n": at, "text": "a", **day} for at in range(20)])
    story.tier()
    story.write([{"id": at, "n": at + 1, "text": "b", **day} for at in range(5)])
    storage.cut(story.table.info.table_id)
    story.write([{"id": 50, "n": 1, "text": "c", **day}])
    return story


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_a_state_that_lake_and_log_make_is_clean(directory, lake_format, is_partitioned):
    storage = Storage.open(directory)
    traits = Traits(format=lake_format, is_keyed=True, is_partitioned=is_partitioned, buckets=1)
    story = told(storage, traits)

    report = audit(storage.client, [story.table.path], deep=True)
    storage.close()

    assert report.findings == ()
    assert "rows compared with the lake" in proof(report, Check.STATE).note


def test_a_row_that_the_state_lost_is_found_by_the_lake(directory, lake_format):
    storage = Storage.open(directory)
    name = told(storage, Traits(format=lake_format, is_keyed=True, buckets=1)).table.path
    storage.save_states()
    storage.close()
    forget_row(directory)

    storage = Storage.open(directory)
    report = audit(storage.client, [name], deep=True)
    storage.close()

    assert any(
        "in lake and log but not in the state" in each.message
        for each in found(report, Check.STATE)
    )
