"""The permissions of the catalog; reads come from memory, changes go to disk first."""

from collections.abc import Sequence
from itertools import chain

from headwater.errors import RequestError
from headwater.model.acl import Acl, AclQuery, Permissions, checked
from headwater.server.catalog.store import CatalogStore

ENTRIES_MAX = 100_000
"""Entries of a storage: all are in memory, and indexed again when one changes."""


class AclRecords:
    """All permissions, and a version that grows with every change of them."""

    def __init__(self, store: CatalogStore) -> None:
        self._store = store
        self.permissions = Permissions(store.acls())
        # Whoever remembers a decision remembers the version that it was made under.
        self.version = 0

    def add(self, acls: Sequence[Acl]) -> None:
        """Add entries, all or none; those that exist already stay as they are.

        A rule replaces what its principal could read of the table before. To take a rule away,
        revoke the entry, so that nobody does it by the way.
        """
        given = {acl: acl for acl in map(checked, acls)}
        known = {acl: acl for acl in self.permissions.entries}
        for acl in given.values():
            if acl.rule is None and (found := known.get(acl)) is not None and found.rule:
                raise RequestError(
                    f"{acl.principal} has a rule for {acl.resource}, which this would take away.",
                    hint="Revoke READ first, then grant it.",
                )
        changed = {
            acl
            for acl in given.values()
            if acl.rule and acl in known and known[acl].rule != acl.rule
        }
        wanted, held = set(given.values()), self.permissions.entries - changed
        if len(held | wanted) > ENTRIES_MAX:
            raise RequestError(
                f"A storage has at most {ENTRIES_MAX} permissions.",
                hint="Grant to groups, databases or the cluster, or revoke what nobody needs.",
            )
        if new := sorted(wanted - held):
            with self._store.transaction():
                for acl in sorted(changed):
                    self._store.delete_acl(acl)
                for acl in new:
                    self._store.insert_acl(acl)
            self._replace(Permissions(held | wanted))

    def remove(self, queries: Sequence[AclQuery]) -> list[list[Acl]]:
        """Remove the entries that queries mean, all or none; return those of each query.

        An entry that several queries mean is listed with the first of them.
        """
        left = set(self.permissions.entries)
        removed: list[list[Acl]] = []
        for query in queries:
            meant = sorted(acl for acl in left if query.matches(acl))
            left.difference_update(meant)
            removed.append(meant)
        if any(removed):
            with self._store.transaction():
                for acl in chain(*removed):
                    self._store.delete_acl(acl)
            self._replace(Permissions(left))
        return removed

    def _replace(self, permissions: Permissions) -> None:
        self.permissions = permissions
        self.version += 1
