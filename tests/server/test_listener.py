"""Which clients are dropped for the good of the others."""

import pytest

from headwater.config.server import ServerSettings
from headwater.server.listener import Listener
from tests.server.support import FakeClock


class Client:
    """Be a connection, as far as its unread answers go."""

    def __init__(self, *, stuck_since=None, unsent=0):
        self.stuck_since, self.unsent = stuck_since, unsent
        self.dropped = []

    def unsent_bytes(self):
        return self.unsent

    def abort(self, reason):
        self.dropped.append(reason)


async def serve_nothing(frame, session):
    raise AssertionError


def listening(*clients, **limits):
    settings = ServerSettings(**limits)
    listener = Listener(serve_nothing, settings=settings, clock=FakeClock())
    for client in clients:
        listener.opened(client)
    return listener


@pytest.mark.parametrize(
    ("later", "is_dropped"),
    [
        ({"stuck_since": 1.0, "unsent": 500}, True),
        ({"stuck_since": 1.0, "unsent": 600}, True),
        ({"stuck_since": 1.0, "unsent": 499}, False),
        ({"stuck_since": 2.0, "unsent": 600}, False),
        ({"stuck_since": None, "unsent": 500}, False),
    ],
    ids=["took nothing", "got more", "took some", "was through once", "is not stuck"],
)
async def test_a_client_is_dropped_when_it_took_nothing_between_two_sweeps(later, is_dropped):
    client = Client(stuck_since=1.0, unsent=500)
    listener = listening(client)

    await listener.sweep()
    client.stuck_since, client.unsent = later["stuck_since"], later["unsent"]
    await listener.sweep()

    assert bool(client.dropped) is is_dropped


async def test_the_client_that_is_stuck_longest_pays_for_all():
    early, late, quick = Client(stuck_since=1.0), Client(stuck_since=2.0), Client()
    listener = listening(early, late, quick, unsent_bytes_max=100)
    late.unsent, quick.unsent = 90, 10

    listener.unsent_grew()
    within = bool(early.dropped)
    early.unsent = 1
    listener.unsent_grew()

    assert not within
    assert [bool(each.dropped) for each in (early, late, quick)] == [True, False, False]


async def test_a_client_that_comes_while_the_server_stops_is_turned_away():
    listener, client = listening(), Client()

    await listener.stop()
    listener.opened(client)

    assert client.dropped == ["the server stops"]
