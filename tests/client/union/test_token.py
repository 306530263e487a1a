"""Positions as texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidTokenError
from headwater.model.boundary import LakeBucket
from headwater.model.path import TablePath
from headwater.read.token import Token, read_token, token_text, written
from tests.cases import cases
from tests.client.union.values import PATH, view

OFFSETS = st.integers(0, 2**63 - 1)
IDS = st.integers(0, 2**62)
PARTITIONS = st.dictionaries(IDS, st.text(min_size=1, max_size=8), max_size=4)


@st.composite
def tokens(draw):
    partitions = draw(PARTITIONS)
    places = st.builds(LakeBucket, st.sampled_from([None, *partitions]), st.integers(0, 20))
    ends = draw(st.dictionaries(places, OFFSETS, max_size=12))
    starts = (
        st.dictionaries(st.sampled_from([*ends]), st.integers(1, 2**62)) if ends else st.just({})
    )
    return Token(
        path=TablePath(draw(st.text()), draw(st.text())),
        table_id=draw(IDS),
        schema_id=draw(st.integers(0, 1000)),
        snapshot_id=draw(st.none() | IDS),
        ends=ends,
        partitions=partitions,
        starts=draw(starts),
    )


TEXT = token_text(view({0: (3, 9), 1: (0, 7)}, {0: (0, 4)}))


def read(text, path=PATH, table_id=7):
    return read_token(text, path=path, table_id=table_id)


@given(tokens())
def test_a_token_is_read_as_it_was_written(token):
    found = read_token(written(token), path=token.path, table_id=token.table_id)

    assert found == token


def test_a_token_holds_the_position_of_a_view():
    logs = {LakeBucket(8, 1): (2, 9), LakeBucket(5, 0): (0, 4)}

    found = read(token_text(view(logs, {}, partitions={8: "b", 5: "a"})))

    assert found.ends == {LakeBucket(8, 1): 9, LakeBucket(5, 0): 4}
    assert found.partitions == {8: "b", 5: "a"}
    assert (found.snapshot_id, found.schema_id, found.path) == (12, 1, PATH)


def test_equal_positions_have_the_same_token():
    one = token_text(view({0: (3, 9), 1: (0, 7)}, {0: (0, 4)}))
    # Retention moves the start of a log; the rows before the position stay the same.
    other = token_text(view({1: (0, 7), 0: (4, 9)}, {0: (0, 4)}))

    assert one == other == TEXT
    assert token_text(view({0: (3, 9), 1: (0, 8)}, {0: (0, 4)})) != one


def test_a_token_tells_where_a_log_began_that_the_lake_does_not_hold():
    found = read(token_text(view({0: (3, 9), 1: (5, 7)}, {0: (0, 4)})))

    assert found.starts == {LakeBucket(None, 1): 5}


@given(st.integers(0, len(TEXT) - 1), st.characters())
def test_a_token_with_another_character_is_refused(at, character):
    changed = TEXT[:at] + character + TEXT[at + 1 :]

    if changed.strip() == TEXT:
        assert read(changed) == read(TEXT)
    else:
        with pytest.raises(InvalidTokenError):
            read(changed)


@given(st.integers(0, len(TEXT) - 1))
def test_a_token_that_was_cut_is_refused(length):
    with pytest.raises(InvalidTokenError):
        read(TEXT[:length])


@given(st.text() | st.text().map(lambda text: f"hw1.{text}"))
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidTokenError):
        read(text)


@cases(
    ("text", "path", "table_id", "said"),
    [
        ("", PATH, 7, "is not a token"),
        ("latest", PATH, 7, "tokens begin with 'hw1.'"),
        ("hw2.e30", PATH, 7, "has the version 'hw2'"),
        (TEXT[:-3], PATH, 7, "was cut or changed"),
        (TEXT, TablePath("app", "orders"), 7, "is for app.events, not for app.orders"),
        (TEXT, PATH, 8, "dropped and recreated"),
    ],
)
def test_a_refusal_says_what_is_wrong(text, path, table_id, said):
    with pytest.raises(InvalidTokenError, match=said):
        read(text, path, table_id)


def test_space_around_a_token_is_nothing():
    assert read(f"  {TEXT}\n") == read(TEXT)
