"""Decide whether a session may do something, and remember it until permissions change."""

from collections.abc import Iterable

from headwater.config.server import ServerSettings
from headwater.errors import AccessError, SecurityDisabledError
from headwater.model.acl import (
    USER,
    Acl,
    AclQuery,
    Asker,
    Operation,
    Principal,
    Resource,
    ResourceKind,
    host_of,
    parse_principals,
)
from headwater.model.bucket import LogPosition
from headwater.runtime.events import Events
from headwater.server.catalog.acls import AclRecords
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.catalog.tables import Tables
from headwater.server.connection import Session
from headwater.server.permissions.needs import (
    AUDIT_LOG,
    GIVES,
    NEEDS,
    Gives,
    Request,
    Target,
    operation_of,
)
from headwater.server.permissions.rules import Restriction, Restrictions
from headwater.wire.apis import ApiKey
from headwater.wire.write import PutRequest

_events = Events("permissions")
# Nobody writes the audit trail, and only super users may change or drop it.
_KEPT = frozenset(
    {
        (Resource.table(AUDIT_LOG), Operation.WRITE),
        (Resource.table(AUDIT_LOG), Operation.ALTER),
        (Resource.table(AUDIT_LOG), Operation.DROP),
        (Resource.database(AUDIT_LOG.database), Operation.DROP),
    }
)
DECISIONS_MAX = 10_000
"""Decisions that one session remembers."""


class Authorizer:
    """Allow what an entry allows, and deny the rest; super users may do everything."""

    def __init__(
        self, acls: AclRecords, tables: Tables, *, super_users: frozenset[Principal]
    ) -> None:
        self._acls = acls
        self._tables = tables
        self._super_users = super_users
        self._restrictions = Restrictions()
        self._restricted_at = acls.version

    @property
    def version(self) -> int:
        """Grows with every change of permissions."""
        return self._acls.version

    def check(self, api: ApiKey, request: Request, session: Session) -> None:
        """Refuse a request whose targets are known before it is answered."""
        targets = NEEDS[api].targets
        if targets is None:
            return
        operation = operation_of(api, request)
        for target in targets(request):
            self.require(session, operation, target)
            self._require_given(GIVES[api], session, target)
        if isinstance(request, PutRequest):
            self._check_conditions(request.only_if, session)

    def _check_conditions(self, positions: Iterable[LogPosition], session: Session) -> None:
        for table_id in {position.bucket.table_id for position in positions}:
            self.require(session, Operation.DESCRIBE, table_id)

    def require(self, session: Session, operation: Operation, target: Target) -> None:
        """Refuse an operation that a session may not do."""
        if not self.may(session, operation, target):
            raise AccessError(
                f"{_named(session)} may not {operation.name} on {self._shown(target)}.",
                hint=f"Ask an operator to grant {operation.name} on it.",
            )

    def may(self, session: Session, operation: Operation, target: Target) -> bool:
        """Tell whether a session may do something; what it asked before is remembered."""
        if session.is_internal:
            return True
        if not isinstance(target, int):  # Names may be long, and are asked for rarely.
            return self._decide(session, operation, target)
        state = (self._acls.version, session.principal, session.groups)
        if session.decided_for != state:
            session.decisions.clear()
            session.decided_for = state
        name = (target, operation)
        if (known := session.decisions.get(name)) is not None:
            return known
        if len(session.decisions) >= DECISIONS_MAX:
            session.decisions.clear()
        decided = session.decisions[name] = self._decide(session, operation, target)
        return decided

    # Rules: which columns and rows somebody may read.

    @property
    def has_rules(self) -> bool:
        """Tell whether there are rules at all."""
        return self._acls.permissions.has_rules

    def restriction(self, session: Session, table_id: int) -> Restriction | None:
        """Return what a session may read of a table; None if that is all of it."""
        if not self._acls.permissions.has_rules:
            return None
        table = self._tables.by_id(table_id)
        entries = self._rules(session, Resource.table(table.path))
        if not entries:
            return None
        if self._restricted_at != self._acls.version:
            self._restrictions.forget()
            self._restricted_at = self._acls.version
        return self._restrictions.of(entries, table, who=Principal(USER, session.principal or ""))

    def may_read_whole(self, session: Session, table_id: int) -> bool:
        """Tell whether a session may read all rows and columns of a table."""
        return self.may(session, Operation.READ, table_id) and (
            not self._acls.permissions.has_rules or not self.is_restricted(session, table_id)
        )

    def is_restricted(self, session: Session, target: Target) -> bool:
        """Tell whether a session may not read all of a table."""
        return bool(self._rules(session, self._resource(target)))

    def has_rule(self, session: Session) -> bool:
        """Tell whether there is any table of which a session may read only a part."""
        asker = _asker(session)
        if session.is_internal or asker is None or self._is_super(asker):
            return False
        return self.has_rules and self._acls.permissions.has_rule(asker)

    def require_whole(self, session: Session, target: Target, *, what: str) -> None:
        """Refuse what would show more of a table than a session may read."""
        if self.is_restricted(session, target):
            raise AccessError(
                f"{_named(session)} may READ only some columns or rows of"
                f" {self._shown(target)}, so {what}.",
                hint="Read the rows through the server.",
            )

    def _require_given(self, gives: Gives, session: Session, target: Target) -> None:
        if gives is Gives.FILES:
            self.require_whole(session, target, what="its files are not told")
        elif gives is Gives.COUNTS and self._rows_are_hidden(session, target):
            self.require_whole(session, target, what="its rows are not counted: scan it instead")

    def _rows_are_hidden(self, session: Session, target: Target) -> bool:
        entries = self._rules(session, self._resource(target))
        return any(acl.rule is not None and acl.rule.predicate for acl in entries)

    def _rules(self, session: Session, resource: Resource) -> list[Acl]:
        if session.is_internal or not self._acls.permissions.has_rules:
            return []
        asker = _asker(session)
        if asker is None or self._is_super(asker):
            return []
        return self._acls.permissions.rules_for(asker, resource)

    def may_anywhere(self, session: Session, operation: Operation) -> bool:
        """Tell whether a session may do something to any resource at all."""
        if session.is_internal:
            return True
        asker = _asker(session)
        if asker is None:
            return False
        return self._is_super(asker) or (
            self._acls.permissions.allowing_anywhere(asker, operation) is not None
        )

    def may_see(self, session: Session, database: str) -> bool:
        """Tell whether a session may know of a database: of itself, or of one of its tables."""
        if self.may(session, Operation.DESCRIBE, Resource.database(database)):
            return True
        asker, permissions = _asker(session), self._acls.permissions
        return asker is not None and (
            permissions.allowing_within(asker, Operation.DESCRIBE, database) is not None
        )

    def _decide(self, session: Session, operation: Operation, target: Target) -> bool:
        asker = _asker(session)
        if asker is None:
            return False
        resource, is_super = self._resource(target), self._is_super(asker)
        if (resource, operation) in _KEPT:
            return is_super and operation is not Operation.WRITE
        if is_super:
            return True
        return self._acls.permissions.allowing(asker, operation, resource) is not None

    def _is_super(self, asker: Asker) -> bool:
        return not self._super_users.isdisjoint(asker.principals)

    def _resource(self, target: Target) -> Resource:
        if isinstance(target, Resource):
            return target
        return Resource.table(self._tables.by_id(target).path)

    def _shown(self, target: Target) -> str:
        """Name a target to a client; a table that it only knows by id stays an id."""
        return f"table {target}" if isinstance(target, int) else str(target)


def _asker(session: Session) -> Asker | None:
    """Return who asks; nobody before a login."""
    if session.principal is None:
        return None
    host = host_of(session.address) or session.address
    return Asker(session.principal, session.groups, host)


def _named(session: Session) -> str:
    return "A client" if session.principal is None else f"User:{session.principal}"


def authorizer_of(settings: ServerSettings, catalog: ServerCatalog) -> Authorizer | None:
    """Return what checks permissions, or None if nobody does."""
    if not settings.authorizer_enabled:
        return None
    super_users = parse_principals(settings.super_users)
    whole = AclQuery(resource_kind=ResourceKind.CLUSTER, operation=Operation.ALL)
    if not super_users and not catalog.acls.permissions.matching(whole):
        _events.warning(
            "nobody may change permissions",
            hint="Name somebody in --super-users, or stop the server and run: headwater acl grant "
            "DIRECTORY PRINCIPAL ALL cluster",
        )
    return Authorizer(catalog.acls, catalog.tables, super_users=super_users)


def permissions_are_off() -> SecurityDisabledError:
    """Return what a client is told that changes permissions where nobody asks for them."""
    return SecurityDisabledError(
        "This server does not check permissions.",
        hint="Start it with --authorizer and --super-users, and with users.",
    )
