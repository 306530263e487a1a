"""Audits that a server runs by itself at intervals, slowly enough that clients come first."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.audit.report import REPORT_NAME, AuditReport, Finding, Severity
from headwater.audit.tables import audit_storage
from headwater.client.client import AsyncClient
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.lake import lake_config
from headwater.config.options import LakeFormat
from headwater.config.server import ServerSettings
from headwater.embedded.storage import PEER, InProcessDialer
from headwater.lake.lakes import Lakes, open_lake
from headwater.lake.spi import LakeStorage
from headwater.metrics.tallies import AuditTally
from headwater.runtime.clock import Clock, SystemClock
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks, aside, repeat
from headwater.server.connection import Answer, Serve, Session
from headwater.server.server import Server
from headwater.store.local import LocalDisk
from headwater.wire.frames import RequestFrame

# An audit works a quarter of the time, so that clients hardly notice it.
PAUSE_PER_WORK = 3.0
PAUSE_MAX_S = 0.5


class Paced:
    """Pauses before each request, in proportion to the work since the last one."""

    def __init__(self, serve: Serve, clock: Clock) -> None:
        self._serve = serve
        self._clock = clock
        self._resumed = clock.monotonic()

    async def serve(self, frame: RequestFrame, session: Session) -> Answer:
        """Answer a request after others had their turn."""
        worked_s = self._clock.monotonic() - self._resumed
        await self._clock.sleep(min(worked_s * PAUSE_PER_WORK, PAUSE_MAX_S))
        self._resumed = self._clock.monotonic()
        return await self._serve(frame, session)


_events = Events("audit")
# Beyond this many findings the report is more useful than events.
FINDINGS_TOLD_MAX = 100
_MIB = 1024**2
# Small responses: decoding a large one at once would block the event loop.
_CLIENT = ClientSettings(
    fetch_bytes_max=_MIB, fetch_bucket_bytes_max=_MIB, state_scan_bytes_max=_MIB
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """How often a server is audited, and how thoroughly."""

    every_s: float
    is_deep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLakes:
    """Opens lakes as the server knows them, with secrets that clients do not get."""

    settings: ServerSettings
    directory: Path

    def open(self, lake: str, told: Mapping[str, str]) -> LakeStorage:
        """Open the lake of a format."""
        return open_lake(lake, self.config(lake, told))

    def config(self, lake: str, told: Mapping[str, str]) -> dict[str, str]:
        """The options of a catalog: those of the table and those of the server."""
        properties = self.settings.lake_properties
        return {**told, **lake_config(LakeFormat(lake), properties, directory=self.directory)}


class AuditSchedule:
    """Audits a server at intervals; results go to metrics, events and a file."""

    def __init__(
        self,
        server: Server,
        directory: Path,
        *,
        settings: ServerSettings,
        plan: AuditPlan,
        clock: Clock | None = None,
    ) -> None:
        self._server = server
        self._disk = LocalDisk(directory)
        self._lakes = Lakes(opener=ServedLakes(settings=settings, directory=directory).open)
        self._plan = plan
        self._clock = clock or SystemClock()
        self._tasks = Tasks()
        self.last_report: AuditReport | None = None

    def start(self) -> None:
        """Start with an audit now."""
        work = repeat(self.run, every_s=self._plan.every_s, clock=self._clock, name="audit")
        self._tasks.start(work, name="audit")

    async def stop(self) -> None:
        """Stop the running audit, and start no other."""
        await self._tasks.stop()

    async def run(self) -> None:
        """Audit once.

        1. audit through the protocol, slowly  2. update the metrics
        3. log each finding  4. replace the file of the last report
        """
        began = self._clock.monotonic()
        try:
            report = await self._audited()
        except Exception as cause:
            failure = f"The audit failed: {type(cause).__name__}: {cause}"
            note_failure(self._tally, failure, now_ms=self._clock.now_ms())
            self._tally.duration_s = self._clock.monotonic() - began
            raise  # Logged with its traceback where the task ends.
        self.last_report = report
        note_report(self._tally, report, now_ms=self._clock.now_ms())
        _tell(report)
        await aside(self._disk.replace, REPORT_NAME, f"{report.to_json()}\n".encode())

    @property
    def _tally(self) -> AuditTally:
        return self._server.tallies.audit

    async def _audited(self) -> AuditReport:
        cluster = Cluster(
            [Address(PEER, 0)],
            Pool(InProcessDialer(Paced(self._server.serve, self._clock).serve)),
            settings=_CLIENT,
            clock=self._clock,
            lakes=self._lakes,
        )
        async with AsyncClient(cluster) as client:
            await cluster.connect()
            return await audit_storage(client, deep=self._plan.is_deep)


def note_report(tally: AuditTally, report: AuditReport, *, now_ms: int) -> None:
    """Update the metrics with what an audit found."""
    found = Counter(str(each.severity) for each in report.findings)
    tally.findings = Counter({str(severity): found[severity] for severity in Severity})
    tally.last_run_ms = now_ms
    tally.duration_s = report.duration_s
    first = report.first_error
    tally.failure = "" if first is None else _sentence(first)
    if first is None:
        tally.last_success_ms = now_ms


def note_failure(tally: AuditTally, failure: str, *, now_ms: int) -> None:
    """Update the metrics after an audit that failed, so that nothing is known."""
    tally.findings = Counter()
    tally.last_run_ms = now_ms
    tally.failure = failure


def _tell(report: AuditReport) -> None:
    for finding in report.findings[:FINDINGS_TOLD_MAX]:
        tell = _events.error if finding.severity is Severity.ERROR else _events.warning
        tell(
            "audit finding",
            check=finding.check,
            place=finding.place,
            message=finding.message,
            remedy=finding.remedy,
        )
    _events.info(
        "audited",
        clean=report.is_clean,
        findings=len(report.findings),
        seconds=round(report.duration_s, 3),
    )


def _sentence(finding: Finding) -> str:
    return f"{finding.place}: {finding.message}" if finding.place else finding.message
