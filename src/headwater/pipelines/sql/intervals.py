"""Intervals such as `INTERVAL '10' MINUTE`, as milliseconds."""

import re

from sqlglot import exp

_UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_NUMBER = re.compile(r"\s*(-?)\s*(\d+)(?:\.(\d{1,9}))?\s*")
# Days, hours, minutes and seconds of a span such as '1 02:30' DAY TO MINUTE.
_SPANS = ("DAY", "HOUR", "MINUTE", "SECOND")
_PARTS = re.compile(r"[ :]+")


def interval_ms(node: exp.Expr) -> int | None:
    """Milliseconds of an interval of days to seconds, or None if it is something else."""
    if isinstance(node, exp.Paren):
        return interval_ms(node.this)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _span_ms(node.this.name, unit.this.name, unit.expression.name)
    return None if unit is None else _unit_ms(node.this.name, unit.name)


def _unit_ms(text: str, unit: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    scale = _UNITS_MS.get(unit)
    if match is None or scale is None:
        return None
    sign, whole, fraction = match.groups()
    value = int(whole) * scale
    if fraction:
        value += int(fraction) * scale // 10 ** len(fraction)
    return -value if sign else value


def _span_ms(text: str, first: str, last: str) -> int | None:
    if first not in _SPANS or last not in _SPANS:
        return None
    units = _SPANS[_SPANS.index(first) : _SPANS.index(last) + 1]
    parts = _PARTS.split(text.strip())
    if len(parts) != len(units):
        return None
    values = [_unit_ms(part, unit) for part, unit in zip(parts, units, strict=True)]
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None


def spark_interval(duration_ms: int) -> str:
    """Write a duration as `window` and `withWatermark` want it."""
    for unit in ("DAY", "HOUR", "MINUTE", "SECOND"):
        if duration_ms and duration_ms % _UNITS_MS[unit] == 0:
            return f"{duration_ms // _UNITS_MS[unit]} {unit.lower()}s"
    return f"{duration_ms} milliseconds"
