"""Whatever becomes of attempts, a table holds every epoch once."""

import asyncio
import os
import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headwater import aio
from headwater.epochs import batches as cut
from tests.client.epochs.attempts import Course, Cut, attempt

# A story has some hundred writes that are synced to disk; `make torture` tells many more.
EXAMPLES = 60 if "HEADWATER_RANDOM" in os.environ else 6
SCHEMA = {"id": "BIGINT", "day": "STRING", "amount": "BIGINT"}
TABLES = {
    "log": {"bucket_by": "id", "buckets": 2},
    "any_bucket": {"partition_by": "day", "buckets": 2},
    "sum": {
        "primary_key": ["id", "day"],
        "partition_by": "day",
        "buckets": 2,
        "options": {"table.merge-engine": "aggregation", "fields.amount.agg": "sum"},
    },
}

rows = st.tuples(st.integers(0, 6), st.sampled_from(["mon", "tue"]), st.integers(-100, 100))
courses = st.builds(Cut, st.integers(0, 7), loses_answer=st.booleans())
epochs = st.tuples(
    st.lists(rows, max_size=12), st.lists(st.lists(courses, min_size=1, max_size=2), max_size=2)
)


@pytest.fixture(autouse=True, scope="module")
def two_rows_in_a_batch():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "BATCH_ROWS_MAX", 2)
        yield


def folded(kind, listed):
    if kind != "sum":
        return sorted(listed)
    sums = {}
    for *key, amount in listed:
        sums[tuple(key)] = sums.get(tuple(key), 0) + amount
    return sorted((*key, amount) for key, amount in sums.items())


def mixed(kind, listed, chance):
    """Return rows in another order, in which those of one key keep theirs."""
    if kind != "sum":
        return chance.sample(listed, len(listed))
    turns = chance.sample([row[:2] for row in listed], len(listed))
    left = {key: iter([row for row in listed if row[:2] == key]) for key in turns}
    return [next(left[key]) for key in turns]


async def held(client, path):
    table = await client.table(path)
    return sorted(
        [tuple(row.values()) async for batch in table.scan() for row in batch.to_pylist()]
    )


async def story(directory, kind, history, chance):
    """Try every epoch as the history says, then once to its end."""
    async with await aio.open(directory) as client:
        path = (await client.create_table("orders", SCHEMA, **TABLES[kind])).path
        written = []
        for epoch, (listed, rounds) in enumerate(history):
            for together in [*rounds, [Course()]]:
                attempts = [
                    attempt(
                        client,
                        path,
                        mixed(kind, listed, chance),
                        course=course,
                        sink="jobs",
                        epoch=epoch,
                    )
                    for course in together
                ]
                await asyncio.gather(*attempts)
            written += listed
            assert await held(client, path) == folded(kind, written)


@pytest.mark.parametrize("kind", TABLES)
@given(history=st.lists(epochs, min_size=1, max_size=3), seed=st.integers(0, 2**32))
# To make a story shorter takes longer than a test may.
@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_every_epoch_is_there_once(tmp_path_factory, kind, history, seed):
    directory = tmp_path_factory.mktemp("history") / "data"

    asyncio.run(story(directory, kind, history, random.Random(seed)))
