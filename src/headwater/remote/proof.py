"""Prove a remote storage without restoring it: every byte that a restore would need is there.

Commits follow each other without a gap, each object that a file has a piece in exists, every
piece has its checksum, and the segments of each log follow each other up to its end.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from headwater.errors import CorruptFileError
from headwater.remote.history import whole_tree
from headwater.remote.objects import Objects
from headwater.remote.restore import RemoteReport, fetch, report_of
from headwater.remote.tree import Folder, ObjectPiece, Tree

THREADS = 8
FINDINGS_MAX = 100
_SEGMENT_ENDINGS = (".log", ".log.damaged")
_OFFSET_DIGITS = 20
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class RemoteProof:
    """What a remote storage holds, and what is wrong with it."""

    report: RemoteReport
    findings: tuple[str, ...]
    unneeded_bytes: int
    """Bytes of objects that no moment needs, as uploads that were interrupted leave them."""


def prove(
    objects: Objects,
    *,
    until_ms: int | None = None,
    progress: Progress = lambda _done, _total: None,
) -> RemoteProof:
    """Read everything that a restore would read, and report what would make it fail."""
    tree = whole_tree(objects, until_ms=until_ms)
    findings = list(_gaps(tree))
    pieces = _pieces(tree)
    total, done = sum(each.size for each in pieces), 0
    with ThreadPoolExecutor(THREADS, thread_name_prefix="headwater-proof") as threads:
        for piece, fault in threads.map(lambda each: (each, _fault(objects, each)), pieces):
            done += piece.size
            progress(done, total)
            if fault:
                findings.append(fault)
    report = report_of(objects, tree, fetched_bytes=total)
    shown = findings[:FINDINGS_MAX]
    if len(findings) > FINDINGS_MAX:
        shown.append(f"There are {len(findings) - FINDINGS_MAX} more findings.")
    return RemoteProof(report, tuple(shown), _unneeded(objects, tree))


def _pieces(tree: Tree) -> tuple[ObjectPiece, ...]:
    found = {
        piece: None
        for folder in tree.folders.values()
        for file in folder.files.values()
        for piece in file.pieces
    }
    return tuple(found)


def _fault(objects: Objects, piece: ObjectPiece) -> str:
    try:
        for _ in fetch(objects, piece):
            pass
    except CorruptFileError as fault:
        return fault.message
    return ""


def _gaps(tree: Tree) -> Iterator[str]:
    """Compare the names of each log's segments with its start and end."""
    for name, folder in tree.folders.items():
        if not folder.ends.end:
            continue
        bases = sorted(_bases(folder))
        if not bases and folder.ends.start < folder.ends.end:
            yield f"The log {name} has no segment, but rows up to offset {folder.ends.end}."
        elif bases and bases[0] > folder.ends.start:
            yield f"The log {name} begins at offset {folder.ends.start}, its files at {bases[0]}."
        yield from (
            f"The log {name} has two segments that begin at offset {first}."
            for first, second in pairwise(bases)
            if first == second
        )


def _bases(folder: Folder) -> Iterator[int]:
    for name in folder.files:
        if name.endswith(_SEGMENT_ENDINGS) and name[:_OFFSET_DIGITS].isdigit():
            yield int(name[:_OFFSET_DIGITS])


def _unneeded(objects: Objects, tree: Tree) -> int:
    needed = tree.objects() | tree.dead.keys()
    found = objects.listed("data/")
    # What is being uploaded now belongs to the next commit.
    return sum(size for key, size in found if key not in needed and _number(key) <= tree.number)


def _number(key: str) -> int:
    number = key.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdigit() else 0
