"""The catalog answers as the specification says: lists, pages, credentials, refusals."""

import base64
from urllib.parse import urlencode

import pytest

import headwater
from headwater.server.logins import Users
from tests.cases import cases
from tests.doors.iceberg.opening import LAKE, opened_door
from tests.serving import serving


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    with headwater.open(tmp_path_factory.mktemp("data"), listen=True) as hw:
        for database in ("a", "b", "c"):
            hw.create_database(database)
        for name in ("one", "three", "two"):
            hw.create_table(f"a.{name}", {"id": "BIGINT"})
        with opened_door((hw.address,)) as door:
            yield door


def test_the_config_names_the_endpoints_that_there_are(catalog):
    answer = catalog.ask("/v1/config?warehouse=any")

    assert answer.status == 200
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in answer.body["endpoints"]
    assert not any(each.startswith("DELETE") for each in answer.body["endpoints"])


def test_databases_are_namespaces(catalog):
    assert catalog.ask("/v1/namespaces").body["namespaces"] == [["a"], ["b"], ["c"], ["fluss"]]
    assert catalog.ask("/v1/namespaces?parent=a").body["namespaces"] == []
    assert catalog.ask("/v1/namespaces/a").body == {"namespace": ["a"], "properties": {}}
    assert catalog.ask("/v1/namespaces/a", method="HEAD").status == 204
    assert catalog.ask("/v1/namespaces/x", method="HEAD").status == 404


def test_lists_come_in_pages_if_a_client_asks_for_them(catalog):
    names, token = [], ""
    while token is not None:
        page = catalog.ask(f"/v1/namespaces/a/tables?pageSize=2&pageToken={token}").body
        names.append([each["name"] for each in page["identifiers"]])
        token = page["next-page-token"]

    assert names == [["one", "three"], ["two"]]


def test_a_table_is_there_or_not(catalog):
    assert catalog.ask("/v1/namespaces/a/tables/one", method="HEAD").status == 204
    assert catalog.ask("/v1/namespaces/a/tables/none", method="HEAD").status == 404


@cases(
    "path,status,kind",
    [
        ("/v1/namespaces/x", 404, "NoSuchNamespaceException"),
        ("/v1/namespaces/a%1Fb", 404, "NoSuchNamespaceException"),
        ("/v1/namespaces/x/tables", 404, "NoSuchNamespaceException"),
        ("/v1/namespaces?parent=x", 404, "NoSuchNamespaceException"),
        ("/v1/namespaces/a/tables/none", 404, "NoSuchTableException"),
        ("/v1/namespaces/a/tables/one$changelog", 404, "NoSuchTableException"),
        ("/v1/namespaces/a/tables/%2e%2e%2fx", 404, "NotFoundException"),
        ("/v1/namespaces/a/views/v", 404, "NoSuchViewException"),
        ("/v1/namespaces?pageToken=&pageSize=0", 400, "BadRequestException"),
        ("/v1/namespaces?pageToken=&pageSize=many", 400, "BadRequestException"),
        ("/", 404, "NotFoundException"),
    ],
)
def test_what_is_not_there_is_told_in_the_specified_form(path, status, kind, catalog):
    answer = catalog.ask(path)

    assert answer.status == status
    error = answer.body["error"]
    assert (error["code"], error["type"]) == (status, kind)
    assert error["message"]


@cases(
    "method,path",
    [
        ("POST", "/v1/namespaces"),
        ("DELETE", "/v1/namespaces/a"),
        ("POST", "/v1/namespaces/a/properties"),
        ("POST", "/v1/namespaces/a/tables"),
        ("POST", "/v1/namespaces/a/register"),
        ("POST", "/v1/namespaces/a/tables/one"),
        ("DELETE", "/v1/namespaces/a/tables/one"),
        ("POST", "/v1/tables/rename"),
        ("POST", "/v1/transactions/commit"),
    ],
)
def test_writes_are_refused(method, path, catalog):
    answer = catalog.ask(path, method=method, data=b"{}")

    assert answer.status == 406
    assert answer.body["error"]["type"] == "UnsupportedOperationException"
    assert "read only" in answer.body["error"]["message"]


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A catalog behind a server with users, of whom ann may see the database a only."""
    place = tmp_path_factory.mktemp("guarded")
    Users({}).with_user("root", "r").with_user("ann", "secret").save(place / "users")
    options = (f"--users={place / 'users'}", "--authorizer", "--super-users=User:root")
    with serving(place / "data", *options) as server:
        with headwater.connect(server.address, user="root", password="r") as hw:
            for database in ("a", "b"):
                hw.create_database(database)
                hw.create_table(f"{database}.t", {"id": "BIGINT"})
            hw.acls.grant("User:ann", "READ", "a")
            ruled = hw.create_table("a.ruled", {"id": "BIGINT", "card": "STRING"}, options=LAKE)
            ruled.append([{"id": 1, "card": "4711"}])
            hw.acls.grant("User:ann", "READ", "a.ruled", columns=["id"])
        with opened_door((server.address,)) as door:
            yield door


def test_callers_see_what_the_server_lets_them_see(guarded):
    ann, root = basic("ann", "secret"), basic("root", "r")

    assert ["b"] not in guarded.ask("/v1/namespaces", headers=ann).body["namespaces"]
    assert ["b"] in guarded.ask("/v1/namespaces", headers=root).body["namespaces"]
    assert guarded.ask("/v1/namespaces/a/tables/t", method="HEAD", headers=ann).status == 204
    assert guarded.ask("/v1/namespaces/b/tables/t", method="HEAD", headers=ann).status != 204
    assert guarded.ask("/v1/namespaces/b/tables/t", method="HEAD", headers=root).status == 204


def test_a_caller_who_may_read_a_part_of_a_table_gets_nothing_of_it(guarded):
    loads = [
        guarded.ask("/v1/namespaces/a/tables/ruled", headers=basic(*who))
        for who in (("root", "r"), ("ann", "secret"))
    ]

    assert [answer.status for answer in loads] == [200, 403]
    assert "only some columns or rows" in loads[1].body["error"]["message"]


@cases(
    "headers",
    [
        {},
        basic("ann", "wrong"),
        basic("nobody", "secret"),
        {"Authorization": "Basic ???"},
        {"Authorization": "Bearer hw-unknown"},
        {"Authorization": "Bearer not.a.token"},
        {"Authorization": "Digest x"},
    ],
)
def test_strangers_are_told_to_log_in(headers, guarded):
    answer = guarded.ask("/v1/config", headers=headers)

    assert (answer.status, answer.body["error"]["type"]) == (401, "NotAuthorizedException")


def test_credentials_are_exchanged_for_a_token(guarded):
    form = {"grant_type": "client_credentials", "client_id": "ann", "client_secret": "secret"}
    given = guarded.ask("/v1/oauth/tokens", method="POST", data=urlencode(form).encode())
    token = {"Authorization": f"Bearer {given.body['access_token']}"}

    assert given.body["token_type"] == "bearer"
    assert ["a"] in guarded.ask("/v1/namespaces", headers=token).body["namespaces"]


@cases(
    "form,status,code",
    [
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
        (
            {"grant_type": "client_credentials", "client_id": "ann", "client_secret": "no"},
            401,
            "invalid_client",
        ),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({}, 400, "unsupported_grant_type"),
    ],
)
def test_wrong_credentials_give_no_token(form, status, code, guarded):
    answer = guarded.ask("/v1/oauth/tokens", method="POST", data=urlencode(form).encode())

    assert (answer.status, answer.body["error"]) == (status, code)
