"""Offsets that producers register: kept for each user apart, and for as long as they say."""

import pytest

from headwater.errors import CorruptFileError
from headwater.model.bucket import TableBucket
from headwater.server.catalog.producers import registered_from_json
from tests.cases import cases

ENDS = {TableBucket(1, 0, None): 5, TableBucket(1, 1, 7): 0}


def test_each_user_has_producers_of_their_own(catalog):
    assert catalog.producers.register("job", ENDS, owner="ada", ttl_ms=None)
    assert catalog.producers.register("job", {}, owner="ben", ttl_ms=None)

    catalog.producers.delete("job", owner="ben")

    found = catalog.producers.find("job", owner="ada")
    assert found is not None
    assert found.ends == ENDS
    assert catalog.producers.find("job", owner="ben") is None
    assert catalog.producers.find("job", owner="") is None


def test_registering_clears_what_has_expired(catalog, clock):
    catalog.producers.register("old", ENDS, owner="ada", ttl_ms=5)
    clock.time_ms += 5

    catalog.producers.register("new", {}, owner="ben", ttl_ms=None)

    assert list(catalog.producers._store.notes_under("producer_offsets:")) == [
        'producer_offsets:["ben", "new"]'
    ]


@cases("text", ["{", "[]", "{}", '{"expires_ms": 1, "ends": [[1]]}'])
def test_damaged_offsets_are_noticed(text):
    with pytest.raises(CorruptFileError):
        registered_from_json(text)
