"""Every state in which a crash can leave the disk of a whole server."""

from pathlib import Path

import pytest

from headwater.store.memory import MemoryDisk
from tests.crashes.images import Recorder
from tests.crashes.oracle import Tally, check_image
from tests.crashes.storage import serving
from tests.crashes.workload import Workload
from tests.figures import note, times

ROUNDS = times(4)


async def recorded(directory: Path, seed: int | None = None) -> tuple[Recorder, Workload]:
    """Run the workload once, taking images at every moment."""
    recorder = Recorder(MemoryDisk())
    async with serving(directory, recorder.disk) as storage:
        workload = Workload(storage, acked=lambda at: recorder.take(at, "acked"))
        recorder.promises = workload.promises
        await workload.create()
        async for _ in workload.run(seed):
            assert workload.failures == []
    return recorder, workload


def check_all(recorder: Recorder, workload: Workload, *, every: int) -> Tally:
    tally = Tally()
    for image in recorder.images[::every]:
        check_image(image, workload.promises[image.at], tally)
    return tally


async def test_no_crash_of_a_server_loses_or_repeats_what_was_acked(tmp_path):
    recorder, workload = await recorded(tmp_path)

    tally = check_all(recorder, workload, every=7)

    assert recorder.image_count > len(recorder.images) > 500
    assert tally.checked > 100
    assert tally.damaged < tally.checked / 4


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [None, *range(ROUNDS)])
async def test_no_crash_of_a_server_at_all_loses_or_repeats_what_was_acked(tmp_path, seed):
    recorder, workload = await recorded(tmp_path, seed)

    tally = check_all(recorder, workload, every=1)

    note("crash images", images=recorder.image_count, distinct=tally.checked, holes=tally.damaged)
