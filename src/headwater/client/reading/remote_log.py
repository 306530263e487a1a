"""Parts of a log that a cluster has moved to a remote store, read from there by the client."""

from functools import lru_cache

import pyarrow as pa
from pyarrow import fs

from headwater.errors import CorruptBatchError, LeaderMissingError, RemoteLogError
from headwater.rows.log_batch import HEADER_BYTES, LENGTH_END, read_header
from headwater.runtime.aside import aside
from headwater.wire import fluss_pb2 as pb
from headwater.wire.fetch_answer import BucketAnswer

FILE_SYSTEMS_MAX = 16
_OFFSET_DIGITS = 20
_LOCAL = "file"
_AS_S3 = {"s3a": "s3", "s3n": "s3"}  # as Hadoop calls it


def is_remote(answer: BucketAnswer) -> bool:
    """Tell whether an answer only says where the records are."""
    return answer.fields.HasField("remote_log_fetch_info")


async def with_records(answer: BucketAnswer, *, offset: int, chunk_bytes: int) -> BucketAnswer:
    """Return the answer with the records from the batch on that holds an offset.

    They are as they were written: a remote store cuts no columns and leaves out no rows.
    """
    if not is_remote(answer):
        return answer
    info = answer.fields.remote_log_fetch_info
    records = await aside(_read, info, offset=offset, chunk_bytes=chunk_bytes)
    return BucketAnswer(answer.fields, [records])


def _read(info: pb.RemoteLogFetchInfo, *, offset: int, chunk_bytes: int) -> memoryview:
    for index, segment in enumerate(info.remote_log_segments):
        if segment.remote_log_end_offset <= offset:
            continue
        start = info.first_start_pos if index == 0 else 0
        path = _path(info.remote_log_tablet_dir, segment)
        try:
            with _file_system(path).open_input_file(_within(path)) as file:
                found = _from(file, start, offset=offset, chunk_bytes=chunk_bytes)
        except FileNotFoundError as fault:
            # It expired meanwhile, or was moved: the leader knows what there is now.
            raise LeaderMissingError(f"{path} is gone.") from fault
        except (OSError, pa.ArrowException) as fault:
            raise _unreadable(path, fault) from fault
        if found is not None:
            return found
    raise RemoteLogError(f"No remote segment in {info.remote_log_tablet_dir} holds {offset}.")


def _from(
    file: pa.NativeFile, position: int, *, offset: int, chunk_bytes: int
) -> memoryview | None:
    """Return whole batches from the one on that holds an offset, or None if none does."""
    size = file.size()
    while position < size:
        data = memoryview(file.read_at(min(chunk_bytes, size - position), position))
        first, end = _span(data, offset)
        if first < end:
            return data[first:end]
        # All were too early, or one alone is longer than what was read.
        position += end
        chunk_bytes = max(chunk_bytes, _length(file, position))
    return None


def _span(data: memoryview, offset: int) -> tuple[int, int]:
    """Return where the first wanted batch begins and where the last whole one ends."""
    first = end = 0
    while len(data) - end >= HEADER_BYTES:
        header = read_header(data, end)
        if end + header.size > len(data):
            break
        end += header.size
        if header.end_offset <= offset:
            first = end
    return first, end


def _length(file: pa.NativeFile, position: int) -> int:
    """Return the bytes of the batch at a position; a file that ends within it is damaged."""
    head = file.read_at(HEADER_BYTES, position)
    if not head:
        return 0
    length = read_header(head).length + LENGTH_END
    if position + length > file.size():
        raise CorruptBatchError(f"A remote segment ends within the batch at byte {position}.")
    return length


def _path(directory: str, segment: pb.RemoteLogSegment) -> str:
    name = f"{segment.remote_log_start_offset:0{_OFFSET_DIGITS}}.log"
    return f"{directory.rstrip('/')}/{segment.remote_log_segment_id}/{name}"


def _file_system(path: str) -> fs.FileSystem:
    scheme, host, _ = _split(path)
    return _opened(scheme, host)


@lru_cache(maxsize=FILE_SYSTEMS_MAX)
def _opened(scheme: str, host: str) -> fs.FileSystem:
    """Open a store once, as its first connection may take seconds."""
    if scheme == _LOCAL:
        return fs.LocalFileSystem()
    found, _ = fs.FileSystem.from_uri(f"{_AS_S3.get(scheme, scheme)}://{host}/")
    return found


def _within(path: str) -> str:
    """Return a path as its store knows it."""
    scheme, host, rest = _split(path)
    return rest if scheme in (_LOCAL, "hdfs", "viewfs") else f"{host}{rest}"


def _split(path: str) -> tuple[str, str, str]:
    """Return scheme, host and path; by hand, as names may hold what has a meaning in addresses."""
    scheme, is_address, rest = path.partition("://")
    if not is_address:
        return _LOCAL, "", path.removeprefix("file:")
    host, slash, within = rest.partition("/")
    return scheme, host, slash + within


def _unreadable(path: str, fault: Exception) -> RemoteLogError:
    return RemoteLogError(
        f"{path} cannot be read: {fault}.",
        hint="Give this machine access to the remote store of the cluster, with credentials "
        "where pyarrow looks for them, or start at a later offset.",
    )
