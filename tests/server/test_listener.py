"""Which clients are dropped for the good of the others."""

import pytest

from headwater.config.server import ServerSettings
from headwater.server.connection import Session
from headwater.server.listener import Listener
from headwater.server.logins import network_of
from tests.server.support import FakeClock


class Client:
    """Be a connection, as far as its unread answers go."""

    def __init__(self, *, stuck_since=None, unsent=0, address="192.0.2.1", has_asked=False):
        self.stuck_since, self.unsent = stuck_since, unsent
        self.session = Session("?", "", 0, serve_nothing, address=address)
        self.has_asked = has_asked
        self.guest = None
        self.network = network_of(address)
        self.dropped = []

    def unsent_bytes(self):
        return self.unsent

    def abort(self, reason):
        self.dropped.append(reason)

    turn_away = abort


async def serve_nothing(frame, session):
    raise AssertionError


def listening(*clients, needs_login=False, **limits):
    listener = Listener(
        serve_nothing,
        settings=ServerSettings(**limits),
        clock=FakeClock(),
        needs_login=needs_login,
    )
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

    assert client.dropped == ["the server is stopping"]


async def test_the_address_with_most_strangers_makes_room_and_a_login_on_its_way_stays():
    busy = Client(address="192.0.2.9", has_asked=True)
    alone, crowd = Client(), [Client(address="192.0.2.9") for _ in range(3)]
    newcomer = Client(address="198.51.100.1")

    listening(alone, busy, *crowd, newcomer, needs_login=True, login_connections_max=5)

    assert [each for each in (alone, busy, *crowd, newcomer) if each.dropped] == [crowd[0]]


async def test_an_address_with_too_many_strangers_loses_its_oldest_one():
    others = [Client(address=f"2001:db8::{number}") for number in range(3)]
    elsewhere = Client()

    listener = listening(elsewhere, *others, needs_login=True, login_connections_per_address_max=2)

    assert [bool(each.dropped) for each in (elsewhere, *others)] == [False, True, False, False]
    listener.logged_in(others[2])
    listener.opened(late := Client(address="2001:db8::9"))
    assert not others[1].dropped
    assert not late.dropped


async def test_logins_beyond_the_limit_are_turned_away_and_strangers_do_not_count():
    clients = [Client(address=f"192.0.2.{number}") for number in range(4)]
    listener = listening(*clients, needs_login=True, connections_max=2)

    for client in clients[:3]:
        listener.logged_in(client)

    assert [bool(each.dropped) for each in clients] == [False, False, True, False]
