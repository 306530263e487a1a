"""Secrets: given in files and by the environment, and told to nobody."""

import json
import logging
import pickle
from base64 import b64decode
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import headwater
from headwater.cli.command import secret_values
from headwater.cli.commands import tell
from headwater.cli.main import app
from headwater.config.lake import shown_options, told_properties, without_secrets
from headwater.config.options import LakeFormat
from headwater.errors import LakeUnreachableError, RequestError
from headwater.errors.tree import redacted
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.split import LakeFile, LakeSplit
from headwater.runtime.events import JsonFormat, TextFormat
from tests.cli.commanding import Storage, ok

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


def test_a_value_may_be_in_a_variable_of_the_environment(monkeypatch):
    monkeypatch.setenv("LAKE_KEY", "s3cret")

    found = secret_values(["s3.secret-access-key=env:LAKE_KEY"], what="option")

    assert found == {"s3.secret-access-key": "s3cret"}
    with pytest.raises(RequestError, match=r"no environment variable 'NONE' for 's3\.key'"):
        secret_values(["s3.key=env:NONE"], what="option")


def test_a_variable_is_read_for_options_of_the_process_and_for_none_that_others_name(
    at, monkeypatch
):
    monkeypatch.setenv("LAKE_KEY", "s3cret")
    with headwater.open(at.at) as hw:
        info = hw.table("t").info
    told = {**info.descriptor.properties, "table.datalake.iceberg.s3.region": "env:LAKE_KEY"}
    table = replace(info, descriptor=replace(info.descriptor, properties=told))
    lakes = Lakes(config={"s3.secret-access-key": "env:LAKE_KEY"})

    config = lakes.config_of(table)

    assert config["s3.secret-access-key"] == "s3cret"
    assert config.get("s3.region", "env:LAKE_KEY") == "env:LAKE_KEY"
    assert b"s3cret" not in pickle.dumps(lakes)


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


def test_no_traceback_shows_the_secret_of_an_address_that_a_library_quotes(capsys):
    for address in ADDRESSES:
        fault = LakeUnreachableError("The lake cannot be reached.")
        fault.__cause__ = ConnectionError(f"HTTPConnectionPool(url='{address}')")

        tell(fault, debug=True)

        shown = capsys.readouterr().err
        assert "direct cause" in shown
        assert "example.org" in shown
        assert "s3cret" not in shown


def test_no_pickled_split_and_no_token_holds_the_secrets_of_a_lake(at):
    ok(at("tier", "--once", "--here"))
    with headwater.open(at.at, lake={"s3.secret-access-key": "pl4nted"}) as hw:
        view = hw.table("t").view()
        held = pickle.dumps(view.plan()) + pickle.dumps(view.value)
        token = view.token()

    assert b"pl4nted" not in held
    assert "pl4nted" not in token


def test_no_client_is_told_the_secret_of_an_address():
    for address in ADDRESSES:
        assert not told_properties(LakeFormat.ICEBERG, {"uri": address})

    plain = {"uri": "postgresql://ann@db.example.org/lake", "warehouse": "s3://w/x"}
    assert without_secrets(plain) == plain


CREDENTIALS = (
    *(f"s3.{name}" for name in ("access-key-id", "secret-access-key", "session-token")),
    *(f"adls.{name}" for name in ("account-key", "sas-token", "client-secret")),
    *("adls.connection-string", "gcs.oauth2.token", "gcs.service-account-key", "hf.token"),
    *("credential", "token", "jdbc.password", "header.Authorization", "header.Cookie"),
    *("header.X-Auth", "fs.oss.accessKeySecret", "fs.s3a.access.key", "s3.access-key"),
    *("client.access-key-id", "client.session-token", "oss.access-key", "ssl.client.key"),
)


def test_no_client_is_told_what_a_store_or_catalog_is_logged_in_to_with():
    plain = {
        "type": "rest",
        "uri": "https://rest.example.org/v1",
        "warehouse": "s3://w/x",
        "s3.endpoint": "https://s3.example.org",
        "s3.region": "eu-west-1",
        "s3.path-style-access": "true",
        "adls.account-name": "shop",
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
        "oauth2-server-uri": "https://login.example.org",
    }
    hidden = dict.fromkeys(CREDENTIALS, "s3cret")
    hidden["store.a"] = "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=s3cret"
    hidden["store.b"] = "BlobEndpoint=https://shop;SharedAccessSignature=s3cret"
    hidden["store.c"], hidden["store.d"] = "Bearer s3cret", "Basic czNjcmV0"

    for lake in LakeFormat.ICEBERG, LakeFormat.PAIMON:
        told = told_properties(lake, {**plain, **hidden})

        assert told == {f"table.datalake.{lake}.{name}": value for name, value in plain.items()}


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
        assert typed.count("process list; set HEADWATER_PASSWORD instead") == 1

        assert not said(*command, "--user", "ann", HEADWATER_PASSWORD="s3cret")
    users = str(tmp_path / "users")
    typed = CliRunner().invoke(app, ["user", "add", users, "ann", "--password", "s3cret"])
    asked = CliRunner().invoke(app, ["user", "add", users, "ann"], input="s3cret\ns3cret\n")
    assert "process list; leave it out and be asked" in typed.stderr
    assert "warning" not in asked.stderr


def test_commands_warn_of_secrets_of_the_lake_that_others_can_see(tmp_path):
    (tmp_path / "key").write_text("s3cret")
    lake = ["--lake", "s3.secret-access-key=s3cret", "--lake", "warehouse=s3://w"]
    safe = ["--lake", f"s3.secret-access-key=@{tmp_path / 'key'}", "--lake", "catalog-key=main"]

    for command in (["count", "t"], ["audit"], ["tier", "--once", "--here"]):
        typed = said(*command, *lake)
        assert typed.count("pass s3.secret-access-key=@FILE") == 1
        assert "warehouse" not in typed

        assert not said(*command, *safe)


SECRETS = {
    "s3.secret-access-key": "s3cret",
    "s3.endpoint": "https://ann:s3cret@s3.example.org/?token=s3cret",
}
COMMANDS = (
    ["explain", "t"],
    ["explain", "t", "--json"],
    ["plan", "t"],
    ["plan", "t", "--json"],
    ["lake", "where", "t"],
    ["lake", "status", "t"],
    ["lake", "snapshots", "t"],
    ["audit", "t"],
)


@pytest.fixture(params=["iceberg", "paimon"])
def at(request, tmp_path):
    """Return a storage with a table in a lake, whose options tell secrets."""
    options = {
        "table.datalake.enabled": True,
        "table.datalake.format": request.param,
        "custom.source": "https://ann:s3cret@source.example.org/?token=s3cret",
    }
    with headwater.open(tmp_path) as hw:
        hw.create_table("t", {"id": "BIGINT"}, buckets=1, options=options).append([{"id": 1}])
    return Storage(str(tmp_path))


def test_no_command_shows_the_secrets_of_a_lake(at, tmp_path):
    (tmp_path / "key").write_text("s3cret")
    given = SECRETS | {"s3.secret-access-key": f"@{tmp_path / 'key'}"}
    lake = [text for pair in given.items() for text in ("--lake", "=".join(pair))]
    ok(at("tier", "--once", "--here"))

    for command in COMMANDS:
        shown = ok(at(*command, *lake))
        assert "s3cret" not in shown, command
        if command == ["plan", "t", "--json"]:
            splits = [each["lake"] for each in json.loads(shown)["splits"] if each["lake"]]
            assert splits
            assert all(b"s3cret" not in b64decode(each["payload"]) for each in splits)
    described = ok(at("table", "describe", "t", "-o", "json"))

    assert "s3cret" not in described
    assert "source.example.org" in described
    assert '"id":1' in ok(at("scan", "t", *lake, "-o", "json")).replace(" ", "")


def test_nothing_that_is_printed_by_mistake_shows_the_secrets_of_a_lake(at):
    ok(at("tier", "--once", "--here"))
    with headwater.open(at.at, lake=SECRETS) as hw:
        table = hw.table("t")
        lakes = Lakes(config=SECRETS)
        lake, spec = lakes.of(table.info), lake_spec(table.info)
        values = [
            lakes,
            lake,
            lake.catalog(),
            lake.source(spec),
            lake.keeper(spec),
            lake.committer(spec),
            table.view().plan(),
        ]

        for value in values:
            assert "s3cret" not in repr(value), type(value)


def test_options_of_tables_that_older_or_other_servers_hold_are_shown_without_secrets():
    plain = {
        "table.datalake.paimon.catalog-key": "main",
        "paimon.primary-key.nullable": "true",
        "bucket.key": "id",
        "iceberg.write.format.default": "parquet",
    }
    told = {
        "table.datalake.iceberg.credential": "s3cret",
        "table.datalake.iceberg.uri": "https://rest.example.org/v1?token=s3cret",
        "paimon.fs.s3a.secret.key": "s3cret",
    }

    shown = shown_options({**plain, **told})

    assert "s3cret" not in str(shown)
    assert shown.keys() == {**plain, **told}.keys()
    assert shown.items() >= plain.items()


def test_what_a_catalog_lends_to_readers_of_a_split_is_not_printed():
    file = LakeFile(path="f", row_count=1, byte_count=1, is_plain=True, payload=b"s3cret")
    split = LakeSplit(
        format="iceberg", snapshot_id=1, bucket=0, partition=(), files=(file,), payload=b"s3cret"
    )

    assert "s3cret" not in repr(split)
