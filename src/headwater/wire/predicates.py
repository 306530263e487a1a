"""Filters between their protobuf form and plain values."""

from collections.abc import Mapping
from decimal import Decimal

from headwater.errors import InvalidProjectionError
from headwater.model import Column, Schema, types
from headwater.model.predicate import And, Leaf, LeafFunction, Literal, Or, Predicate
from headwater.wire import fluss_pb2 as pb

PREDICATE_DEPTH_MAX = 64
_LEAF, _COMPOUND = 0, 1
_AND, _OR = 0, 1
_NANOS_PER_MILLI = 1_000_000
# Small integers and times of day use `int_value`.
_FIELD_OF_TYPE: dict[type[types.DataType], str] = {
    types.BooleanType: "boolean_value",
    types.BigIntType: "bigint_value",
    types.DateType: "bigint_value",
    types.FloatType: "float_value",
    types.DoubleType: "double_value",
    types.StringType: "string_value",
    types.CharType: "string_value",
    types.BytesType: "binary_value",
    types.BinaryType: "binary_value",
}
_TYPES: tuple[type[types.DataType], ...] = (
    types.BooleanType,
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.FloatType,
    types.DoubleType,
    types.CharType,
    types.StringType,
    types.DecimalType,
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.TimestampLtzType,
    types.BinaryType,
    types.BytesType,
)
_NUMBER_OF_TYPE = {kind: number for number, kind in enumerate(_TYPES)}
COMPACT_PRECISION_MAX = 18
_Columns = Mapping[int, Column]
DECIMAL_BYTES_MAX = 16  # 38 digits; converting thousands of bytes to digits takes forever


def predicate_from_wire(message: pb.Predicate, schema: Schema) -> Predicate:
    """Decode a filter; a column that is not in the schema is an error."""
    return _predicate(message, {column.column_id: column for column in schema.columns})


def _predicate(message: pb.Predicate, columns: _Columns, *, depth: int = 0) -> Predicate:
    if depth > PREDICATE_DEPTH_MAX:
        raise InvalidProjectionError(
            f"A filter is nested more than {PREDICATE_DEPTH_MAX} levels deep."
        )
    if message.type == _LEAF and message.HasField("leaf"):
        return _leaf(message.leaf, columns)
    if message.type == _COMPOUND and message.HasField("compound"):
        children = tuple(
            _predicate(child, columns, depth=depth + 1) for child in message.compound.children
        )
        if message.compound.function == _AND:
            return And(children)
        if message.compound.function == _OR:
            return Or(children)
    raise InvalidProjectionError("A filter is neither a comparison nor an and / or of filters.")


def _leaf(message: pb.LeafPredicate, columns: _Columns) -> Leaf:
    column = columns.get(message.field_id)
    if column is None:
        raise InvalidProjectionError(f"A filter uses the unknown column id {message.field_id}.")
    try:
        function = LeafFunction(message.function)
    except ValueError:
        raise InvalidProjectionError(
            f"A filter uses the unknown function {message.function}."
        ) from None
    literals = tuple(_literal(literal, column) for literal in message.literals)
    return Leaf(function, column.column_id, literals)


def _literal(message: pb.LiteralValue, column: Column) -> Literal:
    if message.is_null:
        return None
    match column.type:
        case types.DecimalType(scale=scale):
            return _decimal(message, scale)
        case types.TimestampType() | types.TimestampLtzType():
            nanos = message.timestamp_nano_of_millis_value
            return message.timestamp_millis_value * _NANOS_PER_MILLI + nanos
        case _:
            value: Literal = getattr(message, _FIELD_OF_TYPE.get(type(column.type), "int_value"))
            return value


def predicate_to_wire(predicate: Predicate, schema: Schema) -> pb.Predicate:
    """Encode a filter on columns of the schema."""
    match predicate:
        case Leaf():
            return pb.Predicate(type=_LEAF, leaf=_leaf_to_wire(predicate, schema))
        case And(children=children):
            return _compound_to_wire(_AND, children, schema)
        case Or(children=children):
            return _compound_to_wire(_OR, children, schema)


def _compound_to_wire(
    function: int, children: tuple[Predicate, ...], schema: Schema
) -> pb.Predicate:
    written = [predicate_to_wire(child, schema) for child in children]
    compound = pb.CompoundPredicate(function=function, children=written)
    return pb.Predicate(type=_COMPOUND, compound=compound)


def _leaf_to_wire(leaf: Leaf, schema: Schema) -> pb.LeafPredicate:
    column = next(each for each in schema.columns if each.column_id == leaf.column_id)
    return pb.LeafPredicate(
        function=leaf.function,
        field_id=leaf.column_id,
        literals=[_literal_to_wire(each, column.type) for each in leaf.literals],
    )


def _literal_to_wire(literal: Literal, data_type: types.DataType) -> pb.LiteralValue:
    number = _NUMBER_OF_TYPE[type(data_type)]
    message = pb.LiteralValue(literal_type=number, is_null=literal is None)
    match data_type, literal:
        case _, None:
            pass
        case types.DecimalType(), Decimal():
            _put_decimal(message, literal, data_type)
        case types.TimestampType() | types.TimestampLtzType(), int():
            millis, nanos = divmod(literal, _NANOS_PER_MILLI)
            message.timestamp_millis_value = millis
            message.timestamp_nano_of_millis_value = nanos
        case _:
            setattr(message, _FIELD_OF_TYPE.get(type(data_type), "int_value"), literal)
    return message


def _put_decimal(message: pb.LiteralValue, literal: Decimal, data_type: types.DecimalType) -> None:
    sign, digits, exponent = literal.as_tuple()
    assert exponent == -data_type.scale, "a decimal literal has the scale of its column"
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    if data_type.precision <= COMPACT_PRECISION_MAX:
        message.decimal_value = unscaled
    else:
        size = unscaled.bit_length() // 8 + 1
        message.decimal_bytes = unscaled.to_bytes(size, "big", signed=True)


def _decimal(message: pb.LiteralValue, scale: int) -> Decimal:
    if len(message.decimal_bytes) > DECIMAL_BYTES_MAX:
        raise InvalidProjectionError(
            f"A decimal in a filter has {len(message.decimal_bytes)} bytes."
        )
    if message.HasField("decimal_bytes"):
        unscaled = int.from_bytes(message.decimal_bytes, "big", signed=True)
    else:
        unscaled = message.decimal_value
    sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
    # Built from digits because arithmetic would round to the context's precision.
    return Decimal((sign, digits, -scale))
