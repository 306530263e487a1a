"""Permissions over the wire: grant, list, revoke."""

from headwater.errors import HeadwaterError, RequestError
from headwater.model.acl import (
    ALLOW,
    ANY_PERMISSION,
    Acl,
    AclQuery,
    Operation,
    Principal,
    Resource,
    ResourceKind,
    Rule,
    checked,
)
from headwater.model.path import TablePath
from headwater.server.context import Context
from headwater.server.permissions.authorizer import permissions_are_off
from headwater.server.permissions.rules import check_rule, rule_text
from headwater.wire import fluss_pb2 as pb


async def create_acls(request: pb.CreateAclsRequest, context: Context) -> pb.CreateAclsResponse:
    """Add permissions, all or none.

    1. read all of them, so that one that makes no sense changes nothing
    2. check that the caller has ALL where each of them is governed
    3. store them, then let waiting readers look again
    """
    _require_authorizer(context)
    try:
        acls = [checked(_acl(each)) for each in request.acl]
        for acl in acls:
            if acl.rule is not None:
                check_rule(acl.rule, context.catalog.tables.info(table_of(acl.resource)))
    except HeadwaterError as fault:
        refused = [_refused(each, fault) for each in request.acl]
        return pb.CreateAclsResponse(aclRes=refused)
    for resource in dict.fromkeys(acl.resource for acl in acls):
        context.require(Operation.ALL, resource.governed_by)
    context.catalog.acls.add(acls)
    _wake_readers(context)
    # As they were sent: clients recognise them by that.
    return pb.CreateAclsResponse(aclRes=[pb.CreatedAcl(acl=each) for each in request.acl])


async def list_acls(request: pb.ListAclsRequest, context: Context) -> pb.ListAclsResponse:
    """List the permissions on resources that the caller may see."""
    _require_authorizer(context)
    found = context.catalog.acls.permissions.matching(_query(request.acl_filter))
    return pb.ListAclsResponse(
        acl=[
            told(acl, context, takes_rules=request.takes_rules)
            for acl in found
            if context.may(Operation.DESCRIBE, acl.resource)
        ]
    )


async def drop_acls(request: pb.DropAclsRequest, context: Context) -> pb.DropAclsResponse:
    """Remove permissions, all or none.

    As in Apache Fluss the caller needs ALL on every resource that a filter names, whether or not
    one of its entries is removed; a filter that names all resources needs it on all that have some.
    """
    _require_authorizer(context)
    queries = [_query(each) for each in request.acl_filter]
    held = {acl.resource for acl in context.catalog.acls.permissions.entries}
    for resource in sorted(held):
        if any(query.matches_resource(resource) for query in queries):
            context.require(Operation.ALL, resource.governed_by)
    removed = context.catalog.acls.remove(queries)
    _wake_readers(context)
    return pb.DropAclsResponse(
        filter_results=[
            pb.DroppedAcls(
                matching_acls=[
                    pb.DroppedAcl(acl=told(acl, context, takes_rules=request.takes_rules))
                    for acl in acls
                ]
            )
            for acls in removed
        ]
    )


def _require_authorizer(context: Context) -> None:
    """Refuse what would have no effect; the process of the storage may prepare permissions."""
    if context.services.authorizer is None and not context.session.is_internal:
        raise permissions_are_off()


def _wake_readers(context: Context) -> None:
    """Let long polls look again whether their clients may still read."""
    for wake in tuple(context.services.polls):
        wake()


# Messages.


def told(acl: Acl, context: Context, *, takes_rules: bool) -> pb.AclInfo:
    """Return an entry as a message.

    A client that knows nothing of rules is shown one in the name of the table, so that nobody takes
    a part of it for all.
    """
    message = _told(acl)
    if acl.rule is None:
        return message
    tables, path = context.catalog.tables, table_of(acl.resource)
    text = rule_text(acl.rule, tables.info(path) if tables.exists(path) else None)
    if not takes_rules:
        message.resource_name += f" {text}"
        return message
    message.rule_table_id = acl.rule.table_id
    message.rule_columns.extend(acl.rule.columns)
    if acl.rule.predicate:
        message.rule_filter.ParseFromString(acl.rule.predicate)
    message.rule_text = text
    return message


def table_of(resource: Resource) -> TablePath:
    """Return the table of an entry that has a rule."""
    database, _, table = resource.name.partition(".")
    return TablePath(database, table)


def _told(acl: Acl) -> pb.AclInfo:
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
    if message.permission_type != ALLOW:
        raise RequestError("Permissions can only allow, not deny.", hint="Use ALLOW.")
    return Acl(
        Resource(_kind(message.resource_type), message.resource_name),
        Principal(message.principal_type, message.principal_name),
        _operation(message.operation_type),
        message.host,
        _rule(message),
    )


def _rule(message: pb.AclInfo) -> Rule | None:
    if not message.HasField("rule_table_id"):
        if message.rule_columns or message.HasField("rule_filter"):
            raise RequestError("A rule does not say which table it is for.")
        return None
    predicate = b""
    if message.HasField("rule_filter"):
        predicate = message.rule_filter.SerializeToString(deterministic=True)
    return Rule(message.rule_table_id, tuple(dict.fromkeys(message.rule_columns)), predicate)


def _query(message: pb.AclFilter) -> AclQuery:
    if message.permission_type not in (ALLOW, ANY_PERMISSION):
        raise RequestError("Permissions can only allow.", hint="Use ALLOW, or ANY.")
    return AclQuery(
        resource_kind=_kind(message.resource_type),
        resource_name=message.resource_name if message.HasField("resource_name") else None,
        principal_kind=message.principal_type if message.HasField("principal_type") else None,
        principal_name=message.principal_name if message.HasField("principal_name") else None,
        host=message.host if message.HasField("host") else None,
        operation=_operation(message.operation_type),
    )


def _kind(number: int) -> ResourceKind:
    try:
        return ResourceKind(number)
    except ValueError:
        raise RequestError(f"There is no resource type {number}.") from None


def _operation(number: int) -> Operation:
    try:
        return Operation(number)
    except ValueError:
        raise RequestError(f"There is no operation type {number}.") from None


def _refused(message: pb.AclInfo, fault: HeadwaterError) -> pb.CreatedAcl:
    return pb.CreatedAcl(acl=message, error_code=fault.code, error_message=str(fault))
