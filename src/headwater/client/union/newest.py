"""The newest columns of a table, as the one knows them who changes them."""

from headwater.client.cluster import Cluster
from headwater.client.metadata import read_descriptor
from headwater.client.paths import wire_path
from headwater.errors import TableMissingError
from headwater.model.table import TableInfo
from headwater.wire import fluss_pb2 as pb


async def newest_table(cluster: Cluster, table: TableInfo) -> TableInfo:
    """Return a table under its newest schema; other servers may take a while to hear of it."""
    request = pb.GetTableInfoRequest(table_path=wire_path(table.path))
    answer = await cluster.ask(request, pb.GetTableInfoResponse, coordinator=True)
    if answer.table_id != table.table_id:
        raise TableMissingError(
            f"{table.path} was dropped, and there is another table of that name now.",
            hint="Get the table again.",
        )
    return TableInfo(
        path=table.path,
        table_id=answer.table_id,
        schema_id=answer.schema_id,
        descriptor=read_descriptor(answer.table_json),
        created_ms=answer.created_time,
        modified_ms=answer.modified_time,
    )
