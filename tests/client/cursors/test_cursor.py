"""One cursor after another: what is given, what is committed, what comes again."""

import pytest

from headwater.client.cursors.source import CursorOptions, check_cursor_name
from headwater.errors import ClosedError, CursorLostError, InvalidNameError, RequestError
from headwater.read.offsets import Place
from tests.cases import cases
from tests.client.cursors.reading import Desk, MemoryLog, numbers_in

LEASE_S = 10.0


def desk(*rows: int, buckets: int = 1, **more) -> Desk:
    log = MemoryLog({number: [] for number in range(buckets)}, **more)
    log.append(0, *rows)
    return Desk(log)


async def test_a_cursor_goes_on_where_the_one_before_it_stopped():
    group = desk(1, 2, 3)
    async with group.cursor() as cursor:
        first = numbers_in(await cursor.poll(0))
    group.log.append(0, 4, 5)

    async with group.cursor() as cursor:
        second = numbers_in(await cursor.poll(0))

    assert (first, second) == ([1, 2, 3], [4, 5])


async def test_what_a_failing_caller_was_given_last_comes_again():
    group = desk(1, 2)

    async def failing():
        async with group.cursor() as cursor:
            await cursor.poll(0)
            group.log.append(0, 3)
            await cursor.poll(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()

    async with group.cursor() as cursor:
        again = numbers_in(await cursor.poll(0))

    assert again == [3]


async def test_a_batch_in_the_hands_of_the_caller_is_not_committed_yet():
    group = desk(1, 2, 3, 4, batch_rows=2)
    cursor = await group.cursor().join()

    async for _ in cursor:
        break
    await group.clock.advance(LEASE_S / 2)
    await cursor.leave(is_done=False)

    async with group.cursor() as other:
        assert numbers_in(await other.poll(0)) == [1, 2, 3, 4]


async def test_leaving_a_loop_between_batches_loses_none_of_those_that_were_read():
    group = desk(1, 2, 3, 4, batch_rows=2)
    async with group.cursor() as cursor:
        async for batch in cursor:
            assert numbers_in([batch]) == [1, 2]
            break

    async with group.cursor() as cursor:
        assert numbers_in(await cursor.poll(0)) == [3, 4]


async def test_a_poll_after_a_loop_gives_what_the_loop_had_left():
    group = desk(1, 2, 3, 4, batch_rows=2)
    async with group.cursor() as cursor:
        await anext(cursor)

        assert numbers_in(await cursor.poll(0)) == [3, 4]


async def test_without_auto_commit_only_commit_counts():
    group = desk(1, 2)
    async with group.cursor(auto_commit=False) as cursor:
        await cursor.poll(0)
        await cursor.commit()
        group.log.append(0, 3)
        await cursor.poll(0)

    async with group.cursor(auto_commit=False) as cursor:
        assert numbers_in(await cursor.poll(0)) == [3]


async def test_a_part_of_what_was_given_can_be_committed():
    group = desk(1, 2, 3)
    async with group.cursor(auto_commit=False) as cursor:
        await cursor.poll(0)
        await cursor.commit({Place(None, 0): 2})

    async with group.cursor() as cursor:
        assert numbers_in(await cursor.poll(0)) == [3]


@cases("offset", [1, 4])
async def test_a_position_before_the_last_commit_or_behind_what_was_given_is_refused(offset):
    group = desk(1, 2, 3)
    async with group.cursor(auto_commit=False) as cursor:
        await cursor.poll(0)
        await cursor.commit({Place(None, 0): 2})

        with pytest.raises(RequestError, match="cannot be committed"):
            await cursor.commit({Place(None, 0): offset})


async def test_a_cursor_that_begins_at_the_end_keeps_that_beginning():
    group = desk(1, 2)
    async with group.cursor(start="latest"):
        pass
    group.log.append(0, 3)

    async with group.cursor(start="latest") as cursor:
        assert numbers_in(await cursor.poll(0)) == [3]


async def test_a_bucket_that_comes_later_is_read_from_its_beginning():
    group = desk(1, 2)
    async with group.cursor(start="latest") as cursor:
        group.log.append(1, 10, 11)
        await group.clock.advance(LEASE_S / 2)

        assert numbers_in(await cursor.poll(0)) == [10, 11]
        assert cursor.assigned == (Place(None, 0), Place(None, 1))


async def test_two_members_share_the_buckets_and_read_each_row_once():
    group = desk(buckets=4)
    async with group.cursor() as one, group.cursor() as other:
        for _ in range(4):
            await group.clock.advance(1)
            await one.poll(0)
            await other.poll(0)
        for bucket in range(4):
            group.log.append(bucket, bucket)

        rows = [numbers_in(await cursor.poll(0)) for cursor in (one, other)]

    assert sorted(map(len, rows)) == [2, 2]
    assert sorted(rows[0] + rows[1]) == [0, 1, 2, 3]


async def test_who_was_replaced_is_told_when_it_commits():
    group = desk(1, 2)
    away = await group.cursor(auto_commit=False).join()
    await away.poll(0)
    await away._tasks.stop()
    async with group.cursor() as other:
        for _ in range(6):
            await group.clock.advance(LEASE_S / 3)
            await other.poll(0)

        with pytest.raises(CursorLostError, match="bucket 0"):
            await away.commit()
        assert away.assigned == ()
        await away.commit()


async def test_a_member_that_was_away_but_not_replaced_goes_on():
    group = desk(1, 2)
    async with group.cursor(auto_commit=False) as cursor:
        await cursor.poll(0)
        group.clock.now_s += LEASE_S * 3
        group.log.append(0, 3)

        assert numbers_in(await cursor.poll(0)) == [3]
        await cursor.commit()


async def test_a_member_that_does_not_poll_for_too_long_is_replaced():
    group = desk(1, 2)
    async with group.cursor(idle_s=30, auto_commit=False), group.cursor() as other:
        for _ in range(20):
            await group.clock.advance(LEASE_S / 3)
            await other.poll(0)

        assert other.assigned == (Place(None, 0),)


async def test_a_busy_member_keeps_its_buckets():
    group = desk(1, 2)
    async with group.cursor() as busy, group.cursor() as other:
        for _ in range(20):
            await group.clock.advance(LEASE_S / 3)
            await other.poll(0)

        assert busy.assigned == (Place(None, 0),)
        assert other.assigned == ()


async def test_positions_tell_what_was_given():
    group = desk(1, 2, 3)
    async with group.cursor() as cursor:
        assert cursor.positions == {Place(None, 0): 0}
        await cursor.poll(0)

        assert cursor.positions == {Place(None, 0): 3}


async def test_a_cursor_that_was_left_gives_nothing():
    group = desk(1)
    async with group.cursor() as cursor:
        pass

    with pytest.raises(ClosedError):
        await cursor.poll(0)


@cases("name", ["", "a b", "ä", "x" * 201, "a/b"])
def test_names_that_no_cursor_can_have_are_refused(name):
    with pytest.raises(InvalidNameError):
        check_cursor_name(name)


@cases("options", [{"lease_s": 0}, {"commit_interval_s": -1}, {"idle_s": 1}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(RequestError):
        CursorOptions(**options)
