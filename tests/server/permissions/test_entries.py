"""Entries: how they are stored, who may change them, and which are refused."""

import re

import pytest

from headwater.errors import (
    AccessError,
    InvalidOptionError,
    RequestError,
    SecurityDisabledError,
)
from headwater.model.acl import Acl, Operation, Principal, Resource, ResourceKind
from headwater.wire import fluss_pb2 as pb
from tests.cases import cases
from tests.server.permissions.asking import (
    INSIDER,
    acl,
    ask,
    grant,
    guarded,
    message_of,
    revoke,
    session_of,
)
from tests.server.support import running

ENTRIES = [
    acl("User:ada", "READ", "shop.orders"),
    acl("Group:ops", "ALL", "cluster", "10.0.0.1"),
    acl("*", "DESCRIBE", "database:*"),
]
EVERYTHING = pb.ListAclsRequest(
    acl_filter=pb.AclFilter(resource_type=1, operation_type=1, permission_type=1)
)


async def listed(server, user="root") -> list[pb.AclInfo]:
    return list((await ask(server, EVERYTHING, session_of(user))).acl)


def by_text(messages) -> list[str]:
    return sorted(str(each) for each in messages)


async def test_entries_are_there_after_a_restart(tmp_path):
    async with guarded(tmp_path / "data") as server:
        await grant(server, *ENTRIES)
        await revoke(server, ENTRIES[0])

    async with guarded(tmp_path / "data") as server:
        found = await listed(server)

    assert by_text(found) == by_text(map(message_of, ENTRIES[1:]))


async def test_granting_twice_is_the_same_as_once(tmp_path):
    async with guarded(tmp_path / "data") as server:
        await grant(server, *ENTRIES, *ENTRIES)
        await grant(server, *ENTRIES)

        assert len(await listed(server)) == len(ENTRIES)


async def test_a_list_shows_the_entries_of_what_one_may_see(tmp_path):
    async with guarded(tmp_path / "data") as server:
        await grant(server, *ENTRIES)

        assert by_text(await listed(server, "ada")) == by_text(
            map(message_of, (ENTRIES[0], ENTRIES[2]))
        )
        assert by_text(await listed(server, "eve")) == by_text([message_of(ENTRIES[2])])


async def test_an_entry_that_one_may_not_grant_lets_none_of_its_request_through(tmp_path):
    wanted = [acl("User:bob", "READ", table) for table in ("shop.orders", "lab.notes")]
    async with guarded(tmp_path / "data") as server:
        await grant(server, acl("User:cat", "ALL", "shop"))
        request = pb.CreateAclsRequest(acl=[message_of(each) for each in wanted])

        with pytest.raises(AccessError, match="may not ALL on database:lab"):
            await ask(server, request, session_of("cat"))

        assert len(await listed(server)) == 1


async def test_a_filter_for_everything_needs_all_on_everything_that_has_entries(tmp_path):
    everything = pb.DropAclsRequest(acl_filter=[EVERYTHING.acl_filter])
    async with guarded(tmp_path / "data") as server:
        await grant(server, acl("User:cat", "ALL", "shop"), acl("User:bob", "READ", "lab.notes"))

        with pytest.raises(AccessError):
            await ask(server, everything, session_of("cat"))
        assert len(await listed(server)) == 2
        dropped = await ask(server, everything, session_of("root"))

    assert len(dropped.filter_results[0].matching_acls) == 2


async def test_an_answer_names_entries_as_they_were_sent(tmp_path):
    sent = message_of(acl("User:ada", "READ", "shop.orders", "::ffff:10.0.0.7"))
    async with guarded(tmp_path / "data") as server:
        answer = await ask(server, pb.CreateAclsRequest(acl=[sent]), session_of("root"))

        assert [each.acl for each in answer.aclRes] == [sent]
        assert [each.host for each in await listed(server)] == ["10.0.0.7"]


TABLE, USER = Resource(ResourceKind.TABLE, "shop.orders"), Principal("User", "ada")


@cases(
    ("entry", "advice"),
    [
        (Acl(TABLE, USER, Operation.ANY), "Grant ALL"),
        (Acl(TABLE, Principal("Role", "boss"), Operation.READ), "Use User:NAME, Group:NAME"),
        (Acl(TABLE, Principal("User", "*"), Operation.READ), r"Everybody is written \*:\*"),
        (Acl(TABLE, Principal("User", ""), Operation.READ), "empty or too long"),
        (Acl(TABLE, USER, Operation.READ, "example"), "Use an IP address"),
        (Acl(Resource(ResourceKind.ANY, "any"), USER, Operation.READ), "Name a cluster"),
        (Acl(Resource(ResourceKind.CLUSTER, "c"), USER, Operation.READ), "fluss-cluster"),
        (Acl(Resource(ResourceKind.TABLE, "orders"), USER, Operation.READ), r"DATABASE\.TABLE"),
        (Acl(Resource(ResourceKind.TABLE, "shop.*"), USER, Operation.READ), "not the name"),
        (Acl(Resource(ResourceKind.DATABASE, "a.b"), USER, Operation.READ), "not the name"),
        (Acl(Resource(ResourceKind.DATABASE, ""), USER, Operation.READ), "not the name"),
    ],
)
async def test_an_entry_that_could_allow_nothing_is_refused_with_advice(
    tmp_path_factory, entry, advice
):
    async with guarded(tmp_path_factory.mktemp("server")) as server:
        request = pb.CreateAclsRequest(acl=[message_of(ENTRIES[0]), message_of(entry)])

        answer = await ask(server, request, INSIDER)

        assert all(each.error_code == RequestError.code for each in answer.aclRes)
        assert re.search(advice, answer.aclRes[0].error_message)
        assert await listed(server) == []


async def test_a_server_that_checks_nothing_says_so_when_permissions_are_changed(tmp_path):
    request = pb.CreateAclsRequest(acl=[message_of(ENTRIES[0])])
    async with running(tmp_path / "data") as server:
        for asked in (request, EVERYTHING, pb.DropAclsRequest()):
            with pytest.raises(SecurityDisabledError, match="--authorizer"):
                await ask(server, asked, session_of(None))


async def test_the_process_of_the_storage_may_prepare_permissions(tmp_path):
    async with running(tmp_path / "data") as server:
        await grant(server, *ENTRIES)

    async with guarded(tmp_path / "data") as server:
        assert len(await listed(server)) == len(ENTRIES)


async def test_permissions_without_users_are_refused(tmp_path):
    with pytest.raises(RequestError, match="--users"):
        async with running(tmp_path / "data", authorizer_enabled=True):
            pass


async def test_super_users_without_permissions_are_refused(tmp_path):
    with pytest.raises(InvalidOptionError, match="--authorizer"):
        async with running(tmp_path / "data", super_users="User:root"):
            pass
