"""Commits and bases round-trip, and damaged ones are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.remote.tree import (
    FileChange,
    FolderChange,
    FolderEnds,
    ObjectPiece,
    RemoteCommit,
    Tree,
    commit_key,
    decode_base,
    decode_commit,
    encode_base,
    encode_commit,
)
from tests.choices import examples

numbers = st.integers(0, 2**40)
names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=9)
pieces = st.builds(
    ObjectPiece,
    st.text("abc/", min_size=1, max_size=5),
    numbers,
    numbers,
    st.integers(0, 2**32 - 1),
)
changes = st.builds(
    FileChange, st.text(max_size=4), st.just(0), st.lists(pieces, max_size=3).map(tuple)
)
folders = st.builds(
    FolderChange,
    st.builds(FolderEnds, numbers, numbers, numbers),
    st.dictionaries(names, changes, max_size=3),
    st.lists(names, max_size=2).map(tuple),
)
commits = st.builds(
    RemoteCommit,
    number=st.just(1),
    epoch=numbers,
    at_ms=numbers,
    nonce=names,
    storage_id=names,
    owner=st.sampled_from(["", "somebody"]),
    is_whole=st.booleans(),
    is_last=st.booleans(),
    serial=numbers,
    folders=st.dictionaries(names, folders, max_size=3),
    dropped=st.lists(names, max_size=2).map(tuple),
)


@settings(max_examples=examples(200), deadline=None)
@given(commit=commits, body=st.binary(max_size=50))
def test_a_commit_is_read_as_it_was_written(commit, body):
    assert decode_commit(encode_commit(commit, body)) == commit


@settings(max_examples=examples(100), deadline=None)
@given(commit=commits)
def test_a_tree_is_read_as_it_was_written(commit):
    tree = Tree()
    tree.apply(commit)
    tree.bases.append((1, 7))

    assert decode_base(encode_base(tree)) == tree


def test_pieces_in_the_body_of_a_commit_are_found_behind_its_head():
    folder = FolderChange(FolderEnds(), {"f": FileChange("", 0, (ObjectPiece("", 1, 2, 3),))})
    commit = RemoteCommit(
        number=7, epoch=1, at_ms=1, nonce="n", storage_id="s", folders={"1/0": folder}
    )

    content = encode_commit(commit, b"abc")
    (piece,) = decode_commit(content).folders["1/0"].files["f"].pieces

    assert (piece.key, content[piece.at : piece.at + piece.size]) == (commit_key(7), b"bc")


@settings(max_examples=examples(200), deadline=None)
@given(commit=commits, data=st.data())
def test_any_flipped_bit_of_a_commit_is_noticed(commit, data):
    content = bytearray(encode_commit(commit, b""))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(CorruptFileError):
        decode_commit(bytes(content))


def test_commits_follow_each_other():
    tree = Tree()

    with pytest.raises(CorruptFileError, match="does not follow"):
        tree.apply(RemoteCommit(number=2, epoch=1, at_ms=1, nonce="n", storage_id="s"))
