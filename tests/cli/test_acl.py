"""Permissions by command and in SQL, in a directory and on a server with users."""

import pytest

import headwater
from headwater.cli.security.grants import GrantStatement, pieces_of
from headwater.errors import AccessError, RequestError
from headwater.model.acl import Operation, parse_principal
from headwater.server.logins import Users
from tests.cases import cases
from tests.cli.commanding import Storage, ok
from tests.serving import ServerProcess

PASSWORDS = {"root": "r", "ada": "a", "bob": "b"}
FLAGS = ("--authorizer", "--super-users", "User:root")


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    file, users = tmp_path_factory.mktemp("users") / "users", Users({})
    for name, password in PASSWORDS.items():
        users = users.with_user(name, password)
    users.save(file)
    return file


@pytest.fixture
def closed(tmp_path):
    """Return a directory that nobody has open."""
    storage = Storage(str(tmp_path / "data"))
    ok(storage("database", "create", "shop"))
    return storage


def client_of(server: ServerProcess, user: str) -> headwater.Client:
    return headwater.connect(server.address, user=user, password=PASSWORDS[user])


def test_permissions_are_granted_listed_tested_and_revoked(closed):
    told = ok(closed("acl", "grant", "User:ada", "READ,WRITE", "shop.orders", "--host", "10.0.0.1"))

    assert told.splitlines()[0] == "Granted: User:ada may READ on table:shop.orders from 10.0.0.1"
    assert closed.rows("acl", "list", "--operation", "WRITE") == [
        {
            "principal": "User:ada",
            "operation": "WRITE",
            "resource": "table:shop.orders",
            "host": "10.0.0.1",
            "rule": "",
        }
    ]
    assert "Revoked: User:ada may READ" in ok(closed("acl", "revoke", "User:ada", "READ"))
    assert len(closed.rows("acl", "revoke", "--resource", "shop.orders")) == 1
    assert "no entry matches" in ok(closed("acl", "revoke", "User:ada"))


def test_a_test_names_the_entry_or_exits_with_8(closed):
    ok(closed("acl", "grant", "Group:ops", "ALL", "shop"))
    question = ("acl", "test", "User:ada", "READ", "shop.orders")

    allowed, denied = closed(*question, "--group", "ops"), closed(*question)

    assert ok(allowed) == "Yes: Group:ops may ALL on database:shop.\n"
    assert (denied.exit_code, denied.stdout.partition(":")[0]) == (8, "No")


@cases(
    "arguments",
    [
        ("grant", "ada", "READ", "shop.orders"),
        ("grant", "User:ada", "SELECT", "shop.orders"),
        ("grant", "User:ada", "READ", "*"),
        ("grant", "User:ada", "READ", "shop.orders", "--host", "localhost"),
        ("revoke",),
        ("test", "Group:ops", "READ", "shop"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path_factory, arguments):
    storage = Storage(str(tmp_path_factory.mktemp("storage") / "data"))
    ok(storage("database", "create", "shop"))

    assert storage("acl", *arguments).exit_code == 3


def test_grants_in_sql_stand_between_queries(closed):
    statements = (
        "GRANT READ, WRITE ON shop.orders TO ada, GROUP \"big ops\"; select 'a;b' as x; "
        "revoke write on table shop.orders from ada;"
    )

    result = closed("sql", statements)

    assert "a;b" in ok(result)
    assert "granted 4" in result.stderr
    assert "revoked 1" in result.stderr
    assert sorted(row["principal"] for row in closed.rows("acl", "list")) == [
        "Group:big ops",
        "Group:big ops",
        "User:ada",
    ]


@cases(
    ("text", "operations", "resource", "principals", "host"),
    [
        ("grant all on cluster to public", ["ALL"], "cluster", ["*:*"], None),
        ("GRANT ALL PRIVILEGES ON DATABASE shop TO 'User:a b'", ["ALL"], "database:shop",
         ["User:a b"], None),
        ("grant read on * to user ada at '10.0.0.1'", ["READ"], "table:*", ["User:ada"],
         "10.0.0.1"),
        ('revoke drop, alter /* both */ on "my db"."t" from group g, bob', ["DROP", "ALTER"],
         "table:my db.t", ["Group:g", "User:bob"], None),
    ],
)  # fmt: skip
def test_a_statement_is_read(text, operations, resource, principals, host):
    [found] = pieces_of(text)

    assert found == GrantStatement(
        text.lower().startswith("grant"),
        tuple(Operation[name] for name in operations),
        resource,
        tuple(map(parse_principal, principals)),
        host,
    )


@cases(
    ("text", "advice"),
    [
        ("grant select on a.b to ada", "Use READ"),
        ("grant read on orders to ada", "Write DATABASE orders"),
        ("grant read on a.b from ada", "Write GRANT"),
        ("grant read on a.b to ada with grant option", "cannot be read at 'with'"),
        ("revoke read on a.b", "cannot be read at 'the end'"),
        ("grant any on a.b to ada", "Use one of ALL"),
    ],
)
def test_a_statement_that_cannot_be_read_says_what_to_write(text, advice):
    with pytest.raises(RequestError, match=advice):
        list(pieces_of(text))


@cases("text", ["select 1", "", "-- grant x;\nselect 1;", "select 'x; grant y'"])
def test_what_grants_nothing_is_left_as_it_is(text):
    assert list(pieces_of(text)) == [text]


def test_users_may_do_what_they_were_granted_and_nothing_else(tmp_path, users):
    server = ServerProcess(tmp_path / "data", "--users", str(users), *FLAGS)
    try:
        with client_of(server, "root") as root, client_of(server, "ada") as ada:
            root.create_database("shop")
            orders = root.create_table("shop.orders", {"id": "BIGINT"}, primary_key="id")
            root.create_table("shop.secrets", {"id": "BIGINT"})
            orders.upsert({"id": 1})
            root.acls.grant("User:ada", "READ", "shop.orders")
            seen = ada.table("shop.orders")

            assert seen.get({"id": 1}) == {"id": 1}
            assert ada.list_tables("shop") == ["orders"]
            assert not ada.table_exists("shop.secrets")
            for refused in (
                lambda: seen.upsert({"id": 2}),
                lambda: ada.table("shop.secrets"),
                lambda: ada.create_database("mine"),
                lambda: ada.acls.grant("User:ada", "ALL", "cluster"),
            ):
                with pytest.raises(AccessError):
                    refused()
            root.acls.revoke("User:ada")
            with pytest.raises(AccessError):
                seen.get({"id": 1})
    finally:
        server.stop()


def test_permissions_survive_a_kill(tmp_path, users):
    flags = ("--users", str(users), *FLAGS)
    server = ServerProcess(tmp_path / "data", *flags)
    with client_of(server, "root") as root:
        root.acls.grant("User:ada", ["CREATE", "READ"], "cluster")
        root.acls.revoke("User:ada", "READ")

    server.kill()

    server = ServerProcess(tmp_path / "data", *flags)
    try:
        with client_of(server, "root") as root, client_of(server, "ada") as ada:
            assert [str(each) for each in root.acls.list()] == ["User:ada may CREATE on cluster"]
            ada.create_database("mine")
    finally:
        server.stop()


def test_a_backup_keeps_permissions(closed, tmp_path):
    ok(closed("acl", "grant", "User:ada", "READ", "shop"))
    backup, restored = tmp_path / "backup", tmp_path / "restored"

    ok(closed("backup", str(backup)))
    ok(closed("restore", str(backup), str(restored)))

    assert Storage(str(restored)).rows("acl", "list") == closed.rows("acl", "list")
    assert len(closed.rows("acl", "list")) == 1


RULE = "(id, amount) where region = 'EU' and amount < 100"


def test_columns_and_rows_are_granted_listed_and_revoked_in_a_shell_and_in_sql(closed):
    columns = ("--column", "id:INT", "--column", "region:STRING", "--column", "amount:INT")
    ok(closed("table", "create", "shop.orders", *columns))
    grant = ("acl", "grant", "User:ann", "READ", "shop.orders", "--columns", "id,amount")

    told = ok(closed(*grant, "--where", "region = 'EU' and amount < 100"))
    in_shell = closed.rows("acl", "list")
    ok(closed("acl", "revoke", "User:ann"))
    where = "WHERE region = 'EU' and amount < 100"
    ok(closed("sql", f"GRANT READ (id, amount) ON shop.orders TO ann {where}"))

    assert told == f"Granted: User:ann may READ on table:shop.orders {RULE}\n"
    assert [each["rule"] for each in in_shell] == [RULE]
    assert closed.rows("acl", "list") == in_shell


def test_a_rule_for_another_operation_or_for_many_tables_is_refused(closed):
    ok(closed("table", "create", "shop.orders", "--column", "id:INT"))
    for statement, reason in [
        ("GRANT WRITE (id) ON shop.orders TO ann", "for READ, not for WRITE"),
        ("GRANT READ (id) ON DATABASE shop TO ann", "for one table"),
        ("GRANT READ (other) ON shop.orders TO ann", "no column 'other'"),
        ("GRANT READ ON shop.orders TO ann WHERE other = 1", "no column 'other'"),
        ("REVOKE READ (id) ON shop.orders FROM ann", "revoked as a whole"),
    ]:
        assert reason in closed("sql", statement).stderr

    assert closed.rows("acl", "list") == []
