"""JSON of others is read, or refused with an error that its readers expect."""

import json

import pytest

from headwater.model.type_json import document_of
from tests.cases import cases


@cases("value", [{"a": [1, None, "é"]}, "\U0001f600", "back\\u", 5])
def test_what_is_json_is_read(value):
    for is_ascii in (True, False):
        text = json.dumps(value, ensure_ascii=is_ascii)

        assert document_of(text) == document_of(text.encode()) == value


@cases(
    "text",
    ["", "{", "nul", "[" * 100_000, '{"a":' * 100_000, r'"\ud800"', r'{"\uDFFF": 1}', "9" * 5000],
)
def test_what_is_none_is_refused_as_a_wrong_value(text):
    with pytest.raises(ValueError, match=r"."):
        document_of(text)
    with pytest.raises(ValueError, match=r"."):
        document_of(text.encode())


@cases("data", [b'"\xed\xa0\x80"', '"a"'.encode("utf-16"), b'"\xff"'])
def test_bytes_that_are_no_text_in_utf_8_are_refused(data):
    with pytest.raises(ValueError, match=r"."):
        document_of(data)


def test_a_text_with_half_a_character_is_refused():
    with pytest.raises(ValueError, match=r"."):
        document_of('"\ud800"')
