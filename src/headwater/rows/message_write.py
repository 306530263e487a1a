"""Rows as one Arrow message, as batches of a log hold them."""

import pyarrow as pa

from headwater.config.choices import ArrowCompression

PLAIN_BYTES_MAX = 512
"""So many bytes are better written as they are: each buffer is compressed alone, and small ones get
larger by it. It takes a codec ten times as long to begin as it takes to write a few rows."""


def arrow_codec(compression: ArrowCompression, *, zstd_level: int) -> pa.Codec | None:
    """Return how the rows of a table are compressed."""
    match compression:
        case ArrowCompression.NONE:
            return None
        case ArrowCompression.LZ4_FRAME:
            return pa.Codec("lz4")
        case ArrowCompression.ZSTD:
            return pa.Codec("zstd", compression_level=zstd_level)


class MessageWriter:
    """Write rows of one schema."""

    def __init__(self, schema: pa.Schema, codec: pa.Codec | None) -> None:
        self._schema = schema
        self._head_bytes = schema.serialize().size
        self._codec = codec

    def write(
        self, rows: pa.RecordBatch, *, plain_bytes_max: int = 0, use_threads: bool = False
    ) -> memoryview:
        """Return the message of these rows, without that of their schema; few are not compressed.

        Only for readers that look at each message: a server of Apache Fluss that leaves out columns
        takes all of a table for compressed.
        """
        codec = self._codec if rows.nbytes > plain_bytes_max else None
        options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=use_threads)
        sink = pa.BufferOutputStream()
        writer = pa.ipc.new_stream(sink, self._schema, options=options)
        writer.write_batch(rows)
        end = sink.tell()
        # The writer puts the schema before the first batch.
        return memoryview(sink.getvalue())[self._head_bytes : end]
