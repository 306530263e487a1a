"""How much of a table was looked at, summed over its buckets."""

from collections import Counter
from dataclasses import dataclass, field

from headwater.audit.finding import Check, Proof
from headwater.audit.report import Notes


@dataclass(slots=True)
class Tally:
    """Add up what was looked at, and say it once for a table."""

    amounts: Counter[tuple[Check, str]] = field(default_factory=Counter)
    remarks: dict[Check, str] = field(default_factory=dict)

    def add(self, check: Check, amount: int, *, unit: str, note: str = "") -> None:
        """Count what was looked at; a note says why that proves a part only."""
        self.amounts[check, unit] += amount
        if note:
            self.remarks[check] = note

    def prove(self, notes: Notes, *, table: str | None) -> None:
        """Note everything that was counted."""
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
