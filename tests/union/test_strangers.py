"""Others who write to the lake table of an Iceberg catalog, with tools of their own."""

import pytest
from pyiceberg.catalog import load_catalog

from headwater.config.lake import ICEBERG_CATALOG_NAME
from headwater.lake.lakes import Lakes
from tests.union.engines import ENGINES
from tests.union.machine import counted
from tests.union.story import Story, Traits


@pytest.fixture
def story(storage) -> Story:
    story = Story(storage, Traits(buckets=2))
    for number in range(3):
        story.write([{"id": each, "n": number, "text": "a"} for each in range(4)])
        story.tier()
    story.write([{"id": 9, "n": 9, "text": "z"}])
    return story


def rewrite_all(story) -> int:
    """Put all rows of the lake into new files, as a stranger who compacts does."""
    config = Lakes().config_of(story.table.info)
    catalog = load_catalog(config.get("name", ICEBERG_CATALOG_NAME), **config)
    table = catalog.load_table((story.table.path.database, story.table.path.table))
    table.overwrite(table.scan().to_arrow())
    return table.refresh().current_snapshot().snapshot_id


def test_rows_are_the_same_after_a_stranger_rewrote_the_lake(story):
    rewrite_all(story)

    assert counted(story.table.scan().to_arrow()) == story.expected()


@pytest.mark.parametrize("name", ["client", "arrow", "duckdb", "polars", "datafusion"])
def test_the_snapshot_of_a_stranger_is_read_where_it_is_the_only_one(story, name):
    rewrite_all(story)
    story.expire_snapshots(keep=1)
    engine = ENGINES[name](story.storage.client)

    token = story.table.view().token()
    found = counted(engine.rows(str(story.table.path), token, columns=None, where=[]))
    engine.close()

    assert found == story.expected()


def test_tiering_goes_on_after_a_stranger(story):
    rewrite_all(story)

    story.tier()
    story.write([{"id": 10, "n": 1, "text": "y"}])

    assert counted(story.table.scan().to_arrow()) == story.expected()
