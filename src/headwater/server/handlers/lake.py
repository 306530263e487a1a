"""The lake behind a table, as far as clients of log tables ask for it."""

from headwater.errors import LakeMissingError
from headwater.server.context import Context
from headwater.server.handlers.paths import table_path
from headwater.wire import fluss_pb2 as pb


async def get_file_system_security_token(
    _: pb.GetFileSystemSecurityTokenRequest, __: Context
) -> pb.GetFileSystemSecurityTokenResponse:
    """Tell that files need no token here: clients read through the server."""
    return pb.GetFileSystemSecurityTokenResponse(schema="file", token=b"")


async def get_lake_snapshot(
    request: pb.GetLakeSnapshotRequest, context: Context
) -> pb.GetLakeSnapshotResponse:
    """Say that the table has no lake."""
    table = context.catalog.tables.info(table_path(request.table_path))
    raise LakeMissingError(f"No lake is configured for {table.path}.")
