"""The offsets files of rounds: each holds how far the lake goes once the round is committed."""

import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID

from headwater.errors import CorruptFileError, RequestError
from headwater.runtime.ids import random_bytes
from headwater.server.catalog.lake_offsets import TieredOffsets, offsets_from_json
from headwater.store.durable import sync_all
from headwater.store.local import make_durably, sync_names

SUFFIX = ".offsets"
_NAME = re.compile(r"[0-9a-f-]{36}\.offsets")
KEPT_UNUSED_MS = 24 * 3600 * 1000
_BYTES_MAX = 64 * 1024**2


class OffsetsFiles:
    """Write, read and clear away the offsets files below one directory; every call blocks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()

    def write(self, offsets: TieredOffsets) -> str:
        """Write offsets to a new file, durably, and return its path as a URL."""
        directory = self._directory / str(offsets.table_id)
        make_durably(directory)
        path = directory / f"{UUID(bytes=random_bytes(16), version=4)}{SUFFIX}"
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(offsets.to_json())
            file.flush()
            sync_all(file.fileno())
        draft.rename(path)
        sync_names(directory)
        return path.as_uri()

    def read(self, url: str, *, table_id: int) -> TieredOffsets:
        """Read a file that was written for a table; no other file can be named."""
        path = self._place(url, table_id)
        try:
            text = path.read_bytes()[:_BYTES_MAX].decode()
        except FileNotFoundError:
            raise RequestError(
                f"There is no offsets file {path.name}.", hint="Prepare the offsets anew."
            ) from None
        except UnicodeDecodeError as fault:
            raise CorruptFileError(f"The offsets file {path} is damaged.") from fault
        offsets = offsets_from_json(text)
        if offsets.table_id != table_id:
            raise RequestError(f"The offsets file {path.name} is not of table {table_id}.")
        return offsets

    def clear(self, used: frozenset[str], *, table_ids: frozenset[int], now_ms: int) -> int:
        """Delete files that nothing refers to and that are a day old; return how many."""
        if not self._directory.is_dir():
            return 0
        cleared = 0
        for directory in [each for each in self._directory.iterdir() if each.name.isdigit()]:
            old = [
                file
                for file in directory.iterdir()
                if file.as_uri() not in used
                and file.stat().st_mtime * 1000 < now_ms - KEPT_UNUSED_MS
            ]
            for file in old:
                file.unlink()
            cleared += len(old)
            if int(directory.name) not in table_ids and not any(directory.iterdir()):
                shutil.rmtree(directory, ignore_errors=True)
        return cleared

    def _place(self, url: str, table_id: int) -> Path:
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        path = Path(unquote(parts.path))
        # A request must not make the server read files of its choice.
        if (
            parts.scheme not in ("", "file")
            or path.parent != self._directory / str(table_id)
            or not _NAME.fullmatch(path.name)
        ):
            raise RequestError(
                "The offsets file is not one that this server prepared for the table.",
                hint="Prepare the offsets, and commit the path that is answered.",
            )
        return path
