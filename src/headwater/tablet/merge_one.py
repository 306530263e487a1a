"""One upsert or delete where the last row wins, worked out with plain Python.

Arrays cost more than a single record is worth. What is here gives what `merge.prepare` gives for a
batch of one record of a table without merge engine, partial update, auto-increment or prefix
index, whose columns are of simple types and whose rows were written under the latest schema. None
leaves everything else to it, and all that is odd, so that it says what is wrong.
"""

import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.config.options import ChangelogImage, DeleteBehavior
from headwater.kv.heap import ABSENT
from headwater.kv.merge.engine import delete_behavior_of
from headwater.kv.state import HeldOne, KvState
from headwater.rows.changelog import frame_changelog
from headwater.rows.compacted.one_row import OneKeyEncoder, OneRowDecoder, RowValues
from headwater.rows.few_rows import FewRowsMessage
from headwater.rows.kv_batch import HEADER_BYTES, KvBatchHeader
from headwater.rows.log_batch import ChangeType
from headwater.rows.message import PLAIN_BYTES_MAX, MessageWriter
from headwater.tablet.keyed_table import TableVersion

_LENGTH = struct.Struct("<i")
_SCHEMA_ID_BYTES = 2
_SEVEN_BITS, _MORE = 0x7F, 0x80
_INSERTED = np.array([ChangeType.INSERT], np.uint8)
_UPDATED = np.array([ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER], np.uint8)
_DELETED = np.array([ChangeType.DELETE], np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class OneRule:
    """Know how single records of one schema version are merged."""

    version: TableVersion
    decoder: OneRowDecoder
    keys: OneKeyEncoder
    key_columns: tuple[str, ...]
    """The numbers of the columns of the key, as the decoder names them."""
    takes_deletes: bool
    few: FewRowsMessage | None
    """Writes changes without Arrow, where all columns are of types that it knows."""

    @classmethod
    def of(cls, version: TableVersion, keys: OneKeyEncoder | None) -> "OneRule | None":
        """Return the rule of a version, or None if its records take the other way."""
        options, schema = version.options.kv, version.schema
        decoder = OneRowDecoder.of([column.type for column in schema.columns])
        is_simple = options.merge_engine is None and not schema.auto_increment
        if decoder is None or keys is None or not is_simple:
            return None
        if options.changelog_image is not ChangelogImage.FULL:
            return None
        columns = tuple(str(at) for at in version.key_positions)
        takes_deletes = delete_behavior_of(options) is DeleteBehavior.ALLOW
        few = FewRowsMessage.of(version.arrow)
        return cls(version, decoder, keys, columns, takes_deletes, few)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedOne:
    """Hold what one record does, before any of it is done; no record removes the key."""

    held: HeldOne
    changelog: bytes
    record: memoryview | None


def prepare_one(
    view: memoryview, header: KvBatchHeader, *, rule: OneRule, state: KvState
) -> PreparedOne | None:
    """Work out what a batch of one record does to the state, or leave it to `prepare`."""
    if header.schema_id != rule.version.schema_id or state.prefixes is not None:
        return None
    parts = _key_and_row(view, header)
    held = None if parts is None else state.hold_one(parts[0])
    if parts is None or held is None:
        return None
    key, row = parts
    before = after = None
    if held.location != ABSENT:
        schema_id = int.from_bytes(held.value[:_SCHEMA_ID_BYTES], "little")
        if schema_id != header.schema_id:
            return None
        before = rule.decoder.values(held.value[_SCHEMA_ID_BYTES:])
    if row:
        after = _written_values(key, row, rule)
    if (before is None) != (held.location == ABSENT) or (after is None) != (not row):
        return None  # Something does not decode.
    changelog = _changelog(before, after, header, rule)
    if changelog is None:
        return None
    return PreparedOne(held, changelog, view[HEADER_BYTES : header.size] if row else None)


def _written_values(key: bytes, row: bytes, rule: OneRule) -> RowValues | None:
    """Return the values of a row that was written under its own key."""
    values = rule.decoder.values(row)
    if values is None or key != rule.keys.written([values[at] for at in rule.key_columns]):
        return None
    return values


def _key_and_row(view: memoryview, header: KvBatchHeader) -> tuple[bytes, bytes] | None:
    """Return key and row of the only record, None if it does not fill the batch."""
    body = bytes(view[HEADER_BYTES : header.size])
    at, end = _LENGTH.size, len(body)
    if end <= at or _LENGTH.unpack_from(body)[0] != end - at:
        return None
    length = body[at]
    if length & _MORE:
        if end <= at + 1 or body[at + 1] & _MORE or not body[at + 1]:
            return None  # A key of kilobytes, or an odd length.
        length = length & _SEVEN_BITS | body[at + 1] << 7
        at += 1
    start = at + 1
    if start + length > end:
        return None
    return body[start : start + length], body[start + length :]


def _changelog(
    before: RowValues | None, after: RowValues | None, header: KvBatchHeader, rule: OneRule
) -> bytes | None:
    if after is None:
        types, values = _DELETED, [before]
    elif before is None:
        types, values = _INSERTED, [after]
    else:
        types, values = _UPDATED, [before, after]
    # To delete what is not there changes nothing, which the other way writes down.
    shown = [each for each in values if each is not None]
    if not shown or (after is None and not rule.takes_deletes):
        return None
    message = _message(shown, rule)
    if message is None:
        return None
    return frame_changelog(
        message,
        types,
        schema_id=header.schema_id,
        writer=(header.writer_id, header.batch_sequence),
        checksum=header.crc,
    )


def _message(rows: list[RowValues], rule: OneRule) -> bytes | memoryview | None:
    """Return rows as an Arrow message, None if a value does not fit."""
    if rule.few is not None:
        columns = tuple(zip(*(row.values() for row in rows), strict=True))
        few = rule.few.write(columns, bytes_max=PLAIN_BYTES_MAX)
        if few is not None:
            return few
    arrays = rule.decoder.columns_of(rows)
    if arrays is None:
        return None
    batch = pa.RecordBatch.from_arrays(arrays, schema=rule.version.arrow)
    codec = None if batch.nbytes <= PLAIN_BYTES_MAX else rule.version.codec
    return MessageWriter(batch.schema, codec).write(batch)
