"""Plan the corpus of SQL statements, beside sqlglot alone on the same texts.

    python -m benchmarks.sql_plan

Processor time. The baseline is sqlglot with its own Spark dialect: parse and write the statements
that it can parse.
"""

import logging
import statistics
import time

import sqlglot
from sqlglot.errors import SqlglotError
from tests.pipelines.sql.corpus import MODES, Entry, entries, names_for

from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.plan import plan

RUNS = 5
MS = 1000


def best_ms(run: object) -> float:
    assert callable(run)
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        run()
        times.append((time.process_time() - start) * MS)
    return min(times)


def main() -> None:
    logging.disable(logging.WARNING)  # sqlglot tells about each statement that it does not know
    names = {mode: names_for(mode) for mode in MODES}
    ours: list[float] = []
    ratios: list[float] = []
    for entry in entries(refused=False):

        def planned(entry: Entry = entry) -> None:
            (statement,) = parse(entry.text)
            plan(statement, names[entry.mode])

        spent = best_ms(planned)
        ours.append(spent)
        try:
            base = best_ms(lambda text=entry.text: sqlglot.transpile(text, read="spark"))
        except SqlglotError:
            continue
        ratios.append(spent / base)
    ours.sort()
    print(f"{len(ours)} plans: median {statistics.median(ours):.2f} ms, worst {ours[-1]:.2f} ms")
    print(f"{len(ratios)} that sqlglot parses too: median ratio {statistics.median(ratios):.1f}")


if __name__ == "__main__":
    main()
