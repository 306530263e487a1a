"""Secrets that are planted wherever a user may put them, and looked for wherever others look.

The server is real, has users, a lake with keys, a trail, and logs everything.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

import headwater
from headwater.errors import HeadwaterError
from headwater.server.logins import Users
from tests.cli.commanding import Storage, ok
from tests.serving import ServerProcess
from tests.torture.processes import wait_until

PASSWORD, WRONG = "pl4nted-password", "pl4nted-guess"
BY_FILE, BY_VARIABLE, TYPED = "pl4nted-by-file", "pl4nted-by-variable", "pl4nted-in-address"
PLANTED = re.compile("pl4nted|cGw0bnRlZ")  # as it is, and in base64
LAKE = {"table.datalake.enabled": True, "table.datalake.format": "iceberg"}


@dataclass(frozen=True)
class Planted:
    """A server with secrets, and where it shows something."""

    server: ServerProcess
    trail: Path
    metrics: str

    def calls(self) -> set[str]:
        """Return the calls that the trail has recorded; it is written in the background."""
        lines = self.trail.read_text().splitlines() if self.trail.exists() else []
        return {json.loads(line)["call"] for line in lines}

    def shown(self) -> dict[str, str]:
        """Return all that others can look at."""
        pages = {path: urlopen(f"{self.metrics}{path}").read().decode() for path in PAGES}
        process = Path("/proc") / str(self.server.pid) / "cmdline"
        command = process.read_text() if process.exists() else ""
        return {
            **pages,
            "log": self.server.events(),
            "trail": self.trail.read_text(),
            "command line": command,
        }


PAGES = ("/metrics", "/health")


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Iterator[Planted]:
    root = tmp_path_factory.mktemp("planted")
    Users({}).with_user("root", PASSWORD).save(root / "users")
    (root / "key").write_text(BY_FILE)
    (root / "key").chmod(0o600)
    lake = {"s3.secret-access-key": f"@{root / 'key'}", "s3.session-token": "env:PLANTED"}
    flags = [f"--lake=datalake.iceberg.{name}={value}" for name, value in lake.items()]
    server = ServerProcess(
        root / "data",
        *flags,
        f"--users={root / 'users'}",
        f"--trail-file={root / 'trail.jsonl'}",
        "--trail-kinds=login,ddl,acl,read,write",
        "--authorizer",
        "--super-users=User:root",
        "--metrics-port=0",
        "--log-level=DEBUG",
        variables={"PLANTED": BY_VARIABLE},
    )
    port = re.search(r"metrics_port=(\d+)", server.events())[1]
    yield Planted(server, root / "trail.jsonl", f"http://127.0.0.1:{port}")
    server.stop()


def connect(planted: Planted, password: str = PASSWORD, **more) -> headwater.Client:
    return headwater.connect(planted.server.address, user="root", password=password, **more)


def test_a_server_that_was_given_secrets_shows_none_of_them(planted, tmp_path):
    with connect(planted, lake={"s3.secret-access-key": TYPED}) as hw:
        options = {**LAKE, "custom.source": f"https://ann:{TYPED}@source.example.org/"}
        table = hw.create_table("t", {"id": "BIGINT"}, buckets=1, options=options)
        table.append([{"id": 1}])
        hw.acls.grant("User:ann", "READ", "t")
        assert len(table.view().scan().to_arrow()) == 1
        with suppress(HeadwaterError):
            table.append([{"other": PASSWORD}])
    for password in (WRONG, ""):
        with pytest.raises(HeadwaterError) as why, connect(planted, password) as hw:
            hw.list_databases()
        assert not PLANTED.search(str(why.value) + repr(why.value))

    wanted = {"AUTHENTICATE", "CREATE_TABLE", "CREATE_ACLS", "PRODUCE_LOG", "FETCH_LOG"}
    wait_until(lambda: wanted <= planted.calls(), within_s=30)
    for place, text in planted.shown().items():
        assert text, place
        assert not PLANTED.search(text), place


def test_no_command_shows_the_password_that_it_was_given(planted):
    env = {"HEADWATER_USER": "root", "HEADWATER_PASSWORD": PASSWORD}
    for command in (
        ["database", "list"],
        ["scan", "headwater.audit_log", "--debug"],
        ["scan", "missing", "--debug"],
        ["acl", "list"],
        ["user", "list", "missing"],
        ["count", "t", "--lake", f"uri=http://ann:{TYPED}@127.0.0.1:1/", "--debug"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "headwater", *command],
            env={**Storage(planted.server.address).env, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert done.stdout + done.stderr, command
        # What a user typed on the command line is warned of, by its name.
        assert not PLANTED.search(done.stdout + done.stderr), command


def test_a_backup_and_its_manifest_hold_no_secret_of_the_lake(planted, tmp_path):
    copied = tmp_path / "backup"

    ok(Storage(str(planted.server.directory))("backup", str(copied)))

    files = [each for each in copied.rglob("*") if each.is_file()]
    assert any("json" in each.name for each in files)
    for each in files:
        content = each.read_bytes()
        assert BY_FILE.encode() not in content, each
        assert BY_VARIABLE.encode() not in content, each
        assert PASSWORD.encode() not in content, each


def test_a_client_is_told_where_the_lake_is_and_nothing_secret(planted):
    with connect(planted) as hw:
        table = hw.create_table("told", {"id": "BIGINT"}, options=LAKE)

        told = json.dumps(dict(table.info.descriptor.properties))

    assert "table.datalake.iceberg.warehouse" in told
    assert not PLANTED.search(told)
    assert "s3.s" not in told


def test_no_settings_show_their_secrets():
    lake = {"datalake.iceberg.s3.secret-access-key": TYPED, "datalake.iceberg.credential": TYPED}
    settings = [
        headwater.ServerSettings(lake_properties=lake),
        headwater.ClientSettings(),
    ]

    for each in settings:
        assert not PLANTED.search(repr(each) + str(each)), type(each)
        assert type(each).__name__ in repr(each)
