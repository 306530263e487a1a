"""What `make torture` prints at its end: one line for each part."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.torture_running import Outcome

# First what people ask for; others follow by name.
FIGURES = ("rounds", "seeds", "images", "faults", "places")
HEADS = ("part", "tests", "figures", "minutes", "result")


def added_up(file: Path) -> dict[str, float]:
    """Add up the figures that the tests of a part have noted; texts are left out."""
    totals: dict[str, float] = {}
    if not file.exists():
        return totals
    for line in file.read_text(encoding="utf-8").splitlines():
        for name, value in json.loads(line).items():
            if isinstance(value, (int, float)):
                totals[name] = totals.get(name, 0) + value
    return totals


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the table as Markdown."""
    rows = [HEADS, tuple("---" for _ in HEADS), *map(_row, outcomes), _total(outcomes)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def not_run(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the parts of which nothing was run, and which prove nothing."""
    return [each.name for each in outcomes if not each.was_run]


def exit_code(outcomes: Iterable[Outcome], *, allow_skips: bool) -> int:
    """Return 0 if every part was run and nothing was found."""
    known = list(outcomes)
    is_good = all(each.is_good for each in known)
    return int(not is_good or (bool(not_run(known)) and not allow_skips))


def _row(outcome: Outcome) -> tuple[str, ...]:
    minutes = f"{outcome.seconds / 60:.1f}"
    return outcome.name, str(outcome.tests), _said(outcome), minutes, outcome.result


def _total(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    tests = sum(each.tests for each in outcomes)
    bad = [each.name for each in outcomes if not each.is_good]
    minutes = sum(each.seconds for each in outcomes if each.name != "soak") / 60
    result = f"**failed: {', '.join(bad)}**" if bad else "nothing found"
    if missed := not_run(outcomes):
        result += f"; not run: {', '.join(missed)}"
    return "all", str(tests), "", f"{minutes:.1f}", result


def _said(outcome: Outcome) -> str:
    return ", ".join(f"{outcome.figures[name]:,.0f} {name}" for name in _ordered(outcome.figures))


def _ordered(names: Iterable[str]) -> list[str]:
    known = [name for name in FIGURES if name in set(names)]
    return known + sorted(set(names) - set(known))
