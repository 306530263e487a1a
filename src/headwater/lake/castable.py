"""Types of files of which any engine makes those of a table by a plain cast."""

import pyarrow as pa

_FAMILIES = (
    pa.types.is_signed_integer,
    pa.types.is_floating,
    pa.types.is_time,
    lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind),
)


def is_castable(written: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of a file become those of a table by a plain cast, in any engine.

    Nested values have to be as they are wanted, since engines differ in how they cast inside of
    them. Nanoseconds stand in files in a form that some engines read as microseconds.
    """
    if pa.types.is_nested(written) or pa.types.is_nested(wanted):
        return _is_same(written, wanted)
    if pa.types.is_timestamp(written) and pa.types.is_timestamp(wanted):
        return bool(written.tz == wanted.tz and "ns" not in (written.unit, wanted.unit))
    if pa.types.is_decimal(written) and pa.types.is_decimal(wanted):
        return bool(written.scale == wanted.scale and written.precision <= wanted.precision)
    return written == wanted or any(is_of(written) and is_of(wanted) for is_of in _FAMILIES)


def _is_same(written: pa.DataType, wanted: pa.DataType) -> bool:
    """Compare types but for nullability, and for how the insides of lists and maps are called."""
    if not pa.types.is_nested(wanted):
        return bool(written == wanted) and not _is_nanoseconds(wanted)
    if written.id != wanted.id or written.num_fields != wanted.num_fields:
        return False
    pairs = [(written.field(at), wanted.field(at)) for at in range(wanted.num_fields)]
    if pa.types.is_map(wanted):
        pairs = [(written.key_field, wanted.key_field), (written.item_field, wanted.item_field)]
    is_named = pa.types.is_struct(wanted)
    return all(
        (held.name == field.name or not is_named) and _is_same(held.type, field.type)
        for held, field in pairs
    )


def _is_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")
