"""The lines that a run prints."""

from rich.table import Table

ROUNDS = 5


class Report:
    """Collect lines of figure, ratio and target."""

    def __init__(self) -> None:
        self.table = Table("what", "ours", "baseline", "ratio", "target")

    def add(self, what: str, ours: str, baseline: str, ratio: str, target: str = "") -> None:
        """Add one line."""
        self.table.add_row(what, ours, baseline, ratio, target)
