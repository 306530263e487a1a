"""Secrets: given in files and by the environment, and told to nobody."""

import logging

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.cli.pairs import secret_values
from headwater.config.choices import LakeFormat
from headwater.config.lake import told_properties, without_secrets
from headwater.errors import LakeUnreachableError, RequestError
from headwater.errors.root import redacted
from headwater.runtime.events import JsonFormat, TextFormat

ADDRESSES = (
    "https://s3cret@rest.example.org/v1",
    "https://ann:s3cret@rest.example.org/v1",
    "https://rest.example.org/v1?warehouse=w&token=s3cret",
    "https://rest.example.org/v1?access_key=s3cret&warehouse=w",
    "postgresql+psycopg2://ann:s3cret@db.example.org/lake",
)


def test_a_value_may_be_in_a_file(tmp_path):
    (tmp_path / "key").write_text("s3cret\n")

    found = secret_values([f"s3.key=@{tmp_path / 'key'}", "uri=https://x"], what="option")

    assert found == {"s3.key": "s3cret", "uri": "https://x"}
    with pytest.raises(RequestError, match="s3"):
        secret_values([f"s3.key=@{tmp_path / 'none'}"], what="option")


def test_no_error_and_no_event_shows_the_secret_of_an_address():
    for address in ADDRESSES:
        said = f"Opening failed: ConnectionError: HTTPConnectionPool(url='{address}')."
        fault = LakeUnreachableError(said)
        record = logging.LogRecord("headwater.x", logging.ERROR, "", 0, "failed", (), None)
        record.fields = {"reason": said}

        for text in (str(fault), repr(fault), TextFormat().format(record)):
            assert "s3cret" not in text
            assert "example.org" in text
        assert "s3cret" not in JsonFormat().format(record)


def test_no_client_is_told_the_secret_of_an_address():
    for address in ADDRESSES:
        assert not told_properties(LakeFormat.ICEBERG, {"uri": address})

    plain = {"uri": "postgresql://ann@db.example.org/lake", "warehouse": "s3://w/x"}
    assert without_secrets(plain) == plain


def test_what_is_no_address_stays_as_it_is():
    text = "The key=5 of ann@home?token=1 is missing."

    assert redacted(text) == text


def said(*arguments: str, **env: str) -> str:
    """Run a command that finds no server, and return the warnings that it gives."""
    result = CliRunner().invoke(app, [*arguments, "--at", "127.0.0.1:1"], env=env)
    assert result.exit_code
    assert "s3cret" not in result.output
    return "".join(each for each in result.stderr.splitlines(True) if "warning: " in each)


def test_commands_warn_of_a_password_that_others_can_see(tmp_path):
    for command in (["count", "t"], ["audit"], ["tier", "--once", "--here"]):
        typed = said(*command, "--user", "ann", "--password", "s3cret")
        assert typed.count("list of processes; set HEADWATER_PASSWORD instead") == 1

        assert not said(*command, "--user", "ann", HEADWATER_PASSWORD="s3cret")
    users = str(tmp_path / "users")
    typed = CliRunner().invoke(app, ["user", "add", users, "ann", "--password", "s3cret"])
    asked = CliRunner().invoke(app, ["user", "add", users, "ann"], input="s3cret\ns3cret\n")
    assert "list of processes; leave it out and be asked" in typed.stderr
    assert "warning" not in asked.stderr


def test_commands_warn_of_secrets_of_the_lake_that_others_can_see(tmp_path):
    (tmp_path / "key").write_text("s3cret")
    lake = ["--lake", "s3.secret-access-key=s3cret", "--lake", "warehouse=s3://w"]
    safe = ["--lake", f"s3.secret-access-key=@{tmp_path / 'key'}", "--lake", "catalog-key=main"]

    for command in (["count", "t"], ["audit"], ["tier", "--once", "--here"]):
        typed = said(*command, *lake)
        assert typed.count("give s3.secret-access-key=@FILE") == 1
        assert "warehouse" not in typed

        assert not said(*command, *safe)
