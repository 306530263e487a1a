"""Trying again: what is retried, how long, and what is said at the end."""

import asyncio

import pytest

from headwater.cluster.cluster import Retries
from headwater.config.client import ClientSettings
from headwater.errors import DisconnectedError, TableMissingError, TimedOutError
from tests.clocks import InstantClock


def retries(**settings):
    clock = InstantClock()
    return Retries(ClientSettings(**settings), clock), clock


class Failing:
    """Fail a number of times before returning."""

    def __init__(self, times, fault=None):
        self.left = times
        self.calls = 0
        self.fault = fault or DisconnectedError("gone")

    async def __call__(self):
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.fault
        return "done"


async def test_what_fails_for_now_is_tried_until_it_succeeds():
    subject, _ = retries()
    attempt = Failing(4)

    result = await subject.run(attempt, what="Reading")

    assert (result, attempt.calls) == ("done", 5)


async def test_what_can_never_succeed_is_tried_once():
    subject, _ = retries()
    attempt = Failing(4, TableMissingError("no such table"))

    with pytest.raises(TableMissingError, match="no such table"):
        await subject.run(attempt, what="Reading")

    assert attempt.calls == 1


async def test_the_deadline_ends_it_with_the_last_fault_told():
    subject, clock = retries(deadline_s=3.0)

    with pytest.raises(TimedOutError, match=r"Reading did not succeed within 3 s.*gone"):
        await subject.run(Failing(10_000), what="Reading")

    assert clock.now_s <= 3.0


async def test_pauses_grow_and_have_a_limit():
    subject, clock = retries(backoff_first_s=0.1, backoff_max_s=1.0)

    await subject.run(Failing(10), what="Reading")

    assert all(0.05 <= pause <= 1.0 for pause in clock.slept)
    assert clock.slept[0] <= 0.1
    assert clock.slept[-1] >= 0.5


async def test_an_attempt_that_hangs_is_ended_by_the_deadline():
    subject = Retries(ClientSettings(deadline_s=0.05), RealClock())

    async def hang():
        await asyncio.Event().wait()

    with pytest.raises(TimedOutError, match="Reading"):
        await subject.run(hang, what="Reading")


class RealClock(InstantClock):
    def monotonic(self):
        return asyncio.get_running_loop().time()


def test_a_thousand_failures_do_not_overflow_the_pause():
    subject, _ = retries(backoff_max_s=2.0)

    assert subject.backoff_s(1000) <= 2.0
