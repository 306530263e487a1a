"""Tables of a cluster followed by Spark, and written to by streams that are stopped on the way."""

from collections import Counter
from pathlib import Path

import pytest

from tests.interop.pipeline.pipeline import orders
from tests.torture.processes import wait_until

WITHIN_S = 240.0


def forget_last_commit(checkpoint: Path) -> None:
    """Have Spark run the last micro-batch again, as after a crash just before its commit."""
    commits = checkpoint / "commits"
    max((int(each.name), each) for each in commits.iterdir() if each.name.isdigit())[1].unlink()


def finish(query) -> None:
    assert query.awaitTermination(WITHIN_S)
    if fault := query.exception():
        raise fault


@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
def test_a_stream_that_is_stopped_and_started_again_lands_once(pipeline, tmp_path, is_keyed):
    source, target = pipeline.create(), pipeline.create(is_keyed=is_keyed)
    source.append(orders(0, 2000))
    rows = pipeline.stream(source, **{"scan.startup.mode": "earliest", "maxRowsPerTrigger": "300"})

    query = pipeline.copy(rows, target, tmp_path, processingTime="0 seconds")
    wait_until(lambda: not query.isActive or sum(target.offsets().values()) > 0, within_s=WITHIN_S)
    assert query.exception() is None
    query.stop()
    source.append(orders(2000, 2500))
    finish(pipeline.copy(rows, target, tmp_path, availableNow=True))
    forget_last_commit(tmp_path)
    finish(pipeline.copy(rows, target, tmp_path, availableNow=True))

    assert pipeline.by_log(target) == Counter(orders(0, 2500))
    # By key, a row that came twice would stand in the log twice.
    assert sum(target.offsets().values()) == 2500


def test_changes_of_keys_are_copied_with_their_deletes(pipeline, tmp_path):
    source, target = pipeline.create(is_keyed=True), pipeline.create(is_keyed=True)
    source.upsert(orders(0, 500))
    source.upsert(orders(100, 200, amount=1))
    source.delete(list(range(50, 150)))
    options = {"scan.startup.mode": "earliest", "scan.changelog": "true"}
    changes = pipeline.stream(source, **options)
    changes = changes.select("_change_type", "_log_offset", "id", "city", "amount")

    finish(pipeline.copy(changes, target, tmp_path, availableNow=True))

    expected = Counter(orders(0, 50) + orders(150, 200, amount=1) + orders(200, 500))
    assert pipeline.by_log(source) == expected
    assert pipeline.by_log(target) == expected
