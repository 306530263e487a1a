import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError, InvalidProjectionError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, IntType, StringType
from headwater.rows.log_batch import build_batch, check_crc, read_header, read_sections
from headwater.rows.projection import WHOLE_READ_BYTES_MAX, Projection, project_batch
from headwater.rows.statistics import encode_statistics
from tests.cases import cases
from tests.choices import examples
from tests.rows.strategies import (
    COMPRESSIONS,
    compressions,
    data_types,
    log_batch_of,
    record_batches,
    schema_of,
    schemas,
)


class StoredBatch:
    """Serve byte ranges of a batch and remember how many bytes were asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def read(self, start: int, end: int) -> bytes:
        self.reads.append((start, end))
        return self.data[start:end]

    @property
    def bytes_read(self) -> int:
        return sum(end - start for start, end in self.reads)


def project(data, stored, wanted):
    parts = project_batch(StoredBatch(data).read, read_header(data), Projection.of(stored, wanted))
    return b"".join(parts)


def decode(data, wanted):
    header = read_header(data)
    check_crc(data, header)
    assert header.size == len(data)
    message = data[read_sections(data, header).changes_end :]
    rows = pa.ipc.read_record_batch(message, arrow_schema(Schema(columns=tuple(wanted))))
    rows.validate(full=True)
    return rows


def expected(rows, stored, wanted):
    ids = [column.column_id for column in stored.columns]
    kinds = arrow_schema(Schema(columns=tuple(wanted)))
    columns = [
        rows.column(ids.index(column.column_id))
        if column.column_id in ids
        else pa.nulls(rows.num_rows, kind.type)
        for column, kind in zip(wanted, kinds, strict=True)
    ]
    return pa.record_batch(columns, schema=kinds)


@st.composite
def projections(draw):
    """Draw a schema and some of its columns, among columns that it lacks."""
    stored = draw(schemas())
    missing = [
        Column(name=f"new{index}", type=each, column_id=10_000 + index)
        for index, each in enumerate(draw(st.lists(data_types(), max_size=3)))
    ]
    pool = [*stored.columns, *missing]
    wanted = draw(st.lists(st.sampled_from(pool), min_size=1, unique_by=lambda c: c.column_id))
    return stored, wanted


@settings(max_examples=examples(200))
@given(drawn=projections(), compression=compressions(), data=st.data())
def test_a_projected_batch_equals_what_arrow_selects(drawn, compression, data):
    stored, wanted = drawn
    rows = data.draw(record_batches(stored, rows_max=40))

    projected = project(log_batch_of(rows, compression), stored, wanted)

    assert decode(projected, wanted).equals(expected(rows, stored, wanted))


@given(drawn=projections(), data=st.data())
def test_change_types_stay_and_statistics_go(drawn, data):
    stored, wanted = drawn
    rows = data.draw(record_batches(stored))
    changes = bytes(index % 5 for index in range(rows.num_rows))
    statistics = encode_statistics(rows, stored, range(len(stored.columns)))

    projected = project(log_batch_of(rows, changes=changes, statistics=statistics), stored, wanted)

    assert read_header(projected).magic == 0
    assert projected[48 : 48 + rows.num_rows] == changes
    assert decode(projected, wanted).equals(expected(rows, stored, wanted))


WIDE = schema_of([StringType(), BigIntType(), IntType(), BigIntType(), StringType()])
ROW_COUNT = 20_000


def wide_rows():
    texts = pa.array([None if n % 7 == 0 else f"text {n}" for n in range(ROW_COUNT)])
    numbers = pa.array(range(ROW_COUNT), pa.int64())
    columns = [texts, numbers, numbers.cast(pa.int32()), numbers, texts]
    return pa.record_batch(columns, schema=arrow_schema(WIDE))


@cases("compression", COMPRESSIONS)
@cases("positions", [[1], [4, 0], [2, 3], [3, 2, 1], [0, 1, 2, 3, 4]])
def test_a_large_batch_is_read_in_runs_of_the_wanted_columns(compression, positions):
    rows = wide_rows()
    stored = StoredBatch(log_batch_of(rows, compression))
    wanted = [WIDE.columns[position] for position in positions]

    parts = project_batch(stored.read, read_header(stored.data), Projection.of(WIDE, wanted))

    projected = b"".join(parts)
    assert len(stored.data) > WHOLE_READ_BYTES_MAX
    assert decode(projected, wanted).equals(expected(rows, WIDE, wanted))
    assert stored.bytes_read < len(projected) + 2048


def test_neighbouring_columns_take_one_read():
    stored = StoredBatch(log_batch_of(wide_rows()))
    projection = Projection.of(WIDE, WIDE.columns[1:4])

    project_batch(stored.read, read_header(stored.data), projection)

    assert len(stored.reads) == 2


def test_a_small_batch_is_read_once():
    stored = StoredBatch(log_batch_of(wide_rows().slice(0, 10)))

    project_batch(stored.read, read_header(stored.data), Projection.of(WIDE, WIDE.columns[::2]))

    assert stored.reads == [(0, len(stored.data))]


def test_metadata_behind_long_statistics_is_read_on_demand():
    rows = wide_rows()
    stored = StoredBatch(log_batch_of(rows, statistics=bytes(5000)))
    wanted = WIDE.columns[:1]

    parts = project_batch(stored.read, read_header(stored.data), Projection.of(WIDE, wanted))

    assert decode(b"".join(parts), wanted).equals(expected(rows, WIDE, wanted))


@cases("statistics", [None, b""])
def test_an_empty_batch_passes_as_a_bare_header(statistics):
    data = build_batch(b"", schema_id=3, record_count=0, base_offset=41, statistics=statistics)

    projected = project(data, WIDE, WIDE.columns[:1])

    header = read_header(projected)
    check_crc(projected, header)
    assert (header.size, header.magic, header.base_offset) == (48, 0, 41)


def test_offset_timestamp_writer_and_sequence_stay():
    fields = {"base_offset": 9, "timestamp_ms": 8, "writer_id": 7, "sequence": 6}
    data = log_batch_of(wide_rows().slice(0, 3), **fields)

    header = read_header(project(data, WIDE, WIDE.columns[:1]))

    assert (header.base_offset, header.commit_timestamp) == (9, 8)
    assert (header.writer_id, header.sequence, header.schema_id) == (7, 6, 1)


def test_a_batch_of_another_schema_is_refused():
    data = log_batch_of(wide_rows().slice(0, 3))
    other = schema_of([StringType()])

    with pytest.raises(CorruptBatchError, match="requires"):
        project(data, other, other.columns)


def test_a_batch_that_ends_early_on_disk_is_refused():
    data = log_batch_of(wide_rows())
    projection = Projection.of(WIDE, WIDE.columns[4:])

    with pytest.raises(CorruptBatchError, match="bytes early"):
        project_batch(StoredBatch(data[:-500]).read, read_header(data), projection)


def test_a_column_that_changed_its_type_is_refused():
    changed = Column(name="c1", type=IntType(), column_id=1)

    with pytest.raises(InvalidProjectionError, match="stored as BIGINT"):
        Projection.of(WIDE, [changed])


def test_a_small_batch_of_many_rows_is_not_blown_up_by_columns_that_it_lacks():
    stored = schema_of([IntType()])
    rows = pa.record_batch([pa.array(range(300_000), pa.int32())], names=["c0"])
    data = log_batch_of(rows, "zstd")
    lacking = [Column(name=f"n{at}", type=BigIntType(), column_id=10 + at) for at in range(40)]

    assert project(data, stored, lacking[:5])
    with pytest.raises(InvalidProjectionError, match="A batch of 300000 rows lacks 40 columns"):
        project(data, stored, lacking)
