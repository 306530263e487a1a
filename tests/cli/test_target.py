"""Telling a directory from a server."""

from pathlib import Path

import pytest
import typer

from headwater.cli.command import listed, named_types, named_values, seconds
from headwater.cli.target import (
    DataDirectory,
    Login,
    Servers,
    check_credentials,
    check_directory,
    parse_target,
)
from headwater.errors import MissingError, RequestError
from tests.cases import cases


@cases(
    ("text", "addresses"),
    [
        ("localhost:9123", ("localhost:9123",)),
        ("127.0.0.1:1", ("127.0.0.1:1",)),
        ("[::1]:9123", ("[::1]:9123",)),
        ("a:1,b.example.org:2", ("a:1", "b.example.org:2")),
        (" a:1 , b:2 ", ("a:1", "b:2")),
    ],
)
def test_a_host_and_a_port_name_a_server(text, addresses):
    assert parse_target(text) == Servers(addresses)


@cases("text", ["./data", "data", "/var/lib/hw", "data:old", "a/b:12", "a:1,b"])
def test_everything_else_names_a_directory(text):
    assert parse_target(text) == DataDirectory(Path(text))


def test_a_directory_that_is_there_wins_over_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data:9123").mkdir()

    assert parse_target("data:9123") == DataDirectory(Path("data:9123"))


def test_nothing_is_no_target():
    with pytest.raises(RequestError, match="--at is empty"):
        parse_target("")


def test_a_directory_is_made_only_by_what_creates_something(tmp_path):
    missing = DataDirectory(tmp_path / "data")

    check_directory(missing, creates=True)

    with pytest.raises(MissingError, match="There is no directory"):
        check_directory(missing, creates=False)


def test_a_path_that_looks_like_a_host_is_answered_with_its_port(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text, told in {
        "localhost": "--at localhost:9123",
        "10.0.0.7": "--at 10.0.0.7:9123",
        "9123": "--at 127.0.0.1:9123",
        "db.example.org": "--at db.example.org:9123",
    }.items():
        with pytest.raises(MissingError) as fault:
            check_directory(DataDirectory(Path(text)), creates=False)
        assert told in fault.value.hint

    for text in ("localhost", "10.0.0.7", "::1", "9123"):
        with pytest.raises(MissingError, match="For a server"):
            check_directory(DataDirectory(Path(text)), creates=True)
    check_directory(DataDirectory(Path("db.example.org")), creates=True)
    with pytest.raises(RequestError, match="--at localhost:9123"):
        parse_target("http://localhost:9123/")


def test_a_length_of_time_has_a_unit_or_is_in_seconds():
    for text, expected in {"5": 5, "0.5": 0.5, "5 s": 5, "500ms": 0.5, "2 min": 120}.items():
        assert seconds(text) == expected
    for text in ("soon", "0", "-1", "5 parsecs", "nan", "inf"):
        with pytest.raises(typer.BadParameter, match="not a duration"):
            seconds(text)


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "data").touch()

    with pytest.raises(RequestError, match="is not a directory"):
        check_directory(DataDirectory(tmp_path / "data"), creates=False)


def test_credentials_come_in_pairs_and_go_to_servers():
    server, directory = Servers(("a:1",)), DataDirectory(Path("data"))

    assert check_credentials(server, user=None, password=None) is None
    assert check_credentials(server, user="ann", password="x") == Login(user="ann", password="x")
    for target, user, password in [
        (server, "ann", None),
        (server, None, "x"),
        (directory, "a", "x"),
    ]:
        with pytest.raises(RequestError, match=r"--user|--password"):
            check_credentials(target, user=user, password=password)


def test_names_and_values_are_told_apart_at_the_first_mark():
    assert named_values(["a=1=2", "b="], what="option") == {"a": "1=2", "b": ""}
    assert named_types(["id:BIGINT", "m: MAP<INT, ROW<a:INT>> "]) == {
        "id": "BIGINT",
        "m": "MAP<INT, ROW<a:INT>>",
    }
    assert listed(["a,b", " c "]) == ("a", "b", "c")


@cases("texts", [["a"], ["=1"], ["a=1", "a=2"]])
def test_what_is_no_pair_or_comes_twice_is_named(texts):
    with pytest.raises(RequestError, match=r"a|=1"):
        named_values(texts, what="option")
