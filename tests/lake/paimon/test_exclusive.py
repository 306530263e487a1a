"""Files that must be created once are, also in object stores."""

import fsspec
import pytest

from headwater.errors import UnsupportedError
from headwater.lake.paimon.files import Files, create_object, local_path, storage_options
from tests.cases import cases


@pytest.fixture
def place():
    fsspec.filesystem("memory").mkdirs("/bucket", exist_ok=True)
    return "memory://bucket"


def test_an_object_is_created_once(place):
    outcomes = [create_object(f"{place}/a", text, options={}) for text in (b"1", b"2")]

    assert outcomes == [True, False]
    assert fsspec.filesystem("memory").cat("/bucket/a") == b"1"


def test_a_store_that_overwrites_is_refused(place, monkeypatch):
    system = fsspec.filesystem("memory")
    opened = type(system).open
    monkeypatch.setattr(
        type(system), "open", lambda self, path, mode: opened(self, path, mode.replace("x", "w"))
    )

    with pytest.raises(UnsupportedError, match="overwrites"):
        create_object("memory://other/a", b"1", options={})


def test_a_store_whose_package_is_missing_names_it(tmp_path):
    with pytest.raises(UnsupportedError, match="s3fs"):
        create_object("s3://bucket/a", b"1", options={})


def test_paimons_names_of_options_become_those_of_the_client():
    options = {"s3.access-key": "k", "fs.s3.endpoint": "http://e", "s3.region": "r", "x": "y"}

    assert storage_options("s3", options) == {"key": "k", "endpoint_url": "http://e", "region": "r"}
    assert storage_options("gs", options) == {}


def test_a_local_file_is_created_once(tmp_path):
    files = Files.of(fsspec.filesystem("file"), {"warehouse": str(tmp_path)})
    path = f"{tmp_path}/deep/file"

    outcomes = [files.create(path, text) for text in (b"1", b"2")]

    assert outcomes == [True, False]
    assert (tmp_path / "deep" / "file").read_bytes() == b"1"
    assert [each.name for each in (tmp_path / "deep").iterdir()] == ["file"]


@cases(
    ("path", "local"),
    [
        ("/a b", "/a b"),
        ("file:///a%20b", "/a b"),
        ("file:/a", "/a"),
        ("s3://b/a", None),
        ("a/b:c", "a/b:c"),
    ],
)
def test_paths_of_this_machine_are_told_from_others(path, local):
    assert local_path(path) == local
