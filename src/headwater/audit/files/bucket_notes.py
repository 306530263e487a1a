"""Notes of an audit about one bucket, with the commands that mend it."""

import shlex
from dataclasses import dataclass, field

from headwater.audit.files.giving_up import way_out
from headwater.audit.files.tally import Tally
from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.report import Notes
from headwater.model.bucket import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketNotes:
    """Say what is wrong in one bucket; names that nobody knows stay words of the command."""

    notes: Notes
    bucket: int
    table: str | None = None
    partition: str | None = None
    directory: str = "DIRECTORY"
    tiered_end: int = 0
    """The first offset that the lake does not hold."""
    tally: Tally = field(default_factory=Tally)

    def error(self, check: Check, message: str, *, remedy: str, offset: int | None = None) -> None:
        """Note that a promise is broken."""
        self._note(check, Severity.ERROR, message, remedy=remedy, offset=offset)

    def warning(
        self, check: Check, message: str, *, remedy: str, offset: int | None = None
    ) -> None:
        """Note what is worth a look and breaks no promise."""
        self._note(check, Severity.WARNING, message, remedy=remedy, offset=offset)

    def repair(self, action: str) -> str:
        """Return the command that does something to this bucket."""
        words = ["headwater", "repair", self.directory, self.table or "TABLE"]
        if self.partition is not None:
            words += ["--partition", self.partition]
        words += ["--bucket", str(self.bucket), *action.split()]
        return shlex.join(words)

    def cure(self, hole: OffsetRange) -> str:
        """Say how to go on from a hole without a copy of what it held."""
        out = way_out(hole, tiered_end=self.tiered_end)
        return f"{out.meaning}: {self.repair(out.option)}"

    def _note(
        self, check: Check, severity: Severity, message: str, *, remedy: str, offset: int | None
    ) -> None:
        finding = Finding(
            check=check,
            severity=severity,
            table=self.table,
            partition=self.partition,
            bucket=self.bucket,
            offset=offset,
            message=message,
            remedy=remedy,
        )
        self.notes.bad(finding)
