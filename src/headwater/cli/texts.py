"""Arrow columns as columns of text: plain for tables and CSV, quoted for JSON."""

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = r'[\x00-\x1f"\\]'
_CONTROL = r"[\x00-\x1f]"
_NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def plain_texts(column: pa.Array) -> pa.StringArray:
    """Return each value as text, a nested one as JSON; nulls stay null."""
    kind = column.type
    if pa.types.is_nested(kind):
        return _nested_texts(column)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hex_texts(column)
    if pa.types.is_timestamp(kind):
        return pc.replace_substring(pc.cast(column, pa.string()), " ", "T", max_replacements=1)
    return pc.cast(column, pa.string())


def json_texts(column: pa.Array) -> pa.StringArray:
    """Return each value as JSON: numbers and booleans as they are, all others quoted."""
    kind = column.type
    if pa.types.is_floating(kind):
        texts = _float_texts(column)
    elif pa.types.is_nested(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = plain_texts(column)
    elif pa.types.is_string(kind):
        texts = _quoted(_escaped(column))
    else:
        texts = _quoted(plain_texts(column))
    return pc.fill_null(texts, "null")


def json_objects(names: list[str], columns: list[pa.Array]) -> pa.StringArray:
    """Return one JSON object for each row."""
    parts: list[pa.StringArray | str] = []
    for name, column in zip(names, columns, strict=True):
        parts += [f"{',' if parts else '{'}{dumps(name)}:", json_texts(column)]
    return pc.binary_join_element_wise(*parts, "}", "") if parts else pa.array([], pa.string())


def dumps(value: object) -> str:
    """Return compact JSON that keeps letters of all scripts as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _nested_texts(column: pa.Array) -> pa.StringArray:
    kind = column.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        texts = json_objects(names, [pc.struct_field(column, [i]) for i in range(len(names))])
    elif pa.types.is_map(kind):
        texts = _joined(column.offsets, json_objects(["key", "value"], [column.keys, column.items]))
    else:
        texts = _joined(column.offsets, json_texts(column.values))
    return pc.if_else(pc.is_valid(column), texts, None)


def _joined(offsets: pa.Int32Array, elements: pa.StringArray) -> pa.StringArray:
    lists = pa.ListArray.from_arrays(offsets, elements)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")


def _hex_texts(column: pa.Array) -> pa.StringArray:
    # One call over all bytes: every byte becomes two digits, so every offset doubles.
    plain = pc.cast(column, pa.binary())
    offsets = _offsets(plain)
    data = plain.buffers()[2]
    digits = b"" if data is None else bytes(data)[offsets[0] : offsets[-1]].hex().encode()
    return pa.StringArray.from_buffers(
        len(plain),
        pa.py_buffer(((offsets - offsets[0]) * 2).astype(np.int32)),
        pa.py_buffer(digits),
        pc.is_valid(plain).buffers()[1],
    )


def _offsets(column: pa.BinaryArray) -> npt.NDArray[np.int64]:
    if not len(column):
        return np.zeros(1, np.int64)
    found = np.frombuffer(column.buffers()[1], np.int32)
    return found[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _float_texts(column: pa.Array) -> pa.StringArray:
    texts = pc.cast(column, pa.string())
    if pc.all(pc.is_finite(column), min_count=0).as_py():
        return texts
    for plain, quoted in _NOT_FINITE.items():
        texts = pc.if_else(pc.equal(texts, plain), quoted, texts)
    return texts


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        for raw, escaped in _ESCAPES.items():
            texts = pc.replace_substring(texts, raw, escaped)
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        texts = pa.array(map(_without_control, texts.to_pylist()), pa.string())
    return texts


def _without_control(text: str | None) -> str | None:
    """Escape what is left of the control characters; they are rare."""
    if text is None:
        return None
    return "".join(each if each >= " " else f"\\u{ord(each):04x}" for each in text)
