"""How many nodes and buffers a column takes in a message, and what a column of nulls holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import UnsupportedError

_OFFSET_BYTES = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """Count the nodes and buffers of one column, children included."""

    node_count: int
    buffer_count: int

    def __add__(self, other: "Shape") -> "Shape":
        return Shape(self.node_count + other.node_count, self.buffer_count + other.buffer_count)


@dataclass(frozen=True, slots=True)
class NullColumn:
    """Describe a column without values; all bytes of its buffers are zero."""

    nodes: tuple[tuple[int, int], ...]
    buffer_lengths: tuple[int, ...]


_NOTHING = Shape(0, 0)
_STRUCT = Shape(1, 1)
_FIXED = Shape(1, 2)
_LIST = Shape(1, 2)
_TEXT = Shape(1, 3)


def shape_of(data_type: pa.DataType) -> Shape:
    """Return the shape of a column of this type."""
    own = _own_shape(data_type)
    return sum((shape_of(child) for child in _children(data_type)), own)


def shape_of_all(types: Sequence[pa.DataType]) -> Shape:
    """Return the shape of columns that follow each other."""
    return sum((shape_of(data_type) for data_type in types), _NOTHING)


def struct_members(types: Sequence[pa.DataType]) -> list[tuple[int, int]]:
    """Return the node of each struct field with the node of its struct, over all columns."""
    pairs: list[tuple[int, int]] = []
    position = 0
    for data_type in types:
        position = _collect_members(data_type, position, pairs)
    return pairs


def _collect_members(data_type: pa.DataType, position: int, pairs: list[tuple[int, int]]) -> int:
    child_position = position + 1
    for child in _children(data_type):
        if pa.types.is_struct(data_type):
            pairs.append((child_position, position))
        child_position = _collect_members(child, child_position, pairs)
    return child_position


def null_column(data_type: pa.DataType, row_count: int) -> NullColumn:
    """Describe a column of this type that holds only nulls."""
    own = _null_buffers(data_type, row_count)
    # A null list holds no elements, but a null struct still has a slot in each of its fields.
    child_rows = row_count if pa.types.is_struct(data_type) else 0
    children = [null_column(child, child_rows) for child in _children(data_type)]
    return NullColumn(
        nodes=((row_count, row_count), *(node for child in children for node in child.nodes)),
        buffer_lengths=(*own, *(size for child in children for size in child.buffer_lengths)),
    )


def _null_buffers(data_type: pa.DataType, row_count: int) -> tuple[int, ...]:
    validity = (row_count + 7) // 8
    offsets = (row_count + 1) * _OFFSET_BYTES
    match _own_shape(data_type):
        case shape if shape == _STRUCT:
            return (validity,)
        case shape if shape == _TEXT:
            return (validity, offsets, 0)
        case _ if _children(data_type):
            return (validity, offsets)
        case _:
            return (validity, (row_count * data_type.bit_width + 7) // 8)


def _own_shape(data_type: pa.DataType) -> Shape:
    if pa.types.is_struct(data_type):
        return _STRUCT
    if pa.types.is_list(data_type) or pa.types.is_map(data_type):
        return _LIST
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _TEXT
    if _has_fixed_width(data_type):
        return _FIXED
    raise UnsupportedError(f"Columns of the Arrow type {data_type} cannot be stored.")


def _has_fixed_width(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_primitive(data_type)
        or pa.types.is_fixed_size_binary(data_type)
        or pa.types.is_decimal128(data_type)
    )


def _children(data_type: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(data_type):
        return [field.type for field in data_type]
    if pa.types.is_map(data_type):
        entries = [data_type.key_field, data_type.item_field]
        return [pa.struct(entries)]
    if pa.types.is_list(data_type):
        return [data_type.value_type]
    return []
