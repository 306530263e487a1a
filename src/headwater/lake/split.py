"""A part of a lake snapshot that one task reads; a plain value, written by `split_json`."""

from dataclasses import dataclass, field

from headwater.model.predicate import Literal

UNKNOWN_BUCKET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """Say between which values a column of a file lies; None: not known, or all are null.

    They hold for all rows of the file, deleted ones included. Text and bytes may be shortened: a
    bound need not be a value of the column. Floats have bounds only where it is known that none
    of them is NaN, and zeros in bounds are so signed that both zeros lie between them. Times of
    the day are in milliseconds: finer ones lie between bounds that are rounded away from them.
    Columns of nested types have no bounds.
    """

    column_id: int
    lower: Literal
    """Not above the lowest value, in the form in which filters write literals."""
    upper: Literal
    """Not below the highest value."""
    null_count: int | None = None
    """How many rows are null; None: not known. All rows of a column that the file lacks are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """Name a data file, for engines that read files themselves."""

    path: str
    """A path on this machine, or a location with its scheme (`file://`, `s3://`); not quoted."""
    row_count: int
    byte_count: int
    is_plain: bool
    """Whether its rows are those of the table as they are: no deletes, no older schema."""
    format: str = "parquet"
    names: tuple[tuple[int, str], ...] | None = None
    """What the columns are called in the file, by their ids: any other is null there. None where
    only the format's own reader can tell, or can make of them what the table holds."""
    stands_alone: bool = False
    """Whether no other file than those of `deletes` tells which of its rows are current."""
    deletes: tuple[str, ...] = ()
    """Parquet files of positions that are deleted: columns `file_path` and `pos`. They may name
    positions of other files too."""
    bounds: tuple[ColumnBounds, ...] = ()
    """What is known of its columns; those that are not here may hold anything. A file that does
    not stand alone may be left out only by bounds of the primary key: without its newer rows,
    older ones would come back."""
    payload: bytes = field(default=b"", repr=False)
    """What the format's own reader needs to know of this file."""

    @property
    def is_native(self) -> bool:
        """Tell whether an engine can read the file by itself, by `names` and `deletes`."""
        return self.stands_alone and self.names is not None and self.format == "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSplit:
    """Name the files of a snapshot that one task reads, all of one partition and bucket."""

    format: str
    snapshot_id: int
    bucket: int
    """The bucket, or `UNKNOWN_BUCKET` where the format does not keep rows by bucket."""
    partition: tuple[tuple[str, str], ...]
    """Every partition key with its value, as text in the form of partition names."""
    files: tuple[LakeFile, ...]
    payload: bytes = field(repr=False)
    """What the format's own reader needs beside; nothing in it depends on which files there are,
    so that files that stand alone can be left out of a split."""

    @property
    def row_count(self) -> int:
        """Return the rows of the files, deleted ones included."""
        return sum(file.row_count for file in self.files)
