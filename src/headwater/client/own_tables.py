"""Tables that the client keeps for itself in the storage, made where nobody has used them yet."""

from dataclasses import replace

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.config.choices import LakeFormat
from headwater.config.client import ACKS_ALL
from headwater.config.options import DATALAKE_FORMAT
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
# A cluster gives tables the format of its lake, also those that never go there. Its keys are then
# those of the format, and Iceberg's have one column only; Lance's are those of Fluss itself.
OWN_KEYS = {DATALAKE_FORMAT.name: str(LakeFormat.LANCE)}


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
    described = replace(descriptor, properties={**descriptor.properties, **OWN_KEYS})
    return await admin.create_table(path, described, exists_ok=True)


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
