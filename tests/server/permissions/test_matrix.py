"""Every call, by every principal of a set, about every table, against the oracle."""

import pytest

from headwater.errors import AccessError, HeadwaterError
from headwater.model.bucket import TableBucket
from headwater.server.permissions.needs import NEEDS
from headwater.wire.apis import APIS, ApiKey
from tests.server.permissions.asking import acl, ask, grant, guarded, make_table, session_of
from tests.server.permissions.calls import PRODUCER, is_hidden, is_refused, requests_about
from tests.server.permissions.oracle import CALLS, may_call

TABLES = ["shop.orders", "shop.items", "lab.notes"]
FROM_ELSEWHERE = "10.0.0.9"
HERE = "127.0.0.1"
# Principal, operation, resource as the oracle writes it, host.
ENTRIES = [
    *[("User:keeper", "READ", table, "*") for table in TABLES],
    ("User:ada", "READ", "shop.orders", "*"),
    ("User:bob", "WRITE", "shop", "*"),
    ("User:cat", "ALL", "shop", "*"),
    ("User:dan", "DESCRIBE", "*.*", "*"),
    ("User:fay", "CREATE", "cluster", "*"),
    ("Group:ops", "DROP", "lab", "*"),
    ("User:hal", "ALL", "cluster", FROM_ELSEWHERE),
    ("User:ian", "ALTER", "shop.orders", HERE),
    ("User:kim", "ALL", "cluster", "*"),
    ("User:lea", "DESCRIBE", "*", "*"),
    ("User:moe", "ALL", "shop.orders", "*"),
    ("User:ned", "CREATE", "shop", "*"),
    ("Group:readers", "READ", "cluster", "*"),
]
WHO = {
    "ada": (), "bob": (), "cat": (), "dan": (), "eve": (), "fay": (), "gus": ("ops",), "hal": (),
    "ian": (), "kim": (), "lea": (), "moe": (), "ned": (), "oli": ("ops", "readers"),
}  # fmt: skip


def resource_text(place: str) -> str:
    return {"*": "database:*", "*.*": "table:*"}.get(place, place)


async def is_allowed(server, api: ApiKey, user: str, groups: tuple[str, ...], table: str) -> bool:
    table_id = await make_table(server, table)
    if api in (ApiKey.GET_PRODUCER_OFFSETS, ApiKey.DELETE_PRODUCER_OFFSETS):
        producers = server._services.catalog.producers
        producers.delete(PRODUCER, owner=user)
        producers.register(PRODUCER, {TableBucket(table_id, 0): 1}, owner=user, ttl_ms=None)
    request = requests_about(*table.split("."), table_id)[api]
    try:
        answer = await ask(server, request, session_of(user, *groups))
    except AccessError as fault:
        return fault.code != AccessError.code
    except HeadwaterError:
        return True
    return not (is_refused(answer) or is_hidden(answer, *table.split(".")))


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
async def test_a_call_is_allowed_to_exactly_those_whom_the_oracle_allows(tmp_path, api):
    wrong = []
    async with guarded(tmp_path / "data") as server:
        entries = [acl(who, op, resource_text(on), host) for who, op, on, host in ENTRIES]
        await grant(server, *entries)
        for user, groups in WHO.items():
            principals = [f"User:{user}", *(f"Group:{group}" for group in groups)]
            for table in TABLES:
                expected = may_call(ENTRIES, principals, HERE, api.key.name, table)
                if await is_allowed(server, api.key, user, groups, table) != expected:
                    wrong.append((user, table, f"expected {expected}"))

    assert wrong == []


@pytest.mark.parametrize("who", [("root",), ("anna", "operators")])
async def test_super_users_may_make_every_call(tmp_path, who):
    async with guarded(tmp_path / "data") as server:
        await grant(server, acl("User:keeper", "READ", "shop.orders"))
        refused = [
            api.name
            for api in NEEDS
            if not await is_allowed(server, api, who[0], who[1:], "shop.orders")
        ]

    assert refused == []


async def test_a_client_that_has_not_logged_in_may_make_no_call_but_the_first_two(tmp_path):
    async with guarded(tmp_path / "data") as server:
        table_id = await make_table(server, "shop.orders")
        requests = requests_about("shop", "orders", table_id)
        served = []
        for api, request in requests.items():
            try:
                await ask(server, request, session_of(None))
                served.append(api)
            except AccessError:
                pass

    assert served == [ApiKey.API_VERSIONS]


def test_every_call_stands_in_the_table_of_needs_in_the_oracle_and_among_the_requests():
    calls = {api.key.name for api in APIS.values()}

    assert {api.name for api in NEEDS} == calls
    assert set(CALLS) == calls
    assert {api.name for api in requests_about("a", "b", 1)} == calls
    assert {api.name for api in ApiKey} == calls


def test_the_table_of_needs_says_what_the_oracle_says():
    told = {
        api.name: None if need.operation is None else need.operation.name
        for api, need in NEEDS.items()
    }

    assert told == {name: None if need is None else need[0] for name, need in CALLS.items()}
