"""Writer ids: handed out once, whatever is copied, and known to be somebody's."""

import shutil

import pytest

from headwater.errors import UnknownWriterError
from headwater.model.bucket import COMPUTED_BIT, NUMBER_BITS
from headwater.server.catalog import ids as writer_ids
from tests.catalog.samples import open_catalog


def ids_of(directory, *, count=50):
    catalog = open_catalog(directory)
    try:
        return [catalog.next_writer_id("ann") for _ in range(count)]
    finally:
        catalog.close()


def test_copies_of_a_directory_never_hand_out_the_same_id(tmp_path):
    ids_of(tmp_path / "a")
    for name in "bc":
        shutil.copytree(tmp_path / "a", tmp_path / name)

    found = [each for name in "abc" for each in ids_of(tmp_path / name)]

    assert len(set(found)) == 150
    assert all(0 < each < COMPUTED_BIT for each in found)


def test_a_copy_tells_clients_of_its_original_to_begin_anew_and_knows_those_of_before(tmp_path):
    before = ids_of(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    after = ids_of(tmp_path / "a")
    copy = open_catalog(tmp_path / "b")

    copy.check_writer_id(before[0], "ann")
    with pytest.raises(UnknownWriterError, match="after the backup was made"):
        copy.check_writer_id(after[0], "ann")

    copy.close()


def test_an_id_is_known_to_be_somebodys_through_restarts(tmp_path):
    (taken, *_) = ids_of(tmp_path)
    catalog = open_catalog(tmp_path)

    catalog.check_writer_id(taken, "ann")
    with pytest.raises(UnknownWriterError, match="another user"):
        catalog.check_writer_id(taken, "bob")
    with pytest.raises(UnknownWriterError, match="another user"):
        catalog.check_writer_id(catalog.next_writer_id(""), "bob")
    # Those of sinks, of earlier versions and of nobody have no owner here.
    for other in (COMPUTED_BIT | 9, 2001, -1):
        catalog.check_writer_id(other, "bob")

    catalog.close()


def test_a_block_that_is_used_up_is_followed_by_another_and_old_ones_are_forgotten(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(writer_ids, "BLOCKS_MAX", 3)
    catalog = open_catalog(tmp_path)
    firsts = []
    for _ in range(5):
        firsts.append(catalog.next_writer_id("ann"))
        catalog._writer_ids._next["ann"] = firsts[-1] + (1 << NUMBER_BITS)
    catalog.close()

    reopened = open_catalog(tmp_path)

    assert len({each >> NUMBER_BITS for each in firsts}) == 5
    assert len(reopened._writer_ids._owners) == 3
    reopened.check_writer_id(firsts[-1], "ann")
    reopened.close()
