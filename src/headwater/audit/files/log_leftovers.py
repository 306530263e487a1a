"""Files in the directory of a bucket that are no part of its log, and what they hold."""

import re
from collections.abc import Iterable, Sequence

from headwater.audit.files.bucket_notes import BucketNotes
from headwater.audit.finding import Check
from headwater.errors import CorruptBatchError
from headwater.log.names import CHECKPOINT, SegmentName, index_name
from headwater.rows.log_batch import HEADER_BYTES, read_header
from headwater.store.disk import TEMPORARY_SUFFIX, Disk

STATE_DIRECTORY = "kv"
_TORN = re.compile(r"\d{20}\.log\.torn-\d+")
_DAMAGED = re.compile(r"\d{20}\.log\.damaged")
_INDEX = re.compile(r"\d{20}\.index")
_SEGMENT = re.compile(r"\d{20}\.log")
_ASIDE = re.compile(r".*\.(cut|aside)-\d+")


def note_leftovers(
    disk: Disk,
    directory: str,
    names: Iterable[str],
    *,
    counted: Sequence[SegmentName],
    notes: BucketNotes,
) -> None:
    """Note every file that a log does without."""
    used = {CHECKPOINT, STATE_DIRECTORY}
    used |= {str(name) for name in counted} | {index_name(name.base_offset) for name in counted}
    for name in names:
        if name in used or _SEGMENT.fullmatch(name) or _ASIDE.fullmatch(name):
            continue
        message, remedy = _described(disk, f"{directory}/{name}", name)
        notes.warning(Check.FILES, f"{directory}/{name} {message}", remedy=remedy)


def _described(disk: Disk, path: str, name: str) -> tuple[str, str]:
    if _TORN.fullmatch(name):
        return (
            f"holds what a start cut off the log: {_content(disk, path)}.",
            "Delete it once nobody misses a row that was written shortly before a crash.",
        )
    if _DAMAGED.fullmatch(name):
        return (
            "is a damaged segment that no longer counts: a copy is there, or the log has moved on.",
            "Delete it once you looked at it.",
        )
    if _INDEX.fullmatch(name):
        return "is an index without a segment.", "Delete it: retention was interrupted by a crash."
    if name.endswith(TEMPORARY_SUFFIX):
        return "was not finished.", "The next start removes it."
    return "is no file of a log.", "Move it away."


def _content(disk: Disk, path: str) -> str:
    """Say what a piece of a segment holds, as far as its first batch tells."""
    try:
        file = disk.open(path)
        header = read_header(file.read(0, HEADER_BYTES))
    except (CorruptBatchError, OSError):
        return "bytes that begin with no batch"
    return f"{file.size} bytes, from offset {header.base_offset} of a batch of {header.size} bytes"
