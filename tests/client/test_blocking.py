"""Connections that block, against a server of our own and peers that go silent, lie or vanish."""

import os
import socket
import struct
import threading
from contextlib import contextmanager

import pytest

import headwater
from headwater.cluster.blocking import (
    CONNECTIONS_MAX,
    IDLE_S_MAX,
    REDIAL_PAUSE_S,
    BlockingConnections,
)
from headwater.cluster.links import Address
from headwater.errors import DisconnectedError, TableMissingError
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import API_OF_REQUEST, APIS, ApiKey

LIST = APIS[ApiKey.LIST_DATABASES]
INFO = API_OF_REQUEST[pb.GetTableInfoRequest]


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


def answer(kind, request_id, body):
    return struct.pack(">iBi", 5 + len(body), kind, request_id) + body


def databases(*names):
    return pb.ListDatabasesResponse(database_name=names).SerializeToString()


class Peer:
    """Accept connections, greet, then do what it is told with each further request."""

    def __init__(self, behave):
        self._behave = behave
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listening.getsockname())
        self.accepted = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.accepted.append(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        reading = connection.makefile("rb")
        while head := reading.read(4):
            body = reading.read(struct.unpack(">i", head)[0])
            key, _, request_id = struct.unpack_from(">hhi", body)
            if key == ApiKey.API_VERSIONS:
                listed = [pb.ApiVersion(api_key=LIST.key, min_version=0, max_version=0)]
                greeted = pb.ApiVersionsResponse(api_versions=listed).SerializeToString()
                connection.sendall(answer(0, request_id, greeted))
            else:
                self._behave(connection, request_id)

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()
        for each in self.accepted:
            each.close()


@contextmanager
def talking_to(behave, clock=None):
    peer = Peer(behave)
    connections = BlockingConnections(None, timeout_s=5.0, clock=clock or Clock())
    try:
        yield peer, connections
    finally:
        connections.close()
        peer.close()


def ask(connections, address, timeout_s=5.0):
    body = connections.exchange(address, LIST, [b""], timeout_s=timeout_s)
    return None if body is None else list(pb.ListDatabasesResponse.FromString(body).database_name)


@pytest.fixture
def storage(tmp_path):
    with headwater.open(tmp_path / "data", listen=True) as storage:
        yield storage


@pytest.fixture
def connections():
    connections = BlockingConnections(None, timeout_s=5.0, clock=Clock())
    yield connections
    connections.close()


def address_of(storage):
    host, port = storage.address.split(":")
    return Address(host, int(port))


def test_a_server_answers_and_its_errors_are_raised(storage, connections):
    path = pb.TablePath(database_name="fluss", table_name="missing")
    question = pb.GetTableInfoRequest(table_path=path).SerializeToString()

    assert ask(connections, address_of(storage)) == ["fluss"]
    with pytest.raises(TableMissingError, match="missing"):
        connections.exchange(address_of(storage), INFO, [question], timeout_s=5.0)
    assert ask(connections, address_of(storage)) == ["fluss"]


def test_requests_after_each_other_share_a_connection():
    names = iter("abc")

    def reply(connection, request_id):
        connection.sendall(answer(0, request_id, databases(next(names))))

    with talking_to(reply) as (peer, connections):
        answers = [ask(connections, peer.address) for _ in range(3)]

        assert answers == [["a"], ["b"], ["c"]]
        assert len(peer.accepted) == 1


def test_a_large_answer_that_comes_in_pieces_is_whole():
    names = [f"database_{number:06}" for number in range(10_000)]

    def drip(connection, request_id):
        data = answer(0, request_id, databases(*names))
        for start, end in ((0, 2), (2, 5), (5, 40_000), (40_000, len(data))):
            connection.sendall(data[start:end])

    with talking_to(drip) as (peer, connections):
        assert ask(connections, peer.address) == names


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (lambda connection, _: connection.shutdown(socket.SHUT_RDWR), "closed it"),
        (lambda _connection, _: None, "did not answer LIST_DATABASES within 0.2 s"),
        (
            lambda connection, number: connection.sendall(answer(0, number + 1, b"")),
            "response to another request",
        ),
        (lambda connection, _: connection.sendall(struct.pack(">i", -5) + b"x"), "length of -5"),
        (lambda connection, number: connection.sendall(answer(9, number, b"")), "unknown kind"),
    ],
    ids=["gone", "silent", "another answer", "bad length", "unknown kind"],
)
def test_a_broken_connection_is_told_and_replaced(behave, reason):
    turns = iter([behave])

    def reply(connection, request_id):
        once = next(turns, None)
        if once is None:
            connection.sendall(answer(0, request_id, databases("later")))
        else:
            once(connection, request_id)

    clock = Clock()
    with talking_to(reply, clock) as (peer, connections):
        with pytest.raises(DisconnectedError, match=reason):
            ask(connections, peer.address, timeout_s=0.2)
        if "within" in reason:  # Who is silent is not asked again at once.
            assert ask(connections, peer.address) is None
            clock.now += REDIAL_PAUSE_S

        assert ask(connections, peer.address) == ["later"]
        assert len(peer.accepted) == 2


def test_there_are_no_more_connections_than_allowed():
    arrived, go_on = threading.Semaphore(0), threading.Event()

    def wait(connection, request_id):
        arrived.release()
        go_on.wait(10)
        connection.sendall(answer(0, request_id, databases("all")))

    with talking_to(wait) as (peer, connections):
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(ask(connections, peer.address)))
            for _ in range(CONNECTIONS_MAX)
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            arrived.acquire()
        one_too_many = ask(connections, peer.address)
        go_on.set()
        for thread in threads:
            thread.join()

        assert one_too_many is None
        assert answers == [["all"]] * CONNECTIONS_MAX
        assert len(peer.accepted) == CONNECTIONS_MAX


def test_a_connection_that_was_idle_for_long_is_not_used_again():
    clock = Clock()

    def reply(connection, request_id):
        connection.sendall(answer(0, request_id, databases("x")))

    with talking_to(reply, clock) as (peer, connections):
        ask(connections, peer.address)
        clock.now += IDLE_S_MAX + 1
        ask(connections, peer.address)

        assert len(peer.accepted) == 2


def test_a_server_that_cannot_be_reached_is_not_dialled_again_at_once(storage):
    clock = Clock()
    connections = BlockingConnections(None, timeout_s=5.0, clock=clock)
    address = address_of(storage)
    storage.close()

    refused = ask(connections, address)
    with socket.create_server((address.host, address.port)) as listening:
        listening.settimeout(0.1)
        paused = ask(connections, address)
        with pytest.raises(TimeoutError):
            listening.accept()
    connections.close()

    assert refused is paused is None


def test_closing_wakes_who_waits_and_takes_no_more_requests():
    arrived, faults = threading.Event(), []

    def ask_and_note(connections, address):
        try:
            ask(connections, address, timeout_s=30.0)
        except DisconnectedError as fault:
            faults.append(fault)

    with talking_to(lambda _connection, _number: arrived.set()) as (peer, connections):
        thread = threading.Thread(target=ask_and_note, args=[connections, peer.address])
        thread.start()
        arrived.wait(10)
        connections.close()
        thread.join(10)

        assert not thread.is_alive()
        assert len(faults) == 1
        assert ask(connections, peer.address) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_neither_uses_nor_closes_them(storage, connections):
    address = address_of(storage)
    ask(connections, address)

    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        used = ask(connections, address)
        connections.close()
        os._exit(0 if used is None else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert ask(connections, address) == ["fluss"]
