"""Damage that is planted: in the files of a storage, and in what a server answers."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.audit.report import AuditReport, Check, Finding, Proof
from headwater.client.client import AsyncClient
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import PEER, InProcessDialer
from headwater.kv.store import decode_snapshot, encode_snapshot
from headwater.rows.changelog import build_changelog, read_changelog
from headwater.rows.log_batch import iterate, stamped
from headwater.runtime.clock import SystemClock
from headwater.server.connection import Part, Serve, Session
from headwater.server.server import Server
from headwater.wire.apis import ApiKey
from headwater.wire.fetch import BucketAnswer, TableAnswer, decode_fetch_answer, encode_fetch_answer
from headwater.wire.frames import RequestFrame, ResponseKind

Edit = Callable[[bytes], bytes]
"""Changes the body of an answer."""


def found(report: AuditReport, check: Check) -> list[Finding]:
    """Return what a report says of one check."""
    return [each for each in report.findings if each.check is check]


def only(report: AuditReport) -> Finding:
    """Return the one thing that a report finds."""
    (finding,) = report.findings
    return finding


def proof(report: AuditReport, check: Check) -> Proof:
    """Return what a report proves by one check."""
    (proven,) = [each for each in report.proofs if each.check is check]
    return proven


# ---- files


def segment(directory: Path, table_id: int = 1) -> Path:
    """Return the only segment of the only bucket of a table."""
    (path,) = (directory / "log" / str(table_id) / "0").glob("*.log")
    return path


def flip(path: Path, at: int) -> None:
    """Turn one bit of a file over."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def forget_small_files(path: Path) -> None:
    """Remove what was noted about a segment, as if it had just been written."""
    for other in path.parent.iterdir():
        if other.is_file() and other.suffix != ".log":
            other.unlink()


def rewrite_changes(
    path: Path, schema: pa.Schema, edit: Callable[[list[int], list[dict[str, object]]], None]
) -> None:
    """Write the changelog of a segment anew, with good checksums, after an edit of all changes.

    The edit gets the types and rows of each batch, and changes them in place.
    """
    data, written = path.read_bytes(), []
    for header, position in iterate(data):
        batch = data[position : position + header.size]
        types, rows = read_changelog(batch, header, schema)
        listed, values = types.tolist(), rows.to_pylist()
        edit(listed, values)
        again = build_changelog(
            pa.RecordBatch.from_pylist(values, schema=schema),
            np.array(listed, np.uint8),
            schema_id=header.schema_id,
            writer=(header.writer_id, header.sequence),
            codec=None,
        )
        stamp = {"base_offset": header.base_offset, "timestamp_ms": header.commit_timestamp}
        written += stamped(again, **stamp)
    path.write_bytes(b"".join(written))
    forget_small_files(path)


def forget_row(directory: Path, table_id: int = 1) -> None:
    """Take one row out of the newest snapshot of a state, with a good checksum."""
    *_, path = sorted((directory / "log" / str(table_id) / "0" / "kv").glob("snapshot-*"))
    snapshot = decode_snapshot(path.read_bytes())
    less = replace(snapshot, hashes=snapshot.hashes[1:], locations=snapshot.locations[1:])
    path.write_bytes(encode_snapshot(less))


# ---- answers


@asynccontextmanager
async def tampered(directory: Path, edits: dict[ApiKey, Edit]) -> AsyncIterator[AsyncClient]:
    """Open a storage whose answers are changed on their way."""
    server = await Server.start(directory, ServerSettings(port=0), listens=False)
    cluster = Cluster(
        [Address(PEER, 0)],
        Pool(InProcessDialer(_tampering(server.serve, edits))),
        settings=ClientSettings(deadline_s=5.0),
        clock=SystemClock(),
    )
    await cluster.connect()
    client = AsyncClient(cluster, directory=directory, on_close=server.stop)
    try:
        yield client
    finally:
        await client.close()


def _tampering(serve: Serve, edits: dict[ApiKey, Edit]) -> Serve:
    async def tampers(frame: RequestFrame, session: Session) -> tuple[ResponseKind, Sequence[Part]]:
        kind, parts = await serve(frame, session)
        edit = edits.get(frame.api_key)
        return kind, parts if edit is None else [edit(b"".join(parts))]

    return tampers


def editing_batches(edit: Callable[[list[bytes]], list[bytes]]) -> Edit:
    """Return what edits the batches of every answer to a fetch."""

    def edited(body: bytes) -> bytes:
        tables = [
            TableAnswer(table.table_id, [_edited(bucket, edit) for bucket in table.buckets])
            for table in decode_fetch_answer(memoryview(body))
        ]
        return b"".join(encode_fetch_answer(tables))

    return edited


def _edited(answer: BucketAnswer, edit: Callable[[list[bytes]], list[bytes]]) -> BucketAnswer:
    data = b"".join(answer.records)
    batches = [data[at : at + header.size] for header, at in iterate(data)]
    return BucketAnswer(answer.fields, edit(batches)) if batches else answer
