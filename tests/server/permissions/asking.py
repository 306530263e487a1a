"""A server that checks permissions, and sessions that ask it without a socket."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from google.protobuf.message import Message

from headwater.errors import error_of_code
from headwater.model.acl import Acl, parse_operation, parse_principal, parse_resource
from headwater.model.path import TablePath
from headwater.server.connection import Session
from headwater.server.logins import Users
from headwater.server.server import Server
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST
from headwater.wire.frames import RequestFrame, ResponseKind
from tests.flows.appending import table_json
from tests.server.support import running

HOST = "127.0.0.1"
USERS = Users({"root": "scrypt$" + "00" * 16 + "$" + "00" * 64})
SETTINGS = {"authorizer_enabled": True, "super_users": "User:root;Group:operators"}


@asynccontextmanager
async def guarded(directory: Path, **settings) -> AsyncIterator[Server]:
    """Serve a directory where `root` and the group `operators` may do everything."""
    async with running(directory, users=USERS, **{**SETTINGS, **settings}) as server:
        yield server


async def _writable() -> None:
    """Take every answer."""


def session_of(user: str | None, *groups: str, host: str = HOST) -> Session:
    return Session("test", HOST, 1, _writable, principal=user, groups=groups, address=host)


INSIDER = Session("test", HOST, 1, _writable, principal="insider", is_internal=True)


async def ask(server: Server, request: Message, session: Session) -> Message:
    """Return the answer to a request, or raise the error that came."""
    api = API_OF_REQUEST[type(request)]
    body = memoryview(request.SerializeToString())
    frame = RequestFrame(api.key, 0, 0, body)
    answer = server.dispatcher.serve_now(frame, session) or await server.serve(frame, session)
    kind, parts = answer
    joined = b"".join(bytes(part) for part in parts)
    if kind is ResponseKind.ANSWER:
        return api.response.FromString(joined)
    error = pb.ErrorResponse.FromString(joined)
    raise error_of_code(error.error_code, error.error_message)


async def make_table(server: Server, path: str, content: bytes | None = None) -> int:
    """Create a table if it is missing, and return its id."""
    found = TablePath(*path.split("."))
    place = pb.TablePath(database_name=found.database, table_name=found.table)
    database = pb.CreateDatabaseRequest(database_name=found.database, ignore_if_exists=True)
    await ask(server, database, INSIDER)
    table = pb.CreateTableRequest(
        table_path=place, table_json=content or table_json(), ignore_if_exists=True
    )
    await ask(server, table, INSIDER)
    return (await ask(server, pb.GetTableInfoRequest(table_path=place), INSIDER)).table_id


def acl(principal: str, operation: str, resource: str, host: str = "*") -> Acl:
    return Acl(
        parse_resource(resource), parse_principal(principal), parse_operation(operation), host
    )


async def grant(server: Server, *acls: Acl) -> None:
    request = pb.CreateAclsRequest(acl=[message_of(each) for each in acls])
    answer = await ask(server, request, INSIDER)
    assert [each.error_code for each in answer.aclRes] == [0] * len(acls)


async def revoke(server: Server, *acls: Acl) -> None:
    request = pb.DropAclsRequest(acl_filter=_filters(acls))
    answer = await ask(server, request, INSIDER)
    assert all(len(each.matching_acls) == 1 for each in answer.filter_results)


def message_of(each: Acl) -> pb.AclInfo:
    return pb.AclInfo(
        resource_name=each.resource.name,
        resource_type=each.resource.kind,
        principal_name=each.principal.name,
        principal_type=each.principal.kind,
        host=each.host,
        operation_type=each.operation,
        permission_type=2,
    )


def _filters(acls: Sequence[Acl]) -> list[pb.AclFilter]:
    return [pb.AclFilter.FromString(message_of(each).SerializeToString()) for each in acls]


class Asking:
    """Call a server as a connection would, in the name of one session."""

    def __init__(self, server: Server, session: Session) -> None:
        self._server = server
        self.session = session

    async def call(self, request: Message, response: type[Message]) -> Message:
        """Return the answer to a request."""
        del response  # The request says which it is.
        return await ask(self._server, request, self.session)
