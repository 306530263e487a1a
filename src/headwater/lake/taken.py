"""Rows of ours that others took out of a lake table: how snapshots tell, and what is said of it."""

from collections.abc import Mapping

from headwater.errors import LakeRowsDeletedError
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.model.path import TablePath

LOOKED_PROPERTY = "headwater.rows-kept"
"""On a snapshot of ours: nobody took rows away up to there."""
LOOKED = {LOOKED_PROPERTY: "1"}
_FLUSS_PROPERTY = "fluss-offsets"


def is_tierers(properties: Mapping[str, str]) -> bool:
    """Tell whether a tierer, or its upkeep, committed a snapshot."""
    return BOUNDARY_PROPERTY in properties or _FLUSS_PROPERTY in properties


def is_looked_at(properties: Mapping[str, str]) -> bool:
    """Tell whether a snapshot says that nobody took rows away up to there."""
    return LOOKED_PROPERTY in properties and BOUNDARY_PROPERTY in properties


def check_kept(on: LakeSnapshot | None, path: TablePath) -> None:
    """Refuse to build on a snapshot in which rows of ours are missing."""
    if on is not None and on.taken:
        raise rows_deleted(path, on.taken)


def rows_deleted(path: TablePath, taken: str) -> LakeRowsDeletedError:
    """Say what is to be done."""
    return LakeRowsDeletedError(
        f"Others took rows out of the lake table {path} that tiering had brought: {taken}.",
        hint="Go back to the lake snapshot before that, with the engine that did it (rollback)."
        " Or, while the log holds the rows, have the lake table made anew: headwater lake drop"
        f" {path}, then headwater tier {path}. Rows that should go are to be deleted in the table.",
    )
