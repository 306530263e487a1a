"""Read the state of a remote storage: the newest, or that of a moment.

Commits have consecutive numbers, so the newest is found by asking for the next until there is
none. That needs no listing, and the first question is answered by a base that is not far behind.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

from headwater.errors import CorruptFileError, MissingError
from headwater.remote.objects import Objects
from headwater.remote.tree import (
    HEAD_GUESS_BYTES,
    NEWEST,
    RemoteCommit,
    Tree,
    base_key,
    commit_key,
    decode_base,
    decode_commit,
    head_bytes,
)

READERS = 16


def read_commit(objects: Objects, number: int) -> RemoteCommit | None:
    """Read a commit without its body; None if there is none."""
    key = commit_key(number)
    begin = objects.read(key, length=HEAD_GUESS_BYTES)
    if begin is None:
        return None
    size = head_bytes(begin)
    if size > len(begin):
        rest = objects.read(key, start=len(begin), length=size - len(begin))
        begin += rest or b""
    commit = decode_commit(begin)
    if commit.number != number:
        raise CorruptFileError(f"{key} contains commit {commit.number}.")
    return commit


def read_base(objects: Objects, number: int) -> Tree | None:
    """Read a base; None if there is none."""
    content = objects.read(base_key(number))
    return None if content is None else decode_base(content)


def newest_base(objects: Objects) -> Tree:
    """Return the newest base that is easily found, or the tree before the first commit."""
    hint = objects.read(NEWEST)
    if hint is not None and hint.isdigit() and (tree := read_base(objects, int(hint))) is not None:
        return tree
    numbers = [int(key.rpartition("/")[2]) for key, _ in objects.listed("bases/")]
    for number in sorted(numbers, reverse=True):
        if (tree := read_base(objects, number)) is not None:
            return tree
    return Tree()


def newest_tree(objects: Objects) -> Tree:
    """Return the tree after the newest commit, whether it is whole or not."""
    tree = newest_base(objects)
    for commit in commits_after(objects, tree.number):
        tree.apply(commit)
    return tree


def whole_tree(objects: Objects, *, until_ms: int | None = None) -> Tree:
    """Return the tree after the last commit that is whole, of those up to a moment."""
    base = newest_base(objects)
    if until_ms is not None and base.at_ms > until_ms:
        base = _base_before(objects, base, until_ms)
    commits = list(commits_after(objects, base.number, until_ms=until_ms))
    while commits and not commits[-1].is_whole:
        commits.pop()
    if not commits and not base.is_whole:
        raise MissingError(
            f"{objects.address} contains no complete copy of a storage"
            + ("." if until_ms is None else f" from {_shown(until_ms)} or before."),
            hint="Check the address. A first copy counts once all of it is there.",
        )
    for commit in commits:
        base.apply(commit)
    return base


def commits_after(
    objects: Objects, number: int, *, until_ms: int | None = None
) -> Iterator[RemoteCommit]:
    """Yield the commits behind a number in order, up to the newest or to a moment."""
    for commit in _commits_read(objects, number):
        if commit is None or (until_ms is not None and commit.at_ms > until_ms):
            return
        yield commit


def _commits_read(objects: Objects, number: int) -> Iterator[RemoteCommit | None]:
    """Read commits behind a number for as long as they are taken, several at a time."""
    with ThreadPoolExecutor(READERS, thread_name_prefix="headwater-history") as threads:
        while True:
            numbers = range(number + 1, number + 1 + READERS)
            yield from threads.map(partial(read_commit, objects), numbers)
            number += READERS


def _base_before(objects: Objects, newest: Tree, until_ms: int) -> Tree:
    for number, at_ms in sorted(newest.bases, reverse=True):
        if at_ms <= until_ms and (tree := read_base(objects, number)) is not None:
            return tree
    if newest.swept == 0:
        return Tree()  # No commit was deleted yet.
    raise MissingError(
        f"{objects.address} goes back to {_shown(_oldest_ms(newest))}, not to {_shown(until_ms)}.",
        hint="Choose a later moment; --remote-history decides how far back moments are kept.",
    )


def _oldest_ms(newest: Tree) -> int:
    return min((at_ms for _, at_ms in newest.bases), default=newest.at_ms)


def _shown(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "milliseconds")
