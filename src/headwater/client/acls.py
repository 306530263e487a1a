"""Manage permissions: grant, revoke, list, and test what somebody may do."""

from collections.abc import Sequence

from headwater.cluster.cluster import Cluster
from headwater.errors import RequestError, error_of_code
from headwater.model.acl import (
    ALLOW,
    ANY_PERMISSION,
    USER,
    Acl,
    AclQuery,
    Asker,
    Operation,
    Permissions,
    Principal,
    Resource,
    ResourceKind,
    parse_operation,
    parse_principal,
    parse_resource,
    query_for,
)
from headwater.wire import fluss_pb2 as pb


class AclAdmin:
    """Grants, revokes and lists permissions of a server that checks them, or of a directory."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def grant(
        self,
        principal: str,
        operations: str | Sequence[str],
        resource: str,
        *,
        host: str = "*",
    ) -> list[Acl]:
        """Allow a principal to do something, and return the entries.

        A principal is `User:name`, `Group:name`, or `*` for everybody; a resource is `cluster`, the
        name of a database, or `database.table`. Granting twice is the same as once.
        """
        who, what = parse_principal(principal), parse_resource(resource)
        names = [operations] if isinstance(operations, str) else operations
        acls = [Acl(what, who, parse_operation(name), host) for name in names]
        request = pb.CreateAclsRequest(acl=map(_message, acls))
        answer = await self._cluster.ask(request, pb.CreateAclsResponse, coordinator=True)
        for each in answer.aclRes:
            if each.error_code:
                raise error_of_code(each.error_code, each.error_message)
        return acls

    async def revoke(
        self,
        principal: str | None = None,
        operations: str | Sequence[str] = (),
        resource: str | None = None,
        *,
        host: str | None = None,
    ) -> list[Acl]:
        """Take back what was granted, and return the entries that are gone.

        What is left out matches everything. An operation is revoked as it was granted: revoking
        READ leaves an entry for ALL as it is. Sessions notice at once.
        """
        queries = _queries(principal, operations, resource, host)
        if queries == [AclQuery()]:
            raise RequestError(
                "This would revoke every permission of everybody.",
                hint="Name a principal, an operation, a resource or a host.",
            )
        request = pb.DropAclsRequest(acl_filter=map(_filter, queries))
        answer = await self._cluster.ask(request, pb.DropAclsResponse, coordinator=True)
        removed: list[Acl] = []
        for result in answer.filter_results:
            if result.error_code:
                raise error_of_code(result.error_code, result.error_message)
            for each in result.matching_acls:
                if each.error_code:
                    raise error_of_code(each.error_code, each.error_message)
                removed.append(_acl(each.acl))
        return removed

    async def list(
        self,
        principal: str | None = None,
        operations: str | Sequence[str] = (),
        resource: str | None = None,
        *,
        host: str | None = None,
    ) -> list[Acl]:
        """List the entries with these traits, of the resources that you may see."""
        found: set[Acl] = set()
        for query in _queries(principal, operations, resource, host):
            request = pb.ListAclsRequest(acl_filter=_filter(query))
            answer = await self._cluster.ask(request, pb.ListAclsResponse)
            found.update(map(_acl, answer.acl))
        return sorted(found)

    async def test(
        self,
        principal: str,
        operation: str,
        resource: str,
        *,
        groups: Sequence[str] = (),
        host: str = "",
    ) -> Acl | None:
        """Return the entry by which a user may do something, or None if there is none.

        Decided by the entries that you may see, as the server decides. Super users are a setting of
        the server, so they may do more than this says.
        """
        who = parse_principal(principal)
        if who.kind != USER:
            raise RequestError(
                f"{who} never connects: users do.", hint="Name a user, and groups beside it."
            )
        what, wanted = parse_resource(resource), parse_operation(operation)
        permissions = Permissions(await self.list())
        return permissions.allowing(Asker(who.name, tuple(groups), host), wanted, what)


def _queries(
    principal: str | None, operations: str | Sequence[str], resource: str | None, host: str | None
) -> list[AclQuery]:
    names = [operations] if isinstance(operations, str) else operations
    who = None if principal is None else parse_principal(principal)
    what = None if resource is None else parse_resource(resource)
    meant = [parse_operation(name) for name in names] or [Operation.ANY]
    return [query_for(what, who, each, host=host) for each in meant]


# Messages.


def _message(acl: Acl) -> pb.AclInfo:
    return pb.AclInfo(
        resource_name=acl.resource.name,
        resource_type=acl.resource.kind,
        principal_name=acl.principal.name,
        principal_type=acl.principal.kind,
        host=acl.host,
        operation_type=acl.operation,
        permission_type=ALLOW,
    )


def _acl(message: pb.AclInfo) -> Acl:
    return Acl(
        Resource(ResourceKind(message.resource_type), message.resource_name),
        Principal(message.principal_type, message.principal_name),
        Operation(message.operation_type),
        message.host,
    )


def _filter(query: AclQuery) -> pb.AclFilter:
    return pb.AclFilter(
        resource_name=query.resource_name,
        resource_type=query.resource_kind,
        principal_name=query.principal_name,
        principal_type=query.principal_kind,
        host=query.host,
        operation_type=query.operation,
        permission_type=ANY_PERMISSION,
    )
