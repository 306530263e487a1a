"""Permissions: who may do what, from where, on which resource.

The words and numbers are those of Apache Fluss. An entry only ever allows; what no entry allows is
denied. Resources form a tree (cluster, database, table), and what is allowed on one is allowed on
everything below it. ALL allows every operation, and every operation allows to DESCRIBE.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from itertools import chain
from types import MappingProxyType

from headwater.errors import RequestError
from headwater.model.path import TablePath, name_fault

ANYTHING = "*"
"""The host of every client, and the name of every database or table."""
CLUSTER_NAME = "fluss-cluster"
USER, GROUP = "User", "Group"
ALLOW = 2
ANY_PERMISSION = 1


class Operation(IntEnum):
    """What may be done; ANY stands only in queries."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DROP = 6
    ALTER = 7
    DESCRIBE = 8


class ResourceKind(IntEnum):
    """What something may be done to; ANY stands only in queries."""

    ANY = 1
    CLUSTER = 2
    DATABASE = 3
    TABLE = 4


GRANTABLE = tuple(each for each in Operation if each is not Operation.ANY)
_GRANTED_BY: Mapping[Operation, frozenset[Operation]] = MappingProxyType(
    {
        **{each: frozenset({each, Operation.ALL}) for each in GRANTABLE},
        Operation.DESCRIBE: frozenset(GRANTABLE),
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """A user, a group, or everybody."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


EVERYBODY = Principal(ANYTHING, ANYTHING)


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """The cluster, a database, or a table; the name `*` is every database or every table."""

    kind: ResourceKind
    name: str

    @classmethod
    def database(cls, name: str) -> "Resource":
        """Return a database as a resource."""
        return cls(ResourceKind.DATABASE, name)

    @classmethod
    def table(cls, path: TablePath) -> "Resource":
        """Return a table as a resource."""
        return cls(ResourceKind.TABLE, f"{path.database}.{path.table}")

    @property
    def chain(self) -> tuple["Resource", ...]:
        """Where an entry may stand that applies to this resource, the closest first."""
        match self.kind:
            case ResourceKind.TABLE:
                every = Resource(ResourceKind.TABLE, ANYTHING)
                return self, every, Resource.database(self.name.partition(".")[0]), CLUSTER
            case ResourceKind.DATABASE:
                return self, Resource(ResourceKind.DATABASE, ANYTHING), CLUSTER
            case _:
                return (self,)

    @property
    def governed_by(self) -> "Resource":
        """The resource on which one needs ALL to change the entries of this one."""
        if self.kind is ResourceKind.TABLE:
            return Resource.database(self.name.partition(".")[0])
        return self

    def __str__(self) -> str:
        return "cluster" if self == CLUSTER else f"{self.kind.name.lower()}:{self.name}"


CLUSTER = Resource(ResourceKind.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True)
class Rule:
    """Which columns and which rows of a table an entry lets its principal read.

    Columns are named by their ids, which stay when a column is renamed. The ids are those of one
    table: another one of the same name has a rule that nobody meant.
    """

    table_id: int
    columns: tuple[int, ...] = ()
    """Empty for all columns."""
    predicate: bytes = b""
    """A filter as it is sent; empty for all rows."""
    text: str = field(default="", compare=False)
    """The rule as people write it, where somebody has told it."""


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One entry: a principal may do an operation on a resource from a host.

    An entry is the same whatever its rule is, so there is at most one rule for all of these.
    """

    resource: Resource
    principal: Principal
    operation: Operation
    host: str = ANYTHING
    rule: Rule | None = field(default=None, compare=False)

    def __str__(self) -> str:
        place = "" if self.host == ANYTHING else f" from {self.host}"
        rule = "" if self.rule is None else f" {self.rule.text}"
        return f"{self.principal} may {self.operation.name} on {self.resource}{rule}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclQuery:
    """Which entries are meant; what is not given matches everything."""

    resource_kind: ResourceKind = ResourceKind.ANY
    resource_name: str | None = None
    principal_kind: str | None = None
    principal_name: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY

    def matches_resource(self, resource: Resource) -> bool:
        """Tell whether entries of a resource may be meant."""
        if self.resource_kind is ResourceKind.ANY:
            return True
        is_named = self.resource_name in (None, resource.name)
        return self.resource_kind is resource.kind and is_named

    def matches(self, acl: Acl) -> bool:
        """Tell whether an entry is meant."""
        return (
            self.matches_resource(acl.resource)
            and self.principal_kind in (None, acl.principal.kind)
            and self.principal_name in (None, acl.principal.name)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
        )


def query_for(
    resource: Resource | None = None,
    principal: Principal | None = None,
    operation: Operation = Operation.ANY,
    *,
    host: str | None = None,
) -> AclQuery:
    """Return a query for entries with these traits."""
    return AclQuery(
        resource_kind=ResourceKind.ANY if resource is None else resource.kind,
        resource_name=None if resource is None else resource.name,
        principal_kind=None if principal is None else principal.kind,
        principal_name=None if principal is None else principal.name,
        host=host,
        operation=operation,
    )


# Deciding.


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, with their groups, and from which address."""

    user: str
    groups: tuple[str, ...] = ()
    host: str = ""

    @property
    def principals(self) -> tuple[Principal, ...]:
        """The principals whose entries apply, the closest first."""
        groups = (Principal(GROUP, name) for name in self.groups)
        return (Principal(USER, self.user), *groups, EVERYBODY)


class Permissions:
    """All entries at one moment, found by principal and resource."""

    __slots__ = ("_held", "entries", "has_rules")

    def __init__(self, entries: Iterable[Acl] = ()) -> None:
        self.entries = frozenset(entries)
        self.has_rules = any(acl.rule is not None for acl in self.entries)
        held: dict[Principal, dict[Resource, list[Acl]]] = {}
        for acl in sorted(self.entries):
            held.setdefault(acl.principal, {}).setdefault(acl.resource, []).append(acl)
        self._held = held

    def allowing(self, asker: Asker, operation: Operation, resource: Resource) -> Acl | None:
        """Return an entry that allows an operation, or None if it is denied."""
        places = resource.chain
        for principal in asker.principals:
            if (held := self._held.get(principal)) is None:
                continue
            acls = chain.from_iterable(held.get(place, ()) for place in places)
            if found := next((acl for acl in acls if _allows(acl, operation, asker)), None):
                return found
        return None

    def rules_for(self, asker: Asker, table: Resource) -> list[Acl]:
        """Return the entries whose rules narrow what somebody reads of a table: all of them hold.

        They narrow whatever other entries allow, so that no grant to a group undoes a rule.
        """
        if not self.has_rules:
            return []
        return [
            acl
            for principal in asker.principals
            for acl in self._held.get(principal, {}).get(table, ())
            if acl.rule is not None and acl.host in (ANYTHING, asker.host)
        ]

    def has_rule(self, asker: Asker) -> bool:
        """Tell whether any rule may be for somebody."""
        held = (self._held.get(principal, {}).values() for principal in asker.principals)
        return any(acl.rule for acl in chain.from_iterable(chain.from_iterable(held)))

    def allowing_anywhere(self, asker: Asker, operation: Operation) -> Acl | None:
        """Return an entry without a rule that allows an operation on any resource at all."""
        held = (self._held.get(principal, {}).values() for principal in asker.principals)
        acls = chain.from_iterable(chain.from_iterable(held))
        allowing = (acl for acl in acls if acl.rule is None and _allows(acl, operation, asker))
        return next(allowing, None)

    def allowing_within(self, asker: Asker, operation: Operation, database: str) -> Acl | None:
        """Return an entry that allows an operation on some table of a database, if none on all."""
        every, prefix = Resource(ResourceKind.TABLE, ANYTHING), f"{database}."
        found = (
            acl
            for principal in asker.principals
            for resource, acls in self._held.get(principal, {}).items()
            if resource.kind is ResourceKind.TABLE
            and (resource == every or resource.name.startswith(prefix))
            for acl in acls
        )
        return next((acl for acl in found if _allows(acl, operation, asker)), None)

    def matching(self, query: AclQuery) -> list[Acl]:
        """Return the entries that a query means, sorted."""
        return sorted(acl for acl in self.entries if query.matches(acl))


def _allows(acl: Acl, operation: Operation, asker: Asker) -> bool:
    return acl.operation in _GRANTED_BY[operation] and acl.host in (ANYTHING, asker.host)


# Texts.


def parse_principal(text: str) -> Principal:
    """Parse `User:name`, `Group:name`, or `*` for everybody."""
    if text in (ANYTHING, str(EVERYBODY)):
        return EVERYBODY
    kind, colon, name = text.partition(":")
    if not colon or not name:
        raise RequestError(
            f"{text[:80]!r} is not a principal.", hint="Write User:NAME, Group:NAME, or *."
        )
    return checked_principal(Principal(kind, name))


def parse_principals(text: str) -> frozenset[Principal]:
    """Parse principals that are separated by semicolons, as the setting `super.users` has them."""
    return frozenset(parse_principal(each.strip()) for each in text.split(";") if each.strip())


def parse_operation(text: str) -> Operation:
    """Parse an operation that can be granted."""
    found = next((each for each in GRANTABLE if each.name == text.upper()), None)
    if found is None:
        names = ", ".join(each.name for each in GRANTABLE)
        raise RequestError(f"{text[:80]!r} is not an operation.", hint=f"Use one of {names}.")
    return found


def parse_resource(text: str) -> Resource:
    """Parse `cluster`, `database:NAME` or `table:DATABASE.TABLE`; a prefix may be left out."""
    if text == "cluster":
        return CLUSTER
    kind, colon, name = text.partition(":")
    if colon and kind in ("database", "table"):
        return checked_resource(Resource(ResourceKind[kind.upper()], name))
    if text == ANYTHING or colon or not text:
        raise RequestError(
            f"{text[:80]!r} is not a resource.",
            hint="Write cluster, database:NAME, table:DATABASE.TABLE, database:* or table:*.",
        )
    is_table = "." in text
    return checked_resource(
        Resource(ResourceKind.TABLE if is_table else ResourceKind.DATABASE, text)
    )


# Checks: an entry that could never allow anything is refused.

NAME_LENGTH_MAX = 512


def checked(acl: Acl) -> Acl:
    """Check an entry that shall be stored; its host is returned in its usual form."""
    if acl.operation is Operation.ANY:
        raise RequestError("ANY cannot be granted.", hint="Grant ALL, or one operation each.")
    host = _checked_host(acl.host)
    principal, resource = checked_principal(acl.principal), checked_resource(acl.resource)
    if acl.rule is not None:
        _check_rule(acl)
    return Acl(resource, principal, acl.operation, host, acl.rule)


def _check_rule(acl: Acl) -> None:
    if acl.operation is not Operation.READ:
        raise RequestError(
            f"Columns and rows can be named for READ, not for {acl.operation.name}.",
            hint="Grant READ with columns or a filter, and other operations without.",
        )
    if acl.resource.kind is not ResourceKind.TABLE or acl.resource.name == ANYTHING:
        raise RequestError(
            f"Columns and rows can be named for one table, not for {acl.resource}.",
            hint="Name the table: DATABASE.TABLE.",
        )


def checked_principal(principal: Principal) -> Principal:
    """Refuse a principal that nobody can be."""
    if principal == EVERYBODY:
        return principal
    if principal.kind not in (USER, GROUP):
        raise RequestError(
            f"Nobody is a {principal.kind[:80]!r}.", hint="Use User:NAME, Group:NAME, or *:*."
        )
    if not principal.name or len(principal.name) > NAME_LENGTH_MAX:
        raise RequestError("The name of a principal is empty or too long.")
    if not principal.name.isprintable():
        raise RequestError(f"Nobody is called {principal.name[:80]!r}.", hint="Write the name.")
    if principal.name == ANYTHING:
        raise RequestError(
            f"{principal} is nobody in particular.", hint="Everybody is written *:*."
        )
    return principal


def checked_resource(resource: Resource) -> Resource:
    """Refuse a resource that cannot exist."""
    match resource.kind:
        case ResourceKind.ANY:
            raise RequestError("ANY is not a resource.", hint="Name a cluster, database or table.")
        case ResourceKind.CLUSTER if resource.name != CLUSTER_NAME:
            raise RequestError(
                f"The cluster is not called {resource.name[:80]!r}.",
                hint=f"Its name is {CLUSTER_NAME}.",
            )
        case ResourceKind.TABLE if resource.name != ANYTHING:
            database, _, table = resource.name.partition(".")
            is_named = not (name_fault(database) or name_fault(table))
        case ResourceKind.DATABASE if resource.name != ANYTHING:
            is_named = not name_fault(resource.name)
        case _:
            is_named = True
    if not is_named:
        raise RequestError(
            f"{resource.name[:80]!r} is not the name of a {resource.kind.name.lower()}.",
            hint="Databases are named as they are, tables as DATABASE.TABLE, or * for all of them.",
        )
    return resource


def _checked_host(host: str) -> str:
    if host == ANYTHING:
        return host
    found = host_of(host)
    if found is None:
        raise RequestError(
            f"{host[:80]!r} is not an address.",
            hint="Use an IP address, or * for every host: names of hosts are not looked up.",
        )
    return found


def host_of(address: str) -> str | None:
    """Return the usual form of an IP address; None for anything else."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)
