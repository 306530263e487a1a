"""Manage permissions: grant, revoke, list, and test what somebody may do."""

from collections.abc import Sequence

from headwater.cluster.cluster import Cluster
from headwater.errors import RequestError, error_of_code
from headwater.model import TableInfo
from headwater.model.acl import (
    ALLOW,
    ANY_PERMISSION,
    ANYTHING,
    USER,
    Acl,
    AclQuery,
    Asker,
    Operation,
    Permissions,
    Principal,
    Resource,
    ResourceKind,
    Rule,
    parse_operation,
    parse_principal,
    parse_resource,
    query_for,
)
from headwater.model.path import TablePath
from headwater.read.filters import Filter, RowView, Where, filter_text
from headwater.wire import fluss_pb2 as pb
from headwater.wire.predicates import predicate_from_wire, predicate_to_wire


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
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> list[Acl]:
        """Allow a principal to do something, and return the entries.

        A principal is `User:name`, `Group:name`, or `*` for everybody; a resource is `cluster`, the
        name of a database, or `database.table`. Granting twice is the same as once.

        READ on a table may be narrowed to `columns` and to the rows that a filter, as scans take
        it, holds for. That narrows what the principal reads of the table by whatever entry, also
        one for a group or a database; what it could read by this entry before is replaced.
        """
        who, what = parse_principal(principal), parse_resource(resource)
        names = [operations] if isinstance(operations, str) else operations
        rule = None
        if columns is not None or where is not None:
            rule = await self._rule(what, columns, where)
        acls = [Acl(what, who, parse_operation(name), host, rule) for name in names]
        request = pb.CreateAclsRequest(acl=map(_message, acls))
        answer = await self._cluster.ask(request, pb.CreateAclsResponse, coordinator=True)
        for each in answer.aclRes:
            if each.error_code:
                raise error_of_code(each.error_code, each.error_message)
        return acls

    async def _rule(
        self, what: Resource, columns: Sequence[str] | None, where: Where | None
    ) -> Rule:
        if what.kind is not ResourceKind.TABLE or what.name == ANYTHING:
            raise RequestError(
                f"Columns and rows can be named for one table, not for {what}.",
                hint="Name the table: DATABASE.TABLE.",
            )
        database, _, name = what.name.partition(".")
        table = await self._cluster.table(TablePath(database, name))
        wanted = RowView.of(table, columns=columns, where=where)
        ids: tuple[int, ...] = ()
        if columns is not None:
            ids = tuple(table.schema.column(name).column_id for name in wanted.names)
        predicate = b"" if wanted.filter is None else _kept(wanted.filter, table)
        listed = "" if columns is None else f"({', '.join(wanted.names)})"
        told = "" if wanted.filter is None else f"where {filter_text(wanted.filter) or 'true'}"
        return Rule(table.table_id, ids, predicate, f"{listed} {told}".strip())

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
        request = pb.DropAclsRequest(acl_filter=map(_filter, queries), takes_rules=True)
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
            request = pb.ListAclsRequest(acl_filter=_filter(query), takes_rules=True)
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


def _kept(wanted: Filter, table: TableInfo) -> bytes:
    """Return a filter as servers keep it, unless something of it would get lost."""
    predicate = wanted.exact_predicate()
    try:
        message = predicate_to_wire(predicate, table.schema)
        read = predicate_from_wire(message, table.schema)
        is_same = Filter.of_predicate(read, table.schema) == wanted
        if is_same:
            return message.SerializeToString(deterministic=True)
    except (ValueError, OverflowError, KeyError):
        pass
    raise RequestError(
        f"The filter {filter_text(wanted)} cannot be kept as it is.",
        hint="Compare with values of at most milliseconds, and with none that is NaN.",
    )


def _message(acl: Acl) -> pb.AclInfo:
    message = _plain(acl)
    if acl.rule is not None:
        message.rule_table_id = acl.rule.table_id
        message.rule_columns.extend(acl.rule.columns)
        if acl.rule.predicate:
            message.rule_filter.ParseFromString(acl.rule.predicate)
    return message


def _plain(acl: Acl) -> pb.AclInfo:
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
        _rule(message),
    )


def _rule(message: pb.AclInfo) -> Rule | None:
    if not message.HasField("rule_table_id"):
        return None
    predicate = b""
    if message.HasField("rule_filter"):
        predicate = message.rule_filter.SerializeToString(deterministic=True)
    columns = tuple(message.rule_columns)
    return Rule(message.rule_table_id, columns, predicate, message.rule_text)


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
