"""Lake tables that another kind of tierer fills, which says elsewhere what they hold."""

from headwater.errors import LakeTableDiffersError
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.model.path import TablePath

OFFSETS_PROPERTY = "fluss-offsets"
"""Under this name tierers of Apache Fluss, and ours, note which offsets a snapshot holds."""


def check_ours(reported: LakeSnapshot | None, *, path: TablePath) -> None:
    """Refuse to tier above the snapshot of another tierer: its rows would come a second time."""
    if reported is None or BOUNDARY_PROPERTY in reported.properties:
        return
    if OFFSETS_PROPERTY in reported.properties:
        raise LakeTableDiffersError(
            f"The lake table {path} is filled by the tiering service of Apache Fluss.",
            hint="Leave the table to that one; or stop it, and have the lake table made anew:"
            f" headwater lake drop {path}",
        )
