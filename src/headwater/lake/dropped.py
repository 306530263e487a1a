"""Columns that were dropped since, where a reader still knows them."""

from headwater.errors import PositionMissingError
from headwater.model.path import TablePath


def values_gone(path: TablePath, column: str, file: str) -> PositionMissingError:
    """Say that a file was written when a column was dropped already, so that it lacks its values.

    Nulls would be wrong: its rows may have had values when they were written to the log.
    """
    return PositionMissingError(
        f"The column '{column}' of {path} was dropped, and the lake does not hold all of its"
        f" values any more: the file {file} was written afterwards.",
        hint="Read other columns only, or read the table under its newest schema.",
    )
