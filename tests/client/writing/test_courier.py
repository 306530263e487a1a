"""Which batches share a request."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.bucket import TableBucket
from headwater.wire.limits import WRITES_MAX
from headwater.write.encode import KvLane
from headwater.write.send import Parcel, loads_of

LANES = [KvLane(1, 1, None), KvLane(1, 1, (0, 2))]
BYTES_MAX = 100

parcels = st.builds(
    lambda bucket, lane, size: Parcel(
        TableBucket(1, bucket), LANES[lane], bytes(size), 0.0, lambda answer: None
    ),
    st.integers(0, 3),
    st.integers(0, 1),
    st.integers(1, 150),
)


@given(st.lists(parcels, max_size=20))
def test_batches_of_a_bucket_keep_their_order_and_meet_in_no_request(given):
    loads = loads_of(given, bytes_max=BYTES_MAX)

    sent, wanted = defaultdict(list), defaultdict(list)
    for load in loads:
        assert len({parcel.bucket for parcel in load}) == len(load)
        for parcel in load:
            sent[parcel.bucket].append(parcel)
    for parcel in given:
        wanted[parcel.bucket].append(parcel)
    assert sent == wanted


@given(st.lists(parcels, max_size=20))
def test_a_request_is_of_one_lane_and_not_too_large(given):
    loads = loads_of(given, bytes_max=BYTES_MAX)

    for load in loads:
        assert len({id(parcel.lane) for parcel in load}) == 1
        assert len(load) == 1 or sum(len(parcel.records) for parcel in load) <= BYTES_MAX


def test_batches_for_several_buckets_go_together():
    given = [Parcel(TableBucket(1, at), LANES[0], b"x", 0.0, lambda answer: None) for at in "abc"]

    assert loads_of(given, bytes_max=BYTES_MAX) == [given]


def test_a_request_names_no_more_buckets_than_a_server_takes():
    count = WRITES_MAX + 10
    given = [
        Parcel(TableBucket(1, at), LANES[0], b"x", 0.0, lambda answer: None) for at in range(count)
    ]

    loads = loads_of(given, bytes_max=count)

    assert [len(load) for load in loads] == [WRITES_MAX, 10]
