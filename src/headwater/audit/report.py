"""The report of an audit: findings with remedies, and what was proven."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

Watch = Callable[[str], None]


def no_watch(text: str) -> None:
    """Ignore the progress."""


class Severity(StrEnum):
    """Whether a finding breaks a guarantee or is only worth a look."""

    ERROR = "error"
    WARNING = "warning"


class Check(StrEnum):
    """A guarantee that an audit checks, in the words that people see."""

    OFFSETS = "offsets"
    CHECKSUMS = "checksums"
    STATE = "state"
    LOOKUPS = "lookups"
    TIERS = "tiers"
    BOUNDARY = "boundary"
    LAKE_ROWS = "lake rows"
    LAKE_FILES = "lake files"
    CURSORS = "cursors"
    FILES = "files"
    READABLE = "readable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong, where it begins, and what to do about it."""

    check: Check
    severity: Severity = Severity.ERROR
    table: str | None = None
    partition: str | None = None
    bucket: int | None = None
    offset: int | None = None  # the first bad one
    message: str = ""
    remedy: str = ""

    @property
    def place(self) -> str:
        """Where it is, from the largest to the smallest part."""
        parts = [
            self.table,
            None if self.partition is None else f"partition {self.partition}",
            None if self.bucket is None else f"bucket {self.bucket}",
            None if self.offset is None else f"offset {self.offset}",
        ]
        return " ".join(part for part in parts if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How much was checked for one guarantee, good or bad."""

    check: Check
    table: str | None = None
    amount: int = 0
    unit: str = "rows"
    note: str = ""  # why it is only proven in part


FINDINGS_MAX = 10_000
"""Findings of each severity that are kept, so that no flood of warnings hides an error."""
# The last report of a server that audits itself, in its data directory.
REPORT_NAME = "audit.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Everything that an audit found and proved."""

    findings: tuple[Finding, ...] = ()
    proofs: tuple[Proof, ...] = ()
    started_ms: int = 0
    duration_s: float = 0.0
    is_deep: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether no guarantee is broken; warnings do not count."""
        return self.first_error is None

    @property
    def first_error(self) -> Finding | None:
        """The first finding that breaks a guarantee."""
        return next((each for each in self.findings if each.severity is Severity.ERROR), None)

    def behind(self, earlier: "Notes") -> "AuditReport":
        """This report with an earlier one put before it, without duplicates."""
        known = {_place(each) for each in earlier.findings}
        known |= {
            (Severity.WARNING, *_place(each)[1:])
            for each in earlier.findings
            if each.severity is Severity.ERROR
        }
        new = [each for each in self.findings if _place(each) not in known]
        again = {(each.check, each.table) for each in self.proofs}
        before = [each for each in earlier.proofs if (each.check, each.table) not in again]
        return replace(
            self,
            findings=(*earlier.findings, *new),
            proofs=(*before, *self.proofs),
        )

    def to_json(self) -> str:
        """Encode the report as one JSON document."""
        return json.dumps({"is_clean": self.is_clean, **asdict(self)}, indent=2)


class Notes:
    """Collects what the parts of an audit find and prove, and reports progress."""

    def __init__(self, watch: Watch = no_watch) -> None:
        self._findings: list[Finding] = []
        self._counts: Counter[Severity] = Counter()
        self._proofs: list[Proof] = []
        self._watch = watch

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings so far."""
        return tuple(self._findings)

    @property
    def proofs(self) -> tuple[Proof, ...]:
        """The proofs so far."""
        return tuple(self._proofs)

    def bad(self, finding: Finding) -> None:
        """Add a finding; beyond a limit per severity they are dropped."""
        if self._counts[finding.severity] < FINDINGS_MAX:
            self._counts[finding.severity] += 1
            self._findings.append(finding)

    def proven(self, proof: Proof) -> None:
        """Add a proof."""
        self._proofs.append(proof)

    def progress(self, text: str) -> None:
        """Report what is being checked."""
        self._watch(text)

    def take(self, findings: Iterable[Finding], proofs: Iterable[Proof]) -> None:
        """Add what was noted elsewhere."""
        for finding in findings:
            self.bad(finding)
        for proof in proofs:
            self.proven(proof)


def _place(finding: Finding) -> tuple[object, ...]:
    """What two findings about the same damage have in common."""
    if finding.offset is None:
        return finding.severity, finding
    where = finding.table, finding.partition, finding.bucket, finding.offset
    return finding.severity, finding.check, *where
