"""The report of an audit, and the notes that it is made of."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from headwater.audit.finding import Finding, Proof, Severity
from headwater.audit.watching import Watch, no_watch

FINDINGS_MAX = 10_000
"""Findings of each severity that are kept: no flood of warnings hides an error."""
# The last report of a server that audits itself, in its data directory.
REPORT_NAME = "audit.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Hold all that an audit found and all that it proved."""

    findings: tuple[Finding, ...] = ()
    proofs: tuple[Proof, ...] = ()
    started_ms: int = 0
    duration_s: float = 0.0
    is_deep: bool = False

    @property
    def is_clean(self) -> bool:
        """Return whether nothing is wrong; what is only worth a look is not."""
        return self.first_error is None

    @property
    def first_error(self) -> Finding | None:
        """Return the first finding that breaks a promise."""
        return next((each for each in self.findings if each.severity is Severity.ERROR), None)

    def behind(self, earlier: "Notes") -> "AuditReport":
        """Return the report with what was noted before it in front, nothing of it twice."""
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
        """Return the report as one JSON document."""
        return json.dumps({"is_clean": self.is_clean, **asdict(self)}, indent=2)


class Notes:
    """Collect what the parts of an audit find and prove, and tell how far they are."""

    def __init__(self, watch: Watch = no_watch) -> None:
        self._findings: list[Finding] = []
        self._counts: Counter[Severity] = Counter()
        self._proofs: list[Proof] = []
        self._watch = watch

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what was found so far."""
        return tuple(self._findings)

    @property
    def proofs(self) -> tuple[Proof, ...]:
        """Return what was proven so far."""
        return tuple(self._proofs)

    def bad(self, finding: Finding) -> None:
        """Note that something is wrong; beyond so many of its kind, one more says nothing new."""
        if self._counts[finding.severity] < FINDINGS_MAX:
            self._counts[finding.severity] += 1
            self._findings.append(finding)

    def proven(self, proof: Proof) -> None:
        """Note that something was looked at to the end."""
        self._proofs.append(proof)

    def progress(self, text: str) -> None:
        """Tell whoever watches what is being looked at."""
        self._watch(text)

    def take(self, findings: Iterable[Finding], proofs: Iterable[Proof]) -> None:
        """Add what was noted elsewhere."""
        for finding in findings:
            self.bad(finding)
        for proof in proofs:
            self.proven(proof)


def _place(finding: Finding) -> tuple[object, ...]:
    """Return what two findings about the same damage have in common."""
    if finding.offset is None:
        return finding.severity, finding
    where = finding.table, finding.partition, finding.bucket, finding.offset
    return finding.severity, finding.check, *where
