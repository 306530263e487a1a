"""What a server says of itself: permissions, settings, nodes, and the findings of audits."""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from headwater.audit.report import AuditReport
from headwater.audit.tables import audit_storage
from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.console.facts.overview import ClusterHealth, cluster_health
from headwater.doors.storage import DoorCaller, DoorStorage
from headwater.errors import AccessError, ConflictError, HeadwaterError, UnsupportedError
from headwater.model.acl import GRANTABLE
from headwater.runtime.clock import Clock
from headwater.wire import fluss_pb2 as pb

OPERATIONS = tuple(each.name for each in GRANTABLE)
FINDINGS_SHOWN_MAX = 200
REPORT_BYTES_MAX = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class GrantLine:
    """One permission."""

    principal: str
    operation: str
    resource: str
    host: str


@dataclass(frozen=True, slots=True)
class Grants:
    """The permissions that a caller may see, or why there are none."""

    lines: tuple[GrantLine, ...]
    fault: str = ""


def grants(client: Client) -> Grants:
    """List permissions; a server that checks none says so."""
    try:
        found = client.acls.list()
    except (AccessError, UnsupportedError) as fault:
        return Grants((), str(fault))
    lines = sorted(
        GrantLine(str(each.principal), each.operation.name, str(each.resource), each.host)
        for each in found
    )
    return Grants(tuple(lines))


def resource_argument(text: str) -> str:
    """Return a resource as `grant` takes it: `table:shop.orders` is shop.orders there."""
    kind, colon, name = text.partition(":")
    if not colon:
        return text
    return "cluster" if kind == "cluster" else name


# The server.


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The settings of a server, and its health."""

    settings: tuple[tuple[str, str], ...]
    health: ClusterHealth | None
    not_told: tuple[str, ...]


def server_facts(client: Client) -> ServerFacts:
    """Ask a server for its settings and its health; what it does not tell is said."""
    not_told: list[str] = []
    settings: tuple[tuple[str, str], ...] = ()
    health = None
    try:
        settings = tuple(_settings(client))
    except HeadwaterError as fault:
        not_told.append(f"settings: {fault.message}")
    try:
        health = cluster_health(client)
    except HeadwaterError as fault:
        not_told.append(f"health: {fault.message}")
    return ServerFacts(settings, health, tuple(not_told))


def _settings(client: Client) -> Iterable[tuple[str, str]]:
    async def ask(awaiting: AsyncClient) -> pb.DescribeClusterConfigsResponse:
        request = pb.DescribeClusterConfigsRequest()
        return await awaiting.cluster.ask(
            request, pb.DescribeClusterConfigsResponse, coordinator=True
        )

    return sorted((each.config_key, each.config_value) for each in client.run(ask).configs)


# Audits.


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLine:
    """One finding."""

    check: str
    severity: str
    place: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFacts:
    """The last report of a kind, as far as the caller may see it."""

    is_clean: bool
    started_ms: int
    duration_s: float
    is_deep: bool
    findings: tuple[FindingLine, ...]
    hidden: int
    """Findings that are not shown: there are too many, or they name tables of others."""


def audit_facts(text: str, *, visible: set[str]) -> AuditFacts:
    """Read the report of an audit."""
    node: Mapping[str, object] = json.loads(text)
    found = node.get("findings")
    lines: list[FindingLine] = []
    listed = found if isinstance(found, list) else []
    for each in listed:
        table = each.get("table")
        if (table is None or str(table) in visible) and len(lines) < FINDINGS_SHOWN_MAX:
            lines.append(_finding(each))
    return AuditFacts(
        is_clean=bool(node.get("is_clean")),
        started_ms=int(str(node.get("started_ms") or 0)),
        duration_s=float(str(node.get("duration_s") or 0)),
        is_deep=bool(node.get("is_deep")),
        findings=tuple(lines),
        hidden=len(listed) - len(lines),
    )


def _finding(node: Mapping[str, object]) -> FindingLine:
    parts = [node.get("table"), node.get("partition"), node.get("bucket"), node.get("offset")]
    names = ("", "partition ", "bucket ", "offset ")
    place = " ".join(
        f"{name}{part}" for name, part in zip(names, parts, strict=True) if part is not None
    )
    return FindingLine(
        check=str(node.get("check", "")),
        severity=str(node.get("severity", "")),
        place=place,
        message=str(node.get("message", "")),
        remedy=str(node.get("remedy", "")),
    )


def report_text(path: Path | None) -> str | None:
    """Read the report that a server wrote; None if there is none."""
    if path is None or not path.is_file() or path.stat().st_size > REPORT_BYTES_MAX:
        return None
    return path.read_text(encoding="utf-8")


@dataclass(slots=True)
class _Run:
    began_ms: int
    future: Future[AuditReport]
    progress: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRunState:
    """How an audit that was started here stands."""

    is_running: bool
    began_ms: int
    progress: str
    fault: str = ""
    report: str | None = None


class AuditDesk:
    """Runs one audit at a time, with the permissions of whoever started it."""

    def __init__(self, clients: DoorStorage, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "headwater-console-audit")
        self._runs: dict[str, _Run] = {}

    def start(self, caller: DoorCaller) -> None:
        """Start a quick audit of what a caller may see."""
        with self._lock:
            if any(not each.future.done() for each in self._runs.values()):
                raise ConflictError("An audit is running.", hint="Wait for its end.")
            # One report is kept: whoever starts the next one replaces it.
            self._runs = {}
            run = _Run(self._clock.now_ms(), Future())
            run.future = self._thread.submit(self._audit, caller, run)
            self._runs[caller.key] = run

    def _audit(self, caller: DoorCaller, run: _Run) -> AuditReport:
        def watch(text: str) -> None:
            run.progress = text

        with self._clients.lent(caller) as client:
            return client.run(lambda awaiting: audit_storage(awaiting, watch=watch))

    def state(self, caller: str) -> AuditRunState | None:
        """Tell how the audit of a caller stands; None if there is none."""
        with self._lock:
            run = self._runs.get(caller)
        if run is None:
            return None
        if not run.future.done():
            return AuditRunState(is_running=True, began_ms=run.began_ms, progress=run.progress)
        fault = run.future.exception()
        return AuditRunState(
            is_running=False,
            began_ms=run.began_ms,
            progress="",
            fault="" if fault is None else str(fault),
            report=None if fault is not None else run.future.result().to_json(),
        )

    def close(self) -> None:
        """Wait for the audit that runs."""
        self._thread.shutdown(wait=False, cancel_futures=True)
