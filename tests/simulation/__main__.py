"""Run seeds by hand: `python -m tests.simulation --seed 123 --trace`."""

import argparse
import sys
import time

from tests.simulation.run import run_seed


def main() -> int:
    """Run one seed or several, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    given = parser.parse_args()
    failed = 0
    for seed in range(given.seed, given.seed + given.count):
        began = time.process_time()
        outcome = run_seed(seed)
        if given.trace:
            print("\n".join(outcome.trace))
        seconds = time.process_time() - began
        print(f"seed {seed}: {outcome.steps} steps, {outcome.crashes} crashes, {seconds:.2f} s")
        for violation in outcome.violations:
            print(f"  {violation}")
        failed += bool(outcome.violations)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
