"""Tables that the client keeps for itself in the storage, made where nobody has used them yet."""

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.config.client import ACKS_ALL
from headwater.errors import (
    DatabaseMissingError,
    LeaderMissingError,
    RequestError,
    ServerFaultError,
    TableMissingError,
    TimedOutError,
)
from headwater.model.descriptor import TableDescriptor
from headwater.model.path import TablePath
from headwater.model.table import TableInfo

# How long others may take to create a table.
MADE_WITHIN_S = 10.0


async def find_table(cluster: Cluster, path: TablePath) -> TableInfo | None:
    """Return a table if it is there."""
    try:
        return await cluster.table(path)
    except (TableMissingError, DatabaseMissingError):
        return None


async def ensure_table(
    cluster: Cluster, path: TablePath, descriptor: TableDescriptor, *, whose: str
) -> TableInfo:
    """Return a table that is made if need be; whose it is stands in refusals."""
    if cluster.settings.acks != ACKS_ALL:
        raise RequestError(
            f"{whose} need to know that what they write is durable.",
            hint=f"Use `acks={ACKS_ALL}` in the settings of the client.",
        )
    try:
        return await find_table(cluster, path) or await _make(cluster, path, descriptor)
    except ServerFaultError as fault:
        # Apache Fluss fails where several create a table at once, and one of them succeeds.
        return await _made_by_others(cluster, path, fault)


async def _make(cluster: Cluster, path: TablePath, descriptor: TableDescriptor) -> TableInfo:
    admin = Admin(cluster)
    await admin.create_database(path.database, exists_ok=True, comment=None, properties={})
    return await admin.create_table(path, descriptor, exists_ok=True)


async def _made_by_others(cluster: Cluster, path: TablePath, fault: ServerFaultError) -> TableInfo:
    async def look() -> TableInfo:
        try:
            found = await find_table(cluster, path)
        except ServerFaultError:  # It is there by half.
            found = None
        if found is None:
            raise LeaderMissingError(f"There is no table {path} yet.")
        return found

    try:
        return await cluster.retries.run(look, what="Waiting", timeout_s=MADE_WITHIN_S)
    except TimedOutError:
        raise fault from None
