"""Rows of Apache Fluss in Java, from and to the form of `tests.interop.lake.coded`.

Python has one kind of whole number and Java has four, so a value is put into an array of its
class, and copied from there into the row without ever being Python's again.
"""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
from py4j.java_gateway import JavaGateway, JavaObject

NANOS_OF_MILLI = 10**6

Value = object
Decoder = Callable[[JavaObject], Value]
BOXES = {
    "BOOLEAN": "Boolean",
    "TINYINT": "Byte",
    "SMALLINT": "Short",
    "INTEGER": "Integer",
    "DATE": "Integer",
    "TIME_WITHOUT_TIME_ZONE": "Integer",
    "BIGINT": "Long",
    "FLOAT": "Float",
    "DOUBLE": "Double",
}


class RowMaker:
    """Make Java rows from coded values."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self._lang = gateway.jvm.java.lang
        self._rows = gateway.jvm.org.apache.fluss.row

    def row(self, kinds: list[JavaObject], values: list[Value]) -> JavaObject:
        """Return a row of values, each of its type."""
        return self._rows.GenericRow.of(self._objects(kinds, values))

    def _objects(self, kinds: list[JavaObject], values: list[Value]) -> JavaObject:
        """Return an array of objects; it never leaves Java, where its values keep their class."""
        objects = self._gateway.new_array(self._lang.Object, len(values))
        for at, (kind, value) in enumerate(zip(kinds, values, strict=True)):
            if value is not None:
                self._lang.System.arraycopy(self._boxed(kind, value), 0, objects, at, 1)
        return objects

    def _boxed(self, kind: JavaObject, value: Value) -> JavaObject:
        root = kind.getTypeRoot().toString()
        box = self._gateway.new_array(getattr(self._lang, BOXES.get(root, "Object")), 1)
        box[0] = self._java(root, kind, value)
        return box

    def _java(self, root: str, kind: JavaObject, value: Value) -> Value:
        match root:
            case "FLOAT" | "DOUBLE":
                return float(value)
            case "CHAR" | "STRING":
                return self._rows.BinaryString.fromString(value)
            case "DECIMAL":
                scaled = self._gateway.jvm.java.math.BigDecimal(str(Decimal(value)))
                precision, scale = kind.getPrecision(), kind.getScale()
                return self._rows.Decimal.fromBigDecimal(scaled, precision, scale)
            case "BINARY" | "BYTES":
                return bytes.fromhex(value)
            case "TIMESTAMP_WITHOUT_TIME_ZONE":
                return self._rows.TimestampNtz.fromMillis(*divmod(value, NANOS_OF_MILLI))
            case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
                return self._rows.TimestampLtz.fromEpochMillis(*divmod(value, NANOS_OF_MILLI))
            case "ARRAY" | "MAP" | "ROW":
                return self._nested(root, kind, value)
            case _:
                return value

    def _nested(self, root: str, kind: JavaObject, value: list[Value]) -> JavaObject:
        match root:
            case "ARRAY":
                kinds = [kind.getElementType()] * len(value)
                return self._rows.GenericArray(self._objects(kinds, value))
            case "MAP":
                return self._map(kind, value)
            case _:
                return self.row(list(kind.getFieldTypes()), value)

    def _map(self, kind: JavaObject, pairs: list[list[Value]]) -> JavaObject:
        kinds = [kind.getKeyType(), kind.getValueType()] * len(pairs)
        return self._rows.GenericMap.of(self._objects(kinds, [v for pair in pairs for v in pair]))


class RowReader:
    """Read Java rows of one type into coded values."""

    def __init__(self, gateway: JavaGateway, row_type: JavaObject) -> None:
        self._rows = gateway.jvm.org.apache.fluss.row
        self._getters = self._getters_of(list(row_type.getFieldTypes()))

    def values(self, row: JavaObject) -> list[Value]:
        """Return the values of a row."""
        return [getter(row) for getter in self._getters]

    def _getters_of(self, kinds: list[JavaObject]) -> list[Decoder]:
        make = self._rows.InternalRow.createFieldGetter
        return [
            _present(make(kind, at).getFieldOrNull, self._decoder(kind))
            for at, kind in enumerate(kinds)
        ]

    def _decoder(self, kind: JavaObject) -> Decoder:
        match kind.getTypeRoot().toString():
            case "FLOAT":
                return lambda value: str(np.float32(value))
            case "CHAR" | "STRING" | "DECIMAL":
                return str
            case "BINARY" | "BYTES":
                return lambda value: bytes(value).hex()
            case "TIMESTAMP_WITHOUT_TIME_ZONE":
                return lambda at: _nanos(at.getMillisecond(), at.getNanoOfMillisecond())
            case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
                return lambda at: _nanos(at.getEpochMillisecond(), at.getNanoOfMillisecond())
            case "ARRAY" | "MAP" | "ROW" as root:
                return self._nested_decoder(root, kind)
            case _:
                return lambda value: value

    def _nested_decoder(self, root: str, kind: JavaObject) -> Decoder:
        match root:
            case "ARRAY":
                return self._list_decoder(kind.getElementType())
            case "MAP":
                return self._map_decoder(kind)
            case _:
                getters = self._getters_of(list(kind.getFieldTypes()))
                return lambda row: [getter(row) for getter in getters]

    def _list_decoder(self, kind: JavaObject) -> Callable[[JavaObject], list[Value]]:
        element = self._rows.InternalArray.createElementGetter(kind)
        decode = self._decoder(kind)

        def values(array: JavaObject) -> list[Value]:
            held = [element.getElementOrNull(array, at) for at in range(array.size())]
            return [None if value is None else decode(value) for value in held]

        return values

    def _map_decoder(self, kind: JavaObject) -> Decoder:
        keys = self._list_decoder(kind.getKeyType())
        values = self._list_decoder(kind.getValueType())
        return lambda held: [
            list(pair)
            for pair in zip(keys(held.keyArray()), values(held.valueArray()), strict=True)
        ]


def _present(get: Decoder, decode: Decoder) -> Decoder:
    def value_of(row: JavaObject) -> Value:
        value = get(row)
        return None if value is None else decode(value)

    return value_of


def _nanos(millis: int, nanos: int) -> int:
    return millis * NANOS_OF_MILLI + nanos
