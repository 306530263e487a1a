"""Telling the server what the lake holds."""

from headwater.client.client import AsyncClient
from headwater.client.lake.values import Assignment
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import Boundary, LakeBucket


async def prepare_offsets(
    client: AsyncClient, assignment: Assignment, boundary: Boundary, *, replaces: bool = False
) -> str:
    """Have the ends of a boundary written down, and return where."""
    return await client.lake.prepare(
        assignment.path,
        assignment.table_id,
        ends_of(boundary),
        written_by=boundary.written_by,
        ignore_previous=replaces,
    )


def ends_of(boundary: Boundary) -> dict[LakeBucket, int]:
    """Return the first offset of each bucket that the lake does not hold."""
    return {bucket: offsets.end for bucket, offsets in boundary.ranges.items()}


async def report_snapshot(
    client: AsyncClient, assignment: Assignment, snapshot: LakeSnapshot
) -> None:
    """Tell of a snapshot that the server does not know: its id and how far it reaches."""
    assert snapshot.boundary is not None, "what nobody tiered is not reported"
    path = await prepare_offsets(client, assignment, snapshot.boundary)
    await client.lake.commit(
        assignment.table_id, snapshot.snapshot_id, path, ends=ends_of(snapshot.boundary)
    )
