"""Audits that a server runs by itself: what they leave in metrics, health, events and a file."""

import json
from contextlib import asynccontextmanager

import pytest

import headwater
from headwater.audit.report import REPORT_NAME, AuditReport, Check, Finding, Severity
from headwater.audit.schedule import (
    FINDINGS_TOLD_MAX,
    AuditPlan,
    AuditSchedule,
    ServedLakes,
    _tell,
    note_failure,
    note_report,
)
from headwater.config.server import ServerSettings
from headwater.errors import StorageError
from headwater.metrics.tallies import AuditTally
from headwater.server.metrics import reasons_unwell
from headwater.server.server import Server
from tests.clocks import loop_turns
from tests.server.support import until

NOW_MS = 1_700_000_000_000
ROWS = 200


class CountingClock:
    """Let time pass as it is asked for, and note how long was slept."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return NOW_MS + int(self.now_s * 1000)

    def monotonic(self) -> float:
        self.now_s += 0.001
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await loop_turns()


def made(directory):
    """Write a log table and a primary-key table, and return the segment of the former."""
    with headwater.open(directory) as storage:
        log = storage.create_table("log", {"id": "BIGINT", "text": "STRING"})
        log.append([{"id": number, "text": "x" * 50} for number in range(ROWS)])
        keyed = storage.create_table("keyed", {"id": "BIGINT"}, primary_key="id")
        keyed.upsert([{"id": number} for number in range(ROWS)])
    return next((directory / "log" / "1" / "0").glob("*.log"))


def flipped(segment):
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)


@asynccontextmanager
async def scheduled(directory, *, clock=None, is_deep=False):
    settings = ServerSettings(port=0)
    server = await Server.start(directory, settings)
    plan = AuditPlan(every_s=3600.0, is_deep=is_deep)
    schedule = AuditSchedule(
        server, directory, settings=settings, plan=plan, clock=clock or CountingClock()
    )
    try:
        yield server, schedule
    finally:
        await schedule.stop()
        await server.stop()


def events(caplog, name):
    return [each.fields for each in caplog.records if each.message == name]


@pytest.mark.parametrize("is_deep", [False, True])
async def test_a_sound_storage_is_clean(tmp_path, is_deep):
    made(tmp_path)
    async with scheduled(tmp_path, is_deep=is_deep) as (server, schedule):
        await schedule.run()

        audit = server.tallies.audit
        assert schedule.last_report.findings == ()
        assert audit.is_clean
        assert audit.last_run_ms == audit.last_success_ms > 0
        assert audit.findings == {"error": 0, "warning": 0}
        assert reasons_unwell(server._services) == []
        written = json.loads((tmp_path / REPORT_NAME).read_text())
        assert (written["is_clean"], written["is_deep"]) == (True, is_deep)


async def test_damage_under_a_running_server_is_found_and_told_once_in_each_run(tmp_path, caplog):
    segment = made(tmp_path)
    async with scheduled(tmp_path) as (server, schedule):
        await schedule.run()
        first = server.tallies.audit.last_success_ms
        flipped(segment)
        await schedule.run()

        audit = server.tallies.audit
        assert not audit.is_clean
        assert (audit.last_success_ms, audit.findings["error"]) == (first, 1)
        assert audit.last_run_ms > first
        (told,) = events(caplog, "audit finding")
        assert told["place"].startswith("fluss.log bucket 0 offset")
        (reason,) = reasons_unwell(server._services)
        assert reason.startswith("The last audit failed: fluss.log bucket 0 offset")
        assert not json.loads((tmp_path / REPORT_NAME).read_text())["is_clean"]


async def test_an_audit_that_does_not_end_is_no_success(tmp_path):
    made(tmp_path)
    async with scheduled(tmp_path) as (server, schedule):

        async def failing(frame, session):
            raise StorageError("The disk is gone.")

        server.serve = failing
        with pytest.raises(StorageError):
            await schedule.run()

        audit = server.tallies.audit
        assert not audit.is_clean
        assert "The disk is gone." in audit.failure
        assert (audit.last_success_ms, audit.findings) == (0, {})


async def test_an_audit_leaves_most_of_the_time_to_others(tmp_path):
    made(tmp_path)
    clock = CountingClock()
    async with scheduled(tmp_path, clock=clock) as (_, schedule):
        await schedule.run()

    assert len(clock.slept) > 10
    assert sum(clock.slept) >= clock.now_s / 2
    assert max(clock.slept) <= 0.5


async def test_audits_are_repeated_until_the_server_stops(tmp_path):
    clock = CountingClock()
    async with scheduled(tmp_path, clock=clock) as (_, schedule):
        schedule.start()
        await until(lambda: clock.slept.count(3600.0) >= 3)
        await schedule.stop()
        slept = len(clock.slept)
        await loop_turns()

    assert len(clock.slept) == slept


def test_a_report_is_counted_by_severity():
    warning = Finding(check=Check.FILES, severity=Severity.WARNING, message="A young file.")
    error = Finding(check=Check.OFFSETS, table="a.b", bucket=1, offset=7, message="A gap.")
    tally = AuditTally()

    note_report(tally, AuditReport(findings=(warning, warning), duration_s=2.0), now_ms=NOW_MS)
    assert (tally.is_clean, tally.findings["warning"], tally.duration_s) == (True, 2, 2.0)

    note_report(tally, AuditReport(findings=(warning, error)), now_ms=NOW_MS + 1)
    assert tally.failure == "a.b bucket 1 offset 7: A gap."
    assert (tally.last_success_ms, tally.last_run_ms) == (NOW_MS, NOW_MS + 1)

    note_failure(tally, "It did not end.", now_ms=NOW_MS + 2)
    assert (tally.is_clean, tally.findings) == (False, {})


def test_of_very_many_findings_the_first_are_told(caplog):
    finding = Finding(check=Check.OFFSETS, message="A gap.")

    _tell(AuditReport(findings=(finding,) * (3 * FINDINGS_TOLD_MAX)))

    assert len(events(caplog, "audit finding")) == FINDINGS_TOLD_MAX


def test_lakes_are_opened_with_the_secrets_of_the_server(tmp_path):
    secret = "datalake.paimon.s3.secret-key"
    settings = ServerSettings(lake_properties={secret: "hidden"})
    lakes = ServedLakes(settings=settings, directory=tmp_path)

    config = lakes.config("paimon", {"table-option": "kept"})

    assert config["s3.secret-key"] == "hidden"
    assert config["table-option"] == "kept"
