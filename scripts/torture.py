"""Run everything that tries to break the storage, and print what was found: `make torture`.

The long tests run in named parts, with a soak beside them; at the end stands a table. Programs
that are missing are installed where that may be done. A part that cannot be run proves nothing:
the end is a failure then, too, unless skips are allowed.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.choices import VARIABLE as EVERYTHING_VARIABLE
from tests.figures import TIMES_VARIABLE, VARIABLE

from scripts.torture_parts import LONG, PARTS, ROOT, SHORT, Part, files_of
from scripts.torture_running import Group, Outcome, run_part
from scripts.torture_table import added_up, exit_code, markdown
from scripts.torture_tools import ensure, why_not

WORK = ROOT / ".torture"
SOAK = "soak"
SOAK_END_S_MAX = 600.0
LINES_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Soak:
    """Hold a soak that runs beside the parts."""

    group: Group
    began: float
    seconds_max: float
    figures: Path

    def wait(self) -> Outcome:
        """Wait for its end."""
        code = self.group.wait(self.seconds_max)
        return Outcome(
            name=SOAK,
            tests=1,
            failed=int(code != 0),
            seconds=time.monotonic() - self.began,
            figures=added_up(self.figures),
        )


def main() -> int:
    options = _options()
    # As Ctrl-C does, so that whoever ends us leaves no servers behind.
    signal.signal(signal.SIGTERM, _interrupt)
    wanted = _wanted(options.parts)
    os.environ[TIMES_VARIABLE] = str(options.times)
    WORK.mkdir(exist_ok=True)
    ensure(sorted({tool for part in PARTS for tool in part.tools if part.name in wanted}))
    soak = _start_soak(options.soak_minutes) if SOAK in wanted else None
    try:
        parts = [part for part in PARTS if part.name in wanted]
        outcomes = _run_all(parts, beside=options.beside, marker=SHORT if options.short else LONG)
        if soak is not None:
            print("waits for the soak", flush=True)
            outcomes.append(soak.wait())
            _tell(outcomes[-1])
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    finally:
        for group in list(Group.running):
            group.end()
    table = markdown(outcomes)
    print(f"\n{table}")
    if options.report is not None:
        options.report.write_text(table, encoding="utf-8")
    return exit_code(outcomes, allow_skips=options.allow_skips or options.short)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.torture", description=__doc__)
    names = ", ".join((*(part.name for part in PARTS), SOAK))
    parser.add_argument("--parts", default="", help=f"only these, with commas between: {names}")
    parser.add_argument(
        "--beside",
        type=int,
        default=1,
        help="parts that run side by side; most of them wait for processes much of the time",
    )
    parser.add_argument(
        "--times",
        type=float,
        default=1.0,
        help="how much of everything: 10 for a night, 0.1 for a try",
    )
    parser.add_argument("--soak-minutes", type=float, default=60.0, help="length of the soak")
    parser.add_argument(
        "--short",
        action="store_true",
        help="the short tests of the same folders, to try it out; many parts have none, so that"
        " --allow-skips holds",
    )
    parser.add_argument(
        "--allow-skips",
        action="store_true",
        help="end well though parts were not run, as where programs or rights are missing",
    )
    parser.add_argument("--report", type=Path, help="file for the table, in Markdown")
    return parser.parse_args()


def _wanted(text: str) -> frozenset[str]:
    known = {*(part.name for part in PARTS), SOAK}
    wanted = {name.strip() for name in text.split(",") if name.strip()} or known
    if unknown := wanted - known:
        sys.exit(f"There is no part {', '.join(sorted(unknown))}; see --help.")
    return frozenset(wanted)


def _run_all(parts: Sequence[Part], *, beside: int, marker: str) -> list[Outcome]:
    """Run parts, some of them side by side, and return what became of them in their order."""
    with ThreadPoolExecutor(beside) as pool:
        # The longest is Spark's, which should not be left over for the end.
        longest_first = sorted(parts, key=lambda part: beside > 1 and part.processes > 0)
        begun = {part.name: pool.submit(_run, part, marker=marker) for part in longest_first}
        try:
            return [begun[part.name].result() for part in parts]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in list(Group.running):
                group.end()
            raise


def _run(part: Part, *, marker: str) -> Outcome:
    outcome = _ran(part, marker=marker)
    _tell(outcome)
    return outcome


def _ran(part: Part, *, marker: str) -> Outcome:
    if reason := why_not(part.tools):
        return Outcome(name=part.name, reason=reason)
    files = files_of(PARTS)[part.name]
    if not files:
        return Outcome(name=part.name, failed=1, reason="there are no such files")
    print(f"{time.strftime('%H:%M:%S')}  {part.name}", flush=True)
    figures = WORK / f"{part.name.replace(' ', '-')}.figures"
    figures.unlink(missing_ok=True)
    variables = {"HEADWATER_RANDOM": "1", EVERYTHING_VARIABLE: "1", VARIABLE: str(figures)}
    marks = part.marks or marker
    outcome = run_part(part, files, place=WORK, marker=marks, variables=variables)
    return replace(outcome, figures=added_up(figures))


def _start_soak(minutes: float) -> Soak:
    figures = WORK / "soak.figures"
    figures.unlink(missing_ok=True)
    command = [sys.executable, "-m", "scripts.soak", "--minutes", str(minutes)]
    group = Group(
        [*command, "--csv", str(WORK / "soak.csv")],
        log=_log(SOAK),
        variables={VARIABLE: str(figures)},
    )
    return Soak(group, time.monotonic(), minutes * 60 + SOAK_END_S_MAX, figures)


def _tell(outcome: Outcome) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {outcome.name}: {outcome.result}", flush=True)
    if outcome.failed:
        for line in _last_lines(_log(outcome.name)):
            print(f"    {line}", flush=True)


def _last_lines(log: Path) -> Sequence[str]:
    return log.read_text(errors="replace").splitlines()[-LINES_SHOWN:] if log.exists() else ()


def _log(name: str) -> Path:
    return WORK / f"{name.lower().replace(' ', '-')}.log"


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
