"""Values of every type: nulls, extremes, and what lies between."""

from decimal import Decimal

from headwater.model.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)

YEAR_1_S, YEAR_9999_S = -62_135_596_800, 253_402_300_799
DAY_S = 86_400
SAMPLES: dict[DataType, list[object]] = {
    BooleanType(): [True, None, False],
    TinyIntType(): [-128, None, 127, 0],
    SmallIntType(): [-(2**15), None, 2**15 - 1, 0],
    IntType(): [-(2**31), None, 2**31 - 1, 0],
    BigIntType(): [-(2**63), None, 2**63 - 1, 0],
    FloatType(): [-3.4028234663852886e38, None, 1.401298464324817e-45, 0.5],
    DoubleType(): [-1.7976931348623157e308, None, 5e-324, 0.1],
    StringType(): ["", None, "ä€😀", "\x00\x1f\n\"'", "x" * 5000],
    CharType(length=3): ["abc", None, "ä€😀", "a  "],
    BytesType(): [b"", None, b"\x00\xff", b"y" * 5000],
    BinaryType(length=4): [b"\x00" * 4, None, b"\xff" * 4],
    DecimalType(precision=9, scale=2): [Decimal("-9999999.99"), None, Decimal("0.01")],
    DecimalType(precision=18, scale=0): [Decimal(-(10**18) + 1), None, Decimal(10**18 - 1)],
    DecimalType(precision=38, scale=10): [
        Decimal("-9999999999999999999999999999.9999999999"),
        None,
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("0.0000000001"),
    ],
    DateType(): [-719162, None, 2932896, 0, -1],
    TimeType(precision=0): [0, None, DAY_S - 1],
    TimeType(precision=3): [0, None, DAY_S * 1000 - 1, 1],
    TimestampType(precision=0): [YEAR_1_S, None, YEAR_9999_S, 0, -1],
    TimestampType(precision=3): [YEAR_1_S * 1000, None, YEAR_9999_S * 1000 + 999, -1],
    TimestampType(precision=6): [YEAR_1_S * 10**6, None, YEAR_9999_S * 10**6 + 999_999, -1],
    TimestampLtzType(precision=0): [YEAR_1_S, None, YEAR_9999_S, 0],
    TimestampLtzType(precision=3): [YEAR_1_S * 1000, None, YEAR_9999_S * 1000 + 999, -1],
    TimestampLtzType(precision=6): [YEAR_1_S * 10**6, None, YEAR_9999_S * 10**6 + 999_999, -1],
}
_PER_SECOND = {0: 1, 1: 10**3, 3: 10**3, 6: 10**6, 7: 10**9, 9: 10**9}


def numbers_of(kind: TimeType | TimestampType | TimestampLtzType) -> list[int | None]:
    """Return moments in the unit of a type, as fine as its precision lets them be."""
    per_second = _PER_SECOND[kind.precision]
    step = per_second // 10**kind.precision
    if isinstance(kind, TimeType):
        return [0, None, DAY_S * per_second - step, 12_345 * per_second + step]
    return [0, None, -step, 1_700_000_000 * per_second + step, -1_700_000_000 * per_second]
