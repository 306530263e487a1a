"""A batch as pyfluss 1.0.0 sent it, with every type that the client can write."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa

from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    MapType,
    RowField,
    RowType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from headwater.rows.compacted.coders import KeyDecoder, KeyEncoder, RowDecoder, RowEncoder
from headwater.rows.kv_batch import (
    build_kv_batch,
    check_kv_crc,
    read_kv_header,
    read_kv_records,
)

GOLDEN = bytes.fromhex(
    "f7020000004e0b263e010000020000000000000000000000040000004d0200000affffffff0f046b6579300000"
    "0000ffffffff0f046b6579300180ff7f8080808008ffffffffffffffff7f0000c03f00000000000002c00b68c3"
    "a4616477c3a57465720200ff0461626364aefaa7b3fbffffffff01100949b0f6f0023313c449904ecc674515ff"
    "ffffff0f98b09929fc9de3018899a6e5b7338e99a6e5b7338899a6e5b733d8368899a6e5b733008899a6e5b733"
    "c03e18030000000200000001000000000000000300000000000000341800000002000000000000007800000000"
    "0000817900000000000081020000000200000001000000000000000000000000000000060001036f6e65480200"
    "0000000000001b000000180000000a000000380000000018020000000000000070000000000000817100000000"
    "0000810700000000000208000000000000000000000000000048050000000800000073686f7274000085657861"
    "63746c79871100000030000000000000000000000000000000000000806c6f6e676572207468616e2073657665"
    "6e00000000000000400300000002000000020000002000000000000000000000000d0000003000000000960000"
    "000000000000000000000000fe7116f0093c8c1f11b1c0f57c0000002002000000020000001092030018000000"
    "0000000000000000898ca97c9b01000010030000000200000001000000000000005c1800000003000000000000"
    "000100000002000000030000000000000003000000020000001800000020000000000000000000000008000000"
    "380000000200000002000000000000000000f03f00000000000000000000000000000000610000000600046b65"
    "7931fcff3f0a00046b657931080000000000000000140800000000000000000000000000000000000000010308"
    "000000000000000008000000000000000008000000000000000014080000000000000000000000000000000000"
    "00001a0000000601046b657932fcffff7d01046b65793208000000000000000007000000060704676f6e65"
)
KEY_TYPES = [IntType(nullable=False), StringType(nullable=False)]
TAGGED = RowType(
    fields=(
        RowField(name="tags", type=ArrayType(element=StringType())),
        RowField(name="n", type=BigIntType()),
    )
)
PAIR = RowType(fields=(RowField(name="a", type=IntType()), RowField(name="b", type=StringType())))
PLAIN_TYPES = [
    BooleanType(),
    TinyIntType(),
    SmallIntType(),
    IntType(),
    BigIntType(),
    FloatType(),
    DoubleType(),
    StringType(),
    BytesType(),
    BinaryType(length=4),
    DecimalType(precision=10, scale=2),
    DecimalType(precision=38, scale=10),
    DateType(),
    TimeType(precision=0),
    TimeType(precision=3),
    TimestampType(precision=0),
    TimestampType(precision=3),
    TimestampType(precision=6),
    TimestampType(precision=9),
    TimestampLtzType(precision=6),
]
NESTED_TYPES = [
    ArrayType(element=IntType()),
    MapType(key=StringType(), value=BigIntType()),
    PAIR,
    ArrayType(element=TAGGED),
    ArrayType(element=StringType()),
    ArrayType(element=DecimalType(precision=30, scale=2)),
    ArrayType(element=TimestampType(precision=6)),
    ArrayType(element=BooleanType()),
    MapType(key=IntType(), value=ArrayType(element=DoubleType())),
]
TYPES = [*KEY_TYPES, *PLAIN_TYPES, *NESTED_TYPES]
MOMENT = datetime(2026, 1, 2, 3, 4, 5)
PLAIN_ROW = [
    True,
    -128,
    32767,
    -(2**31),
    2**63 - 1,
    1.5,
    -2.25,
    "häadwåter",
    b"\x00\xff",
    b"abcd",
    Decimal("-12345678.90"),
    Decimal("1234567890123456789012345678.0123456789"),
    date(1969, 12, 31),
    time(23, 59, 59),
    time(1, 2, 3, 4000),
    MOMENT,
    MOMENT.replace(microsecond=6000),
    MOMENT.replace(microsecond=7),
    MOMENT,
    MOMENT.replace(microsecond=8, tzinfo=UTC),
]
ROWS = [
    [
        -1,
        "key0",
        *PLAIN_ROW,
        [1, None, 3],
        [("x", 1), ("y", None)],
        {"a": 1, "b": "one"},
        [{"tags": ["p", "q"], "n": 7}, {"tags": [], "n": None}],
        ["short", "exactly", "longer than seven", None, ""],
        [Decimal("1.50"), None, Decimal("-1234567890123456789012345678.12")],
        [MOMENT.replace(microsecond=1234), None],
        [True, None, False],
        [(1, [1.0, None]), (2, None), (3, [])],
    ],
    [0, "key1", *[None] * 20, [], [], {"a": None, "b": None}, None, [], None, [], [], []],
    [1, "key2", *[None] * 20, None, None, None, [], *[None] * 5],
]


def columns_of(types, rows) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], arrow_type(t)) for i, t in enumerate(types)]


def test_the_batch_of_a_client_is_read():
    view = memoryview(GOLDEN)
    header = read_kv_header(view)
    check_kv_crc(view, header)

    records = read_kv_records(view, header)

    assert records.is_delete.tolist() == [False, False, False, True]
    keys = columns_of(KEY_TYPES, [*ROWS, [7, "gone"]])
    assert KeyDecoder.of(KEY_TYPES).decode(records.keys) == keys
    rows = records.rows.take(~records.is_delete)
    assert RowDecoder.of(TYPES).decode(rows) == columns_of(TYPES, ROWS)


def test_the_batch_of_a_client_is_written_byte_for_byte():
    header = read_kv_header(memoryview(GOLDEN))
    keys = KeyEncoder.of(KEY_TYPES).encode(columns_of(KEY_TYPES, [*ROWS, [7, "gone"]]))
    filler = [7, "gone", *[None] * (len(TYPES) - 2)]
    rows = RowEncoder.of(TYPES).encode(columns_of(TYPES, [*ROWS, filler]))

    batch = build_kv_batch(
        keys,
        rows,
        schema_id=header.schema_id,
        writer_id=header.writer_id,
        sequence=header.batch_sequence,
        is_delete=pa.array([False, False, False, True]).to_numpy(zero_copy_only=False),
    )

    assert batch == GOLDEN
