"""What snapshots list, looked at before it is believed.

An Avro file that is cut behind a block, or behind its head, is a whole one with less in it: a
table whose list of manifests lost its end would be empty, and the next commit would make it so.
"""

import io
from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from headwater.errors import CorruptFileError

_TOTAL = "total-data-files"
_HINT = "Restore it from a copy; `headwater audit` names all files that are damaged."


def listed_manifests(snapshot: Snapshot, files: FileIO) -> list[ManifestFile]:
    """Return the manifests of a snapshot, or say that its list has lost them."""
    manifests = snapshot.manifests(files)
    if lost := lost_count(snapshot, manifests):
        raise CorruptFileError(
            f"The list of manifests {snapshot.manifest_list} is damaged: it lists none of the"
            f" {lost} data files that the table has.",
            hint=_HINT,
        )
    return manifests


def lost_count(snapshot: Snapshot, manifests: Iterable[ManifestFile]) -> int:
    """Return how many data files a snapshot has of which its list tells nothing.

    What others count is not always right, so some that are missing are no sign: lists of ours
    have one block, and lose all of it or nothing.
    """
    if any(each.content == ManifestContent.DATA for each in manifests):
        return 0
    told = {} if snapshot.summary is None else snapshot.summary.additional_properties
    total = told.get(_TOTAL, "")
    return int(total) if total.isdecimal() else 0


def entries_of(
    files: FileIO, manifest: ManifestFile, *, discard_deleted: bool = True
) -> list[ManifestEntry]:
    """Return what a manifest lists, or say that it is not as long as it was written."""
    return manifest.fetch_manifest_entry(whole(files, [manifest]), discard_deleted)


def whole(files: FileIO, manifests: Sequence[ManifestFile]) -> FileIO:
    """Return a way to read files that takes manifests only at the length that is listed."""
    return _Whole(files, {each.manifest_path: each.manifest_length for each in manifests})


class _Whole(FileIO):
    """Read files, some of which have to have a certain length."""

    def __init__(self, files: FileIO, lengths: Mapping[str, int]) -> None:
        super().__init__(files.properties)
        self._files = files
        self._lengths = lengths

    def new_input(self, location: str) -> InputFile:
        found = self._files.new_input(location)
        length = self._lengths.get(location)
        return found if length is None else _WholeInput(found, length)

    def new_output(self, location: str) -> OutputFile:
        return self._files.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._files.delete(location)


class _WholeInput(InputFile):
    """Open a file that has to have a certain length."""

    def __init__(self, found: InputFile, length: int) -> None:
        super().__init__(found.location)
        self._found = found
        self._length = length

    def __len__(self) -> int:
        return len(self._found)

    def exists(self) -> bool:
        return self._found.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002 - as it is there
        stream = self._found.open()
        stream.seek(0, io.SEEK_END)
        length = stream.tell()
        if length != self._length:
            stream.close()
            raise CorruptFileError(
                f"The manifest {self.location} is damaged: it has {length} bytes of"
                f" {self._length}.",
                hint=_HINT,
            )
        stream.seek(0)
        return stream
