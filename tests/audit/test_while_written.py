"""An audit goes on while others write, and does not take their work for damage."""

import threading

import pytest

import headwater
from headwater.audit import Check, audit

COLUMNS = {"id": "BIGINT", "name": "STRING"}
AUDITS = 8


@pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])
def test_what_is_written_meanwhile_is_no_damage(tmp_path, deep):
    stopped = threading.Event()

    def write(table, appended) -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            table.upsert([{"id": at, "name": f"{number}"} for at in range(number % 40)])
            table.delete([{"id": number % 40}])
            appended.append([{"id": number}])

    with headwater.open(tmp_path / "data") as hw:
        keyed = hw.create_table("keyed", COLUMNS, primary_key="id", buckets=2)
        log = hw.create_table("log", COLUMNS, buckets=2)
        writer = threading.Thread(target=write, args=(keyed, log))
        writer.start()
        try:
            reports = [audit(hw, deep=deep) for _ in range(AUDITS)]
        finally:
            stopped.set()
            writer.join()

    assert [each for report in reports for each in report.findings] == []
    assert all(each.amount for each in reports[-1].proofs if each.check is Check.OFFSETS)
