"""The examples on Spark run as they are, in processes with sessions of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_WITHIN_S = 400

pytestmark = [pytest.mark.spark, pytest.mark.timeout(RUN_WITHIN_S + 20)]


@pytest.fixture(autouse=True)
def classic(request):
    if request.config.getoption("--spark") != "classic":
        pytest.skip("an example makes a session of its own")


def run(script: str) -> str:
    """Run a script and return what it prints; Spark itself says this and that on the side."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / script)],
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stream_is_enriched_with_rows_as_they_are_at_that_moment():
    lines = run("spark/enrichment.py").splitlines()

    assert lines == [
        "order 100: 20.00 by Ada",
        "order 101:  5.50 by Bob",
        "order 102:  7.00 by nobody we know",
        "order 103:  9.00 by Ada Lovelace",
        "order 104:  1.00 by Cleo",
    ]


def test_tables_flow_into_a_lake_and_are_read_there():
    lines = run("spark/lake.py").splitlines()

    assert lines == [
        "market.prices: 3 rows tiered",
        "market.sales: 2 rows tiered",
        "market.prices: 1 rows tiered",
        "market.sales: 1 rows tiered",
        "market.sales in the lake: ('apple', 6) ('apple', 10) ('pear', 4)",
        "market.prices in the lake: ('apple', 2.75) ('pear', 3.0)",
    ]


def test_the_demo_runs_its_pipeline_and_goes_on_to_its_end():
    shown = run("demo.py")

    # Six clicks, and two of three later ones: the other came too late for its minute.
    assert shown.count("  2026-11-16 12:00:00, home, 2\n") == 2
    assert "  2026-11-16 12:03:00, shop, 1\nclicks by page:\n  home, 4\n  shop, 4\n" in shown
    assert "pyiceberg reads 440,001 orders, each exactly once" in shown
    assert "Done." in shown
