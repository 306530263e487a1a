"""Rows by key, where hashes tell keys apart and where they do not."""

import itertools

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.kv import state as module
from headwater.kv.heap import ABSENT, LENGTH_BYTES, Heap, segment_of, values_of
from headwater.kv.index import HashIndex, PrefixIndex
from headwater.kv.state import KvState
from headwater.rows.kv_batch import build_records
from headwater.rows.row_bytes import PADDING, RowBytes
from tests.choices import examples

KEYS = [bytes([prefix, number]) for prefix in range(3) for number in range(6)]
batches = st.dictionaries(st.sampled_from(KEYS), st.booleans(), min_size=1, max_size=8)


def weak(bits):
    """Return hashes of a few bits, at both ends of the table."""
    mask = (1 << bits) - 1 << 64 - bits
    strong, strong_one = module.hash_keys, module.hash_key
    return (
        lambda keys, *, seed: strong(keys, seed=seed) & np.uint64(mask),
        lambda key, *, seed: strong_one(key, seed=seed) & mask,
    )


class StateMachine(RuleBasedStateMachine):
    @initialize(bits=st.sampled_from((1, 2, 64)), has_prefixes=st.booleans())
    def start(self, bits, has_prefixes):
        many, one = weak(bits)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(module, "hash_keys", many)
        self.patch.setattr(module, "hash_key", one)
        self.state = KvState(3, Heap(200), prefixes=PrefixIndex() if has_prefixes else None)
        self.model = {}
        self.count = 0

    def teardown(self):
        if hasattr(self, "patch"):
            self.patch.undo()

    def row(self):
        self.count += 1
        return str(self.count).encode() * (1 + self.count % 5)

    @rule(batch=batches)
    def write(self, batch):
        """Put rows of some keys and remove those of others, in one step."""
        state, groups = self.state, self.state.group(RowBytes.of(list(batch)))
        found = state.reserve(state.find_groups(groups))
        held = [self.model.get(key) for key in groups.keys.to_list()]
        assert found.is_held.tolist() == [row is not None for row in held]
        assert found.records.rows.to_list() == [row for row in held if row is not None]
        kept = np.array([at for at, key in enumerate(groups.keys.to_list()) if batch[key]], int)
        rows = [self.row() for _ in kept]
        data, starts = build_records(groups.keys.take(kept), RowBytes.of(rows))
        locations = np.full(len(groups.keys), ABSENT, np.int64)
        sizes = np.zeros(len(groups.keys), np.int64)
        data = data[: len(data) - PADDING]
        if rows:
            locations[kept] = state.heap.append(data, schema_id=1) + starts
            sizes[kept] = np.diff(np.append(starts, len(data)))

        state.apply(found, locations, sizes=sizes, prefix_hashes=self.prefix_hashes(groups.keys))

        self.model = {key: row for key, row in self.model.items() if batch.get(key, True)}
        self.model |= zip(groups.keys.take(kept).to_list(), rows, strict=True)

    def prefix_hashes(self, keys):
        if self.state.prefixes is None:
            return None
        return self.state.hash(RowBytes(keys.data, keys.starts, keys.starts + 1))

    @rule(data=st.data())
    def move(self, data):
        """Copy the rows of some segments and point to the copies, as compaction does."""
        hashes, locations = self.state.entries()
        numbers = data.draw(st.sets(st.sampled_from(sorted(self.state.heap.segments) or [0])))
        chosen = np.isin(segment_of(locations), np.array(sorted(numbers), np.int64))
        hashes, locations = hashes[chosen], locations[chosen]
        if not len(locations):
            return
        copied, starts = self.state.heap.view().copy(locations)
        self.state.heap.seal()
        after = self.state.heap.append(copied, schema_id=1) + starts[:-1]

        moved = self.state.move(hashes, before=locations, after=after)

        assert moved.all()
        self.state.heap.account(locations, np.diff(starts), sign=-1)
        self.state.heap.account(after, np.diff(starts), sign=1)

    @rule()
    def save_and_load(self):
        state = self.state
        prefixes = None if state.prefixes is None else PrefixIndex(*state.prefixes.arrays())
        index = HashIndex.of(*state.index.entries())
        self.state = KvState(state.seed, state.heap, index, dict(state.collided), prefixes)

    @invariant()
    def it_holds_what_the_dict_holds(self):
        if not hasattr(self, "state"):
            return
        found = self.state.find(RowBytes.of(KEYS))
        values = iter(values_of(found.records).to_list())
        held = [next(values)[2:] if is_held else None for is_held in found.is_held.tolist()]
        assert held == [self.model.get(key) for key in KEYS]
        ones = [self.state.find_one(key) for key in KEYS]
        assert [one and one[1][2:] for one in ones] == held
        assert [one[0] if one else ABSENT for one in ones] == found.locations.tolist()
        assert self.state.row_count == len(self.model)

    @invariant()
    def it_finds_keys_by_their_start(self):
        if not hasattr(self, "state"):
            return
        ways = {False, self.state.prefixes is not None}
        for prefix, is_indexed in itertools.product(range(3), ways):
            found = self.state.find_prefix(bytes([prefix]), is_indexed=is_indexed)
            expected = sorted(key for key in self.model if key[0] == prefix)
            assert found.keys.to_list() == expected
            assert found.records.rows.to_list() == [self.model[key] for key in expected]

    @invariant()
    def it_counts_what_lives(self):
        if not hasattr(self, "state"):
            return
        view, locations = self.state.view()
        assert len(set(locations.tolist())) == len(self.model)
        sizes = view.lengths(locations) + LENGTH_BYTES
        live = np.bincount(segment_of(locations), weights=sizes, minlength=1)
        for number, segment in self.state.heap.segments.items():
            assert segment.live_bytes == (live[number] if number < len(live) else 0)


StateMachine.TestCase.settings = settings(max_examples=examples(40), deadline=None)
TestAStateBehavesLikeADict = StateMachine.TestCase


def test_the_memory_of_the_index_is_bounded_by_the_number_of_keys():
    count = 100_000
    keys = RowBytes.of([number.to_bytes(8, "little") for number in range(count)])
    state = KvState(3, Heap(1 << 20))
    found = state.reserve(state.find_groups(state.group(keys)))

    locations = np.arange(count, dtype=np.int64)
    state.apply(found, locations, sizes=np.zeros(count, np.int64))

    assert state.row_count == count
    assert state.index_bytes / count < 40
