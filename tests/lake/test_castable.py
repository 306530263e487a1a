"""Which types of files any engine makes the types of a table of."""

import pyarrow as pa

from headwater.lake.files import is_castable
from tests.cases import cases

LIST = pa.list_(pa.field("element", pa.int32()))


@cases(
    ("written", "wanted"),
    [
        (pa.int32(), pa.int8()),
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.time64("us"), pa.time32("s")),
        (pa.timestamp("us"), pa.timestamp("s")),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.binary(), pa.binary(4)),
        (pa.decimal128(5, 2), pa.decimal128(9, 2)),
        (pa.string(), pa.string()),
        (LIST, pa.list_(pa.int32())),
        (pa.map_(pa.string(), LIST), pa.map_(pa.string(), pa.list_(pa.int32()))),
        (pa.struct([("x", LIST)]), pa.struct([("x", pa.list_(pa.int32()))])),
    ],
)
def test_a_plain_cast_is_enough(written, wanted):
    assert is_castable(written, wanted)


@cases(
    ("written", "wanted"),
    [
        (pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.decimal128(9, 3), pa.decimal128(9, 2)),
        (pa.string(), pa.binary()),
        (pa.binary(16), pa.string()),
        (pa.int32(), pa.string()),
        (LIST, pa.list_(pa.int8())),
        (pa.struct([("x", pa.int32())]), pa.struct([("y", pa.int32())])),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int32()), ("y", pa.int32())])),
        (pa.list_(pa.timestamp("ns")), pa.list_(pa.timestamp("ns"))),
        (pa.int32(), pa.list_(pa.int32())),
    ],
)
def test_a_plain_cast_is_not_enough(written, wanted):
    assert not is_castable(written, wanted)
