"""Run seeds by hand: `python -m tests.simulation --seed 123 --trace`."""

import argparse
import sys
import time

from tests.simulation.run import Outcome, run_seed


def main() -> int:
    """Run one seed or several, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    parser.add_argument("--failed", action="store_true", help="print only seeds that failed")
    given = parser.parse_args()
    failed = 0
    for seed in range(given.seed, given.seed + given.count):
        began = time.process_time()
        outcome = run_seed(seed)
        failed += bool(outcome.violations)
        if outcome.violations or not given.failed:
            told = _told(outcome, time.process_time() - began)
            sys.stdout.write("\n".join([*(outcome.trace if given.trace else ()), *told, ""]))
            sys.stdout.flush()
    sys.stdout.write(f"{given.count} seeds, {failed} failed\n")
    return 1 if failed else 0


def _told(outcome: Outcome, seconds: float) -> list[str]:
    head = f"seed {outcome.seed}: {outcome.steps} steps, {outcome.crashes} crashes, {seconds:.2f} s"
    return [head, *(f"  {violation}" for violation in outcome.violations)]


if __name__ == "__main__":
    sys.exit(main())
