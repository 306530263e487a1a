"""Tierers, engines and doors over TLS, with users, client certificates and permissions.

The server is real, and its certificates are those of `headwater certificate`. Rows are in the lake
and in the log, so that every reader needs both.
"""

import base64
import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import datafusion
import duckdb
import pytest

import headwater
import headwater.arrow
import headwater.datafusion
import headwater.duckdb
import headwater.polars
from headwater.errors import AccessError, HeadwaterError
from headwater.server.logins import Users
from tests.cli.commanding import Storage, ok
from tests.serving import serving

TIERED, FRESH = 40, 7
DENIED = 8  # what a command exits with
PASSWORDS = {"root": "r-word", "ann": "a-word", "eve": "e-word"}
LAKE = {"table.datalake.enabled": True, "table.datalake.format": "iceberg"}


@dataclass(frozen=True)
class Secured:
    """A server that speaks TLS only, its CA, and the certificates of two users."""

    at: str
    certificates: Path

    @property
    def ca(self) -> str:
        return str(self.certificates / "ca.pem")

    def connect(self, user: str, **changed: object) -> headwater.Client:
        login = {"user": user, "password": PASSWORDS[user], "tls": True, "tls_ca_file": self.ca}
        return headwater.connect(self.at, **{**login, **changed})

    def flags(self, name: str, *, ca: str = "") -> list[str]:
        """Log in by certificate."""
        own = self.certificates / name
        return [
            "--tls",
            f"--tls-ca={ca or self.ca}",
            f"--tls-certificate={own}.pem",
            f"--tls-key={own}.key",
        ]


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory) -> str:
    directory = tmp_path_factory.mktemp("elsewhere")
    ok(Storage("")("certificate", "make", str(directory)))
    return str(directory / "ca.pem")


@pytest.fixture(scope="module")
def secured(tmp_path_factory) -> Iterator[Secured]:
    root = tmp_path_factory.mktemp("secured")
    certificates, command = root / "certificates", Storage("")
    ok(command("certificate", "make", str(certificates), "--names", "localhost,127.0.0.1"))
    for name in ("tierer", "guest"):
        ok(command("certificate", "client", str(certificates), name))
    users = Users({})
    for name, password in PASSWORDS.items():
        users = users.with_user(name, password)
    users.save(root / "users")
    flags = [
        f"--users={root / 'users'}",
        f"--tls-certificate={certificates / 'server.pem'}",
        f"--tls-key={certificates / 'server.key'}",
        f"--tls-client-ca={certificates / 'ca.pem'}",
        "--tls-client-auth=optional",
        "--authorizer",
        "--super-users=User:root",
    ]
    with serving(root / "data", *flags) as server:
        yield Secured(server.address, certificates)


@pytest.fixture(scope="module")
def tiered(secured) -> Secured:
    """Return the server with a table whose first rows a tierer has brought into the lake."""
    with secured.connect("root") as hw:
        log = hw.create_table("fluss.visits", {"id": "BIGINT"}, buckets=2, options=LAKE)
        log.append([{"id": number} for number in range(TIERED)])
        hw.acls.grant("User:tierer", ["READ", "WRITE"], "fluss.visits")
        hw.acls.grant("User:ann", "READ", "fluss.visits")
        tier = ("tier", "fluss.visits", "--once", "--here")
        ok(Storage(secured.at)(*tier, *secured.flags("tierer")))
        log.append([{"id": TIERED + number} for number in range(FRESH)])
    return secured


def test_a_tierer_logs_in_by_its_certificate_and_engines_read_what_it_wrote(tiered):
    with tiered.connect("ann") as hw:
        table = hw.table("fluss.visits")
        in_lake = table.scan(mode="lake").to_arrow()
        assert len(in_lake) == TIERED

        # Its user may see this one table, and so the database is in the lists of engines.
        duck, fusion = duckdb.connect(), datafusion.SessionContext()
        headwater.duckdb.install(duck, hw)
        headwater.datafusion.install(fusion, hw)
        counts = [
            duck.sql("SELECT count(DISTINCT id) FROM hw.fluss.visits").fetchall()[0][0],
            headwater.polars.scan(table).collect()["id"].n_unique(),
            fusion.sql("SELECT * FROM fluss_read('fluss', 'visits')").to_arrow_table().num_rows,
            headwater.arrow.dataset(table).count_rows(),
        ]

    assert counts == [TIERED + FRESH] * 4


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_tierer_on_spark_logs_in_by_its_certificate_on_every_worker(tiered):
    with tiered.connect("root") as hw:
        log = hw.create_table("fluss.spark", {"id": "BIGINT"}, buckets=2, options=LAKE)
        log.append([{"id": number} for number in range(TIERED)])
        hw.acls.grant("User:tierer", ["READ", "WRITE"], "fluss.spark")
        tier = ("tier", "fluss.spark", "--once", "--master=local[2]", "-o", "json")

        process = Storage(tiered.at).process(*tier, *tiered.flags("tierer"))
        told, why = process.communicate(timeout=300)

        assert process.returncode == 0, why
        assert json.loads(told)["rows"] == len(log.scan(mode="lake").to_arrow()) == TIERED


def test_who_may_not_write_tiers_nothing(tiered):
    tier = ("tier", "fluss.visits", "--once", "--here")

    result = Storage(tiered.at)(*tier, *tiered.flags("guest"))

    assert result.exit_code == DENIED
    assert "User:guest may not" in result.stderr


def test_an_engine_reads_nothing_for_a_user_who_may_not(tiered):
    with tiered.connect("eve") as hw:
        duck = duckdb.connect()
        headwater.duckdb.install(duck, hw)

        with pytest.raises((duckdb.Error, HeadwaterError), match="visits"):
            duck.sql("SELECT count(*) FROM hw.fluss.visits").fetchall()
        with pytest.raises(AccessError, match="User:eve may not"):
            headwater.polars.scan(hw.table("fluss.visits")).collect()


def test_a_tierer_that_does_not_know_the_ca_says_which_file_is_wrong(tiered, other_ca):
    tier = ("tier", "fluss.visits", "--once", "--here", "--timeout", "5s")

    result = Storage(tiered.at)(*tier, *tiered.flags("tierer", ca=other_ca))

    assert result.exit_code
    assert "tls_ca_file" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_tierer_without_encryption_is_told_to_use_it(tiered):
    result = Storage(tiered.at)("tier", "fluss.visits", "--once", "--here", "--timeout", "5s")

    assert result.exit_code
    assert "--tls" in result.stderr


@contextmanager
def opened_door(secured: Secured, *flags: str) -> Iterator[str]:
    certificate = secured.certificates / "server"
    process = Storage(secured.at).process(
        "doors",
        "--iceberg-port=0",
        f"--door-certificate={certificate}.pem",
        f"--door-key={certificate}.key",
        *(flags or ("--tls", f"--tls-ca={secured.ca}")),
    )
    try:
        line = next(each for each in process.stderr if " open " in each)
        yield re.search(r"address=(\S+)", line)[1]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def asked(address: str, ca: str, *, user: str = "", password: str = "") -> int:
    headers = {}
    if user:
        both = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {both}"}
    request = Request(f"{address}/v1/namespaces/fluss/tables/visits", headers=headers)
    try:
        context = ssl.create_default_context(cafile=ca)
        with urlopen(request, timeout=30, context=context) as answer:
            return answer.status
    except HTTPError as refusal:
        with refusal:
            return refusal.code


def test_a_door_speaks_tls_to_those_who_log_in_with_the_server_behind_it(tiered, other_ca):
    with opened_door(tiered) as address:
        assert address.startswith("https://")
        assert asked(address, tiered.ca, user="ann", password=PASSWORDS["ann"]) == 200
        assert asked(address, tiered.ca, user="ann", password="wrong") == 401
        assert asked(address, tiered.ca, user="eve", password=PASSWORDS["eve"]) in (403, 404)
        assert asked(address, tiered.ca) == 401

        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            asked(address, other_ca, user="ann", password=PASSWORDS["ann"])
        with pytest.raises(OSError):  # noqa: PT011 - the port speaks TLS, and says no more
            asked(address.replace("https", "http"), tiered.ca)


def test_a_door_whose_certificate_cannot_be_used_does_not_open(tiered, tmp_path):
    (tmp_path / "bad.pem").write_text("nothing")
    process = Storage(tiered.at).process(
        "doors",
        "--iceberg-port=0",
        f"--door-certificate={tmp_path / 'bad.pem'}",
        f"--door-key={tiered.certificates / 'server.key'}",
        "--tls",
        f"--tls-ca={tiered.ca}",
    )

    _, told = process.communicate(timeout=60)

    assert process.returncode
    assert "bad.pem" in told
    assert "Traceback" not in told
