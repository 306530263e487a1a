"""Whatever an object store does, what was committed is read back, and only one owner goes on."""

import random
from contextlib import contextmanager

import pytest

from headwater.errors import MissingError, RemoteTakenError
from headwater.remote import shipper as shipping
from headwater.remote.history import newest_tree, whole_tree
from headwater.remote.objects import CloudObjects, DirectoryObjects
from headwater.remote.plan import pieces_kept
from headwater.remote.proof import prove
from headwater.remote.shipper import Shipper
from headwater.remote.tree import ObjectPiece, Tree, commit_key
from headwater.runtime.clock import SystemClock, chance_from
from tests.cases import cases
from tests.choices import examples
from tests.remote.faulty import FaultyObjects, MemoryObjects
from tests.remote.storage import FakeStorage, contents

STORAGE_ID = "storage"


class SteppingClock(SystemClock):
    """A clock that goes on a second with each look."""

    now = 1_000_000

    def now_ms(self) -> int:
        self.now += 1000
        return self.now


def shipper_of(objects, tree=None, *, clock=None, history_ms=3_600_000) -> Shipper:
    return Shipper(
        objects,
        newest_tree(objects) if tree is None else tree,
        clock=clock or SteppingClock(),
        pause=lambda _: True,
        history_ms=history_ms,
    )


def owner_of(objects, name="a", **named) -> Shipper:
    shipper = shipper_of(objects, **named)
    shipper.claim(name, storage_id=STORAGE_ID)
    return shipper


def test_what_was_shipped_is_read_back_as_it_was_at_every_step():
    objects, storage = MemoryObjects(), FakeStorage(random.Random(1))
    shipper = owner_of(objects)

    for step in range(60):
        storage.change()
        shipper.ship(storage.cut(step), storage.open)

        assert contents(objects, whole_tree(objects)) == storage.files


def test_an_earlier_moment_is_read_back_from_before_a_base_and_after_it(monkeypatch):
    monkeypatch.setattr(shipping, "BASE_EVERY", 8)
    objects, storage = MemoryObjects(), FakeStorage(random.Random(2))
    shipper, moments = owner_of(objects), {}
    for _ in range(50):
        storage.change()
        at_ms = shipper._clock.now_ms()
        shipper.ship(storage.cut(at_ms), storage.open)
        moments[at_ms] = dict(storage.files)

    for at_ms, files in moments.items():
        assert contents(objects, whole_tree(objects, until_ms=at_ms)) == files


def test_objects_that_no_moment_of_the_history_needs_are_deleted(monkeypatch):
    monkeypatch.setattr(shipping, "BASE_EVERY", 8)
    objects, storage = MemoryObjects(), FakeStorage(random.Random(3))
    shipper = owner_of(objects, history_ms=20_000)
    for _ in range(300):
        storage.change(bytes_max=300)
        if storage.step % 10 == 0:
            storage.files.clear()
        shipper.ship(storage.cut(shipper._clock.now_ms()), storage.open)

    assert len(objects.held) < 80
    assert contents(objects, whole_tree(objects)) == storage.files
    with pytest.raises(MissingError, match="goes back to"):
        whole_tree(objects, until_ms=1_010_000)


def test_a_server_that_was_taken_over_ships_nothing_more():
    objects, storage = MemoryObjects(), FakeStorage(random.Random(4))
    old = owner_of(objects, "old")
    storage.change()
    old.ship(storage.cut(1), storage.open)
    owner_of(objects, "new")

    storage.change()
    with pytest.raises(RemoteTakenError, match="owner 2; this one was 1"):
        old.ship(storage.cut(2), storage.open)

    with pytest.raises(RemoteTakenError):
        old.check()


@contextmanager
def small_limits(monkeypatch):
    """Take every path with little data: packs, large pieces, commits in between, bases."""
    for name, value in (
        ("SMALL_BYTES", 2000),
        ("PACK_BYTES_MAX", 3000),
        ("COMMIT_BYTES_MAX", 4000),
        ("BASE_EVERY", 5),
        ("UPLOADS", 1),
        ("READ_BYTES", 700),
    ):
        monkeypatch.setattr(shipping, name, value)
    yield


@cases("seed", range(examples(120)))
def test_faults_of_the_store_lose_nothing_that_was_committed(monkeypatch, seed):
    chance = random.Random(seed)
    objects, storage = FaultyObjects(seed, share=0.15), FakeStorage(chance)
    with small_limits(monkeypatch), chance_from(random.Random(seed)):
        objects.share, share = 0, objects.share
        shipper, name = owner_of(objects, history_ms=10_000), 0
        for _ in range(25):
            objects.share = share
            storage.change(bytes_max=2500)
            shipper.ship(storage.cut(shipper._clock.now_ms()), storage.open)
            objects.share = 0
            assert contents(objects, whole_tree(objects)) == storage.files
            if chance.random() < 0.1:  # The process dies, and another one goes on.
                name += 1
                shipper = owner_of(objects, str(name), clock=shipper._clock, history_ms=10_000)


def two_servers(objects: FaultyObjects, seed: int) -> None:
    """Let two servers ship in turns; the second took over, so the first must be stopped."""
    chance, share = random.Random(seed), objects.share
    storages = [FakeStorage(random.Random(seed)), FakeStorage(random.Random(seed + 1))]
    objects.share = 0
    shippers = [owner_of(objects, "0")]
    shippers.append(owner_of(objects, "1", clock=shippers[0]._clock))
    objects.share = share
    for _ in range(20):
        who = chance.randint(0, 1)
        storages[who].change()
        cut = storages[who].cut(shippers[who]._clock.now_ms())
        try:
            shippers[who].ship(cut, storages[who].open)
        except RemoteTakenError:
            assert who == 0
        else:
            assert who == 1
    objects.share = 0
    assert contents(objects, whole_tree(objects)) == storages[1].files


@cases("seed", range(examples(60)))
def test_of_two_servers_that_ship_at_the_same_time_only_one_goes_on(monkeypatch, seed):
    with small_limits(monkeypatch), chance_from(random.Random(seed)):
        two_servers(FaultyObjects(seed, share=0.2), seed)


class OverwritingObjects(FaultyObjects):
    """Planted: a store that ignores the condition of a put."""

    def create(self, key: str, content: bytes) -> bool:
        self.held[key] = content
        return True


class ForgettingShipper(Shipper):
    """Planted: the commit comes before the bytes that it names."""

    def _put(self, source, attempt, shipment):
        piece = super()._put(source, attempt, shipment)
        del self._objects.held[piece.key]
        return piece


def test_a_store_that_overwrites_commits_is_found_out():
    with pytest.raises(AssertionError):
        two_servers(OverwritingObjects(1, share=0.0), 1)


def test_a_commit_that_names_bytes_that_are_not_there_is_found_out(monkeypatch):
    objects, storage = MemoryObjects(), FakeStorage(random.Random(5))
    with small_limits(monkeypatch):
        shipper = ForgettingShipper(
            objects, Tree(), clock=SteppingClock(), pause=lambda _: True, history_ms=1000
        )
        shipper.claim("a", storage_id=STORAGE_ID)
        storage.files["1/0", "0.log"] = bytes(5000)
        shipper.ship(storage.cut(1), storage.open)

    assert any("lacks bytes" in each for each in prove(objects).findings)


def test_a_lost_answer_to_a_commit_is_no_other_server():
    objects, storage = MemoryObjects(), FakeStorage(random.Random(6))
    shipper, create = owner_of(objects), objects.create
    objects.create = lambda key, content: create(key, content) and False

    storage.change()
    shipper.ship(storage.cut(1), storage.open)

    assert contents(objects, whole_tree(objects)) == storage.files


def test_a_file_that_is_not_what_was_shipped_before_is_shipped_whole():
    objects, storage = MemoryObjects(), FakeStorage(random.Random(7))
    storage.files["1/0", "0.log"] = b"a" * 100
    shipper = owner_of(objects)
    shipper.ship(storage.cut(1), storage.open)

    storage.files["1/0", "0.log"] = b"b" * 150
    shipper.ship(storage.cut(2), storage.open)

    assert contents(objects, whole_tree(objects))["1/0", "0.log"] == b"b" * 150


def test_a_log_that_grows_byte_by_byte_has_few_pieces_and_is_shipped_a_few_times():
    sizes: list[int] = []
    shipped = 0
    for _ in range(20_000):
        pieces = [ObjectPiece("k", 0, size, 0) for size in sizes]
        kept = pieces_kept(pieces, 100)
        added = 100 + sum(sizes[kept:])
        sizes, shipped = [*sizes[:kept], added], shipped + added

    assert len(sizes) < 100
    assert shipped < 6 * 20_000 * 100


def test_a_copy_counts_once_all_of_it_is_there(monkeypatch):
    objects, storage = MemoryObjects(), FakeStorage(random.Random(8))
    with small_limits(monkeypatch):
        storage.files.update({("1/0", f"{n}.log"): bytes(3000) for n in range(5)})
        shipper = owner_of(objects)
        with pytest.raises(MissingError, match="no complete copy"):
            whole_tree(objects)

        shipper.ship(storage.cut(1), storage.open)

    assert shipper.tree.number > 3
    objects.held.pop(commit_key(shipper.tree.number))
    with pytest.raises(MissingError, match="no complete copy"):
        whole_tree(objects)


# The seam to object stores: every kind holds the same contract.


def directory(tmp_path):
    return DirectoryObjects(tmp_path / "objects")


def memory(_):
    store = pytest.importorskip("obstore.store")
    return CloudObjects(store.MemoryStore(), address="memory")


def local(tmp_path):
    store = pytest.importorskip("obstore.store")
    return CloudObjects(store.LocalStore(tmp_path / "local", mkdir=True), address="local")


def fake(_):
    return MemoryObjects()


@cases("make", [directory, memory, local, fake])
def test_an_object_store_does_what_shipping_rests_on(tmp_path, make):
    objects = make(tmp_path)

    assert objects.read("a/none") is None
    assert objects.create("a/1", b"first")
    assert not objects.create("a/1", b"second")
    objects.put("b/2", iter((b"two", b"parts")))
    objects.put("b/2", (b"twoparts",))

    assert objects.read("a/1") == b"first"
    assert objects.read("b/2", start=3, length=100) == b"parts"
    assert objects.read("b/2", start=1, length=2) == b"wo"
    assert dict(objects.listed("b/")) == {"b/2": 8}
    objects.delete(["b/2", "b/none"])
    assert objects.read("b/2") is None
    assert dict(objects.listed("b/")) == {}


def test_a_tree_before_the_first_commit_is_empty():
    assert newest_tree(MemoryObjects()) == Tree()
