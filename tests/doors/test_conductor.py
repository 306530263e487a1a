"""Doors are opened in order and closed together; what would expose rows is refused."""

import asyncio
from pathlib import Path

import pytest

from headwater.doors.conductor import DoorListener, check_listener, keep_open
from headwater.errors import ConflictError, InvalidOptionError
from tests.cases import cases


class FakeDoor:
    def __init__(self, name, events, *, fault=None):
        self.name = name
        self._events = events
        self._fault = fault

    async def start(self):
        if self._fault is not None:
            raise self._fault
        self._events.append(f"start {self.name}")
        return "here"

    async def stop(self):
        self._events.append(f"stop {self.name}")


async def test_doors_are_closed_in_reverse_order_when_asked_to():
    events, stop = [], asyncio.Event()
    stop.set()

    await keep_open([FakeDoor("a", events), FakeDoor("b", events)], stop=stop)

    assert events == ["start a", "start b", "stop b", "stop a"]


async def test_a_door_that_cannot_open_closes_the_others():
    events = []
    doors = [FakeDoor("a", events), FakeDoor("b", events, fault=ConflictError("in use"))]

    with pytest.raises(ConflictError, match="in use"):
        await keep_open(doors)

    assert events == ["start a", "stop a"]


@cases(
    "listener,has_users,message",
    [
        (DoorListener(port=70_000), True, "not a port"),
        (DoorListener(certificate=Path("c.pem")), True, "belong together"),
        (DoorListener(host="0.0.0.0"), False, "Everybody"),
        (DoorListener(host="0.0.0.0"), True, "without encryption"),
        (DoorListener(host="db.example"), False, "Everybody"),
    ],
)
def test_a_listener_that_would_expose_rows_is_refused(listener, has_users, message):
    with pytest.raises(InvalidOptionError, match=message):
        check_listener(listener, insecure=False, has_users=has_users)


def test_what_stays_on_the_machine_or_is_asked_for_is_allowed():
    check_listener(DoorListener(host="::1"), insecure=False, has_users=False)
    check_listener(DoorListener(host="0.0.0.0"), insecure=True, has_users=False)
