"""A token is the same position for everybody, for as long as its rows are there."""

import pytest

import headwater
from headwater.errors import InvalidTokenError, PositionMissingError
from tests.union.machine import counted
from tests.union.storage import Storage
from tests.union.story import Story, Traits
from tests.union.telling import KINDS, told


@pytest.fixture(params=KINDS[::3], ids=str)
def traits(request) -> Traits:
    return request.param


def test_a_token_outlives_the_process_of_its_storage(tmp_path, traits):
    first = Storage.open(tmp_path / "data")
    story = told(first, traits)
    token, expected = story.table.view().token(), story.expected()
    path = str(story.table.path)
    first.close()

    again = Storage.open(tmp_path / "data")
    found = counted(again.client.table(path).view(token=token).scan().to_arrow())
    again.close()

    assert found == expected


def test_a_token_means_the_same_to_another_client(storage, traits):
    story = told(storage, traits)
    token, position = story.table.view().token(), story.now()
    story.tier()
    story.compact(reports=True)

    with headwater.connect(storage.address) as other:
        found = counted(other.table(str(story.table.path)).scan(token=token).to_arrow())

    assert found == story.expected(position)


def test_a_token_keeps_the_names_that_columns_had(storage, traits):
    story = told(storage, traits)
    token, position = story.table.view().token(), story.now()
    story.rename_column("texture", "feel")
    story.add_column("texture", "BIGINT")
    story.drop_column("late")
    story.tier()

    found = counted(story.table.scan(token=token).to_arrow())

    assert found == story.expected(position)


def test_one_snapshot_is_read_under_every_schema_that_is_asked_for(storage, traits):
    story = told(storage, traits)
    story.tier()
    token, position = story.table.view().token(), story.now()
    story.rename_column("texture", "feel")
    story.add_column("texture", "BIGINT")

    for _ in range(2):
        assert counted(story.table.scan().to_arrow()) == story.expected()
        assert counted(story.table.scan(token=token).to_arrow()) == story.expected(position)


def test_a_tail_is_read_under_every_schema_that_is_asked_for(storage, traits):
    story = told(storage, traits)
    token, position = story.table.view().token(), story.now()
    story.rename_column("texture", "feel")
    story.add_column("texture", "BIGINT")

    for _ in range(2):
        assert counted(story.table.scan().to_arrow()) == story.expected()
        assert counted(story.table.scan(token=token).to_arrow()) == story.expected(position)


def test_values_of_a_dropped_column_that_nobody_knows_are_an_error(storage):
    story = Story(storage, Traits(is_keyed=True, buckets=1))
    story.add_column("late", "BIGINT")
    story.write([{"id": each, "n": 1, "text": "a", "late": each} for each in range(3)])
    token, position = story.table.view().token(), story.now()
    story.drop_column("late")

    before = counted(story.table.scan(token=token).to_arrow())
    story.write([{"id": 1, "n": 2, "text": "b"}])

    assert before == story.expected(position)
    with pytest.raises(PositionMissingError, match="'late'"):
        story.table.scan(token=token).to_arrow()


def test_a_token_that_was_changed_is_refused(storage):
    story = Story(storage, Traits())
    token = story.table.view().token()

    for broken in (token[:-1], token.replace("hw1.", "hw9."), "", "hw1.", f"{token}A"):
        with pytest.raises(InvalidTokenError):
            story.table.view(token=broken)
