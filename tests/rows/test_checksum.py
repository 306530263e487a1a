from hypothesis import given
from hypothesis import strategies as st

from headwater.rows.row_bytes import crc32c, crc32c_of_parts
from tests.cases import cases


@cases("kind", [bytes, bytearray, lambda data: memoryview(b"__" + data)[2:]])
def test_the_check_value_of_the_castagnoli_polynomial_is_met(kind):
    assert crc32c(kind(b"123456789")) == 0xE3069283


@given(parts=st.lists(st.binary(max_size=9)))
def test_parts_have_the_checksum_of_their_join(parts):
    assert crc32c_of_parts(map(memoryview, parts)) == crc32c(b"".join(parts))
