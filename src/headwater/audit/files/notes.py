"""Findings about one bucket: how much was checked, and the commands that repair it."""

import shlex
from collections import Counter
from dataclasses import dataclass, field

from headwater.audit.report import Check, Finding, Notes, Proof, Severity
from headwater.model import OffsetRange

# How to get past a hole: give up what follows, or what precedes it if a lake holds that.


@dataclass(frozen=True, slots=True)
class WayOut:
    """The option of `headwater repair` that gets a log past a hole, and what it means."""

    option: str
    meaning: str


def way_out(hole: OffsetRange, *, tiered_end: int) -> WayOut:
    """Choose how to continue after a hole, for a bucket that the lake holds up to an offset."""
    if hole.start >= tiered_end:
        return WayOut(f"--cut-at {hole.start}", f"to give up offset {hole.start} and all after it")
    if hole.end <= tiered_end:
        return WayOut(
            f"--begin-at {hole.end}",
            f"as the lake holds these offsets, to start the log after them, at {hole.end}",
        )
    return WayOut(
        f"--cut-at {tiered_end}",
        f"as the lake holds offsets up to {tiered_end}, to continue from there with an "
        "empty log, and give up all after it",
    )


# How much of a table was checked, summed over its buckets.


@dataclass(slots=True)
class CheckTally:
    """Adds up what was checked, and reports it once for a table."""

    amounts: Counter[tuple[Check, str]] = field(default_factory=Counter)
    remarks: dict[Check, str] = field(default_factory=dict)

    def add(self, check: Check, amount: int, *, unit: str, note: str = "") -> None:
        """Count what was checked; a note says why it is only a partial proof."""
        self.amounts[check, unit] += amount
        if note:
            self.remarks[check] = note

    def prove(self, notes: Notes, *, table: str | None) -> None:
        """Report everything that was counted."""
        for (check, unit), amount in self.amounts.items():
            notes.proven(
                Proof(
                    check=check,
                    table=table,
                    amount=amount,
                    unit=unit,
                    note=self.remarks.get(check, ""),
                )
            )


# Findings about one bucket, with the commands that repair it.


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketNotes:
    """Reports what is wrong in one bucket; unknown names stay placeholders in the command."""

    notes: Notes
    bucket: int
    table: str | None = None
    partition: str | None = None
    directory: str = "DIRECTORY"
    tiered_end: int = 0
    """The first offset that the lake does not hold."""
    tally: CheckTally = field(default_factory=CheckTally)

    def error(self, check: Check, message: str, *, remedy: str, offset: int | None = None) -> None:
        """Report a broken guarantee."""
        self._note(check, Severity.ERROR, message, remedy=remedy, offset=offset)

    def warning(
        self, check: Check, message: str, *, remedy: str, offset: int | None = None
    ) -> None:
        """Report something worth a look that breaks no guarantee."""
        self._note(check, Severity.WARNING, message, remedy=remedy, offset=offset)

    def repair(self, action: str) -> str:
        """The repair command for this bucket."""
        words = ["headwater", "repair", self.directory, self.table or "TABLE"]
        if self.partition is not None:
            words += ["--partition", self.partition]
        words += ["--bucket", str(self.bucket), *action.split()]
        return shlex.join(words)

    def cure(self, hole: OffsetRange) -> str:
        """Say how to continue after a hole without a copy of its content."""
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
