"""The distinct keys of a batch, also where hashes do not tell them apart."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.kv.hashes import group_keys
from headwater.rows.row_bytes import RowBytes

keys = st.lists(st.sampled_from([b"", b"a", b"b", b"ab", b"abc" * 9, b"abd" * 9]), max_size=12)
hashes = st.sampled_from([lambda key: 1, len, lambda key: sum(key) * 2**50])


@given(keys, hashes)
def test_every_record_is_numbered_by_its_key_and_every_key_occurs_once(values, hashed):
    packed = RowBytes.of(values)

    groups = group_keys(packed, np.array([hashed(value) for value in values], np.uint64))

    distinct = groups.keys.to_list()
    assert [distinct[number] for number in groups.key_of.tolist()] == values
    assert sorted(distinct) == sorted(set(values))
    assert groups.hashes.tolist() == [hashed(key) for key in distinct]
    assert groups.first.tolist() == [values.index(key) for key in distinct]
    if len(set(groups.hashes.tolist())) < len(distinct):
        assert groups.share_hashes
