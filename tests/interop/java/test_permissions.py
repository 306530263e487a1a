"""The Java client logs in, and grants, lists and revokes; it may do what was granted, and no more.

`root` may do everything, `ada` reads and writes one table, and `eve` may do nothing.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from scripts.fluss_jars import java_client
from scripts.foreign import Foreign, ForeignError, foreign

import headwater
from headwater.engines.spark.java import java_home
from headwater.server.logins import Users
from tests.cases import cases
from tests.serving import ServerProcess, serving
from tests.torture.processes import wait_until

PASSWORDS = {"root": "r-word", "ada": "a-word", "eve": "e-word"}
COLUMNS = {"id": "INT NOT NULL", "name": "STRING"}
ROWS = [[1, "tea"], [2, "cup"]]
DENIED = "AuthorizationException"
GRANTED = [
    ["User:ada", "READ", "fluss.orders"],
    ["User:ada", "WRITE", "fluss.orders"],
    ["User:ada", "READ", "fluss.stock"],
    ["User:ada", "WRITE", "fluss.stock"],
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[ServerProcess]:
    root = tmp_path_factory.mktemp("guarded")
    users = Users({})
    for name, password in PASSWORDS.items():
        users = users.with_user(name, password)
    users.save(root / "users")
    flags = ("--users", str(root / "users"), "--authorizer", "--super-users", "User:root")
    with serving(root / "data", *flags) as server:
        yield server


@contextmanager
def java_as(server: ServerProcess, name: str, password: str, place) -> Iterator[Foreign]:
    """Run the Java client as a user."""
    settings = {
        "client.security.protocol": "SASL",
        "client.security.sasl.mechanism": "PLAIN",
        "client.security.sasl.username": name,
        "client.security.sasl.password": password,
    }
    with foreign(
        "scripts.fluss_in_java",
        log=place / f"{name}.log",
        JAVA_HOME=str(java_home()),
        JARS=java_client(),
        SERVER=server.address,
        SETTINGS=json.dumps(settings),
    ) as asked:
        yield asked


@pytest.fixture(scope="module")
def users(tmp_path_factory, guarded) -> Iterator[dict[str, Foreign]]:
    place = tmp_path_factory.mktemp("java")
    with ExitStack() as running:
        clients = {
            name: running.enter_context(java_as(guarded, name, password, place))
            for name, password in PASSWORDS.items()
        }
        root = clients["root"]
        for table in ("fluss.orders", "fluss.hidden"):
            root.ask("create_table", table=table, columns=COLUMNS)
            root.ask("append", table=table, rows=ROWS)
        root.ask("create_table", table="fluss.stock", columns=COLUMNS, key=["id"])
        root.ask("upsert", table="fluss.stock", rows=ROWS)
        root.ask("grant", grants=GRANTED)
        yield clients


def refusal(client: Foreign, action: str, **parts: object) -> str:
    with pytest.raises(ForeignError) as refused:
        client.ask(action, **parts)
    return str(refused.value)


def test_a_wrong_password_does_not_get_in(guarded, users, tmp_path):
    with java_as(guarded, "ada", "wrong", tmp_path) as client:
        assert "AuthenticationException" in refusal(client, "databases")


def test_a_user_appends_and_scans_what_was_granted(users):
    users["ada"].ask("append", table="fluss.orders", rows=[[3, "pot"]])

    found = users["ada"].ask("scan", table="fluss.orders", count=3)["records"]

    assert [record[-1] for record in found] == [*ROWS, [3, "pot"]]
    assert users["ada"].ask("limit", table="fluss.orders", limit=1)["rows"] == [[3, "pot"]]


def test_a_user_upserts_and_looks_up_what_was_granted(users):
    users["ada"].ask("upsert", table="fluss.stock", rows=[[7, "jug"]])

    found = users["ada"].ask("lookup", table="fluss.stock", keys=[[1], [7], [9]])["rows"]

    assert found == [[[1, "tea"]], [[7, "jug"]], []]


def test_lists_leave_out_what_a_user_may_not_see(users):
    seen = {name: users[name].ask("tables", database="fluss")["names"] for name in PASSWORDS}

    assert {name: sorted(tables) for name, tables in seen.items()} == {
        "root": ["hidden", "orders", "stock"],
        "ada": ["orders", "stock"],
        "eve": [],
    }
    assert not users["eve"].ask("table_exists", table="fluss.orders")["exists"]
    assert users["ada"].ask("table_exists", table="fluss.orders")["exists"]


@cases(
    ("user", "action", "parts"),
    [
        ("eve", "create_database", {"name": "mine", "comment": "mine"}),
        ("eve", "create_table", {"table": "fluss.mine", "columns": COLUMNS}),
        ("eve", "table", {"table": "fluss.orders"}),
        ("eve", "drop_table", {"table": "fluss.orders"}),
        ("eve", "set_option", {"table": "fluss.orders", "name": "table.log.ttl", "value": "1d"}),
        ("eve", "grant", {"grants": [["User:eve", "READ", "fluss.orders"]]}),
        ("ada", "drop_table", {"table": "fluss.orders"}),
        ("ada", "add_column", {"table": "fluss.orders", "name": "more", "kind": "INT"}),
        ("ada", "create_table", {"table": "fluss.mine", "columns": COLUMNS}),
        ("ada", "grant", {"grants": [["User:ada", "ALL", "fluss.orders"]]}),
    ],
)
def test_what_was_not_granted_is_refused(users, user, action, parts):
    assert DENIED in refusal(users[user], action, **parts)


def test_a_user_who_knows_a_table_only_by_its_name_gets_none_of_its_rows(users):
    told = [
        refusal(users["eve"], "append", table="fluss.orders", rows=ROWS),
        refusal(users["eve"], "scan", table="fluss.orders", count=1),
        refusal(users["eve"], "lookup", table="fluss.stock", keys=[[1]]),
        refusal(users["eve"], "limit", table="fluss.stock", limit=1),
    ]

    assert [DENIED in each for each in told] == [True] * len(told)


def test_a_user_who_may_see_a_table_but_not_read_or_write_it_is_refused(users):
    users["root"].ask("grant", grants=[["User:eve", "DESCRIBE", "fluss"]])
    try:
        told = [
            refusal(users["eve"], "append", table="fluss.orders", rows=ROWS),
            refusal(users["eve"], "scan", table="fluss.orders", count=1),
            refusal(users["eve"], "upsert", table="fluss.stock", rows=ROWS),
            refusal(users["eve"], "lookup", table="fluss.stock", keys=[[1]]),
            refusal(users["eve"], "limit", table="fluss.stock", limit=1),
            refusal(users["eve"], "row_count", table="fluss.stock"),
        ]
    finally:
        users["root"].ask("revoke", who="User:eve", operation="DESCRIBE", resource="fluss")

    assert [DENIED in each for each in told] == [True] * len(told)


def test_grants_are_listed_and_revoked(guarded, users):
    grant = ["User:eve", "READ", "fluss.orders"]
    before = users["root"].ask("grants")["grants"]
    users["root"].ask("grant", grants=[grant])

    during = users["root"].ask("grants")["grants"]
    read = users["eve"].ask("limit", table="fluss.orders", limit=1)["rows"]
    revoked = users["root"].ask("revoke", who=grant[0], operation=grant[1], resource=grant[2])

    entry = ["User:eve", "READ", "TABLE fluss.orders"]
    assert (len(read), revoked["grants"]) == (1, [entry])
    assert sorted([*before, entry]) == during
    assert users["root"].ask("grants")["grants"] == before
    assert DENIED in refusal(users["eve"], "limit", table="fluss.orders", limit=1)


def test_a_user_lists_grants_only_of_what_it_may_see(users):
    seen = users["ada"].ask("grants")["grants"]

    assert {each[-1] for each in seen} == {"TABLE fluss.orders", "TABLE fluss.stock"}
    assert users["eve"].ask("grants")["grants"] == []


def test_what_java_granted_our_client_sees_and_uses(guarded, users):
    with headwater.connect(guarded.address, user="root", password=PASSWORDS["root"]) as hw:
        found = hw.acls.list()

    told = [(str(acl.principal), acl.operation.name, str(acl.resource)) for acl in found]
    assert sorted(told) == sorted((who, what, f"table:{table}") for who, what, table in GRANTED)


def test_a_removed_user_is_out(guarded, users, tmp_path):
    file = guarded.directory.parent / "users"
    Users.load(file).with_user("guest", "g-word").save(file)
    with java_as(guarded, "guest", "g-word", tmp_path) as guest:
        assert guest.ask("databases")["names"] == []

        Users.load(file).without_user("guest").save(file)
        wait_until(lambda: _is_out(guest), within_s=30)


def _is_out(client: Foreign) -> bool:
    try:
        client.ask("databases")
    except ForeignError as fault:
        return "AuthenticationException" in str(fault)
    return False
