"""The examples in docstrings of engines run as they stand."""

import doctest

import pytest

import headwater
import headwater.arrow
import headwater.datafusion
import headwater.polars

MODULES = [headwater.arrow, headwater.datafusion, headwater.polars]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_of_an_engine_show_what_happens(module, tmp_path):
    shown, runner = [], doctest.DocTestRunner()
    found = doctest.DocTestFinder(exclude_empty=True).find(module)

    with headwater.open(tmp_path / "data") as hw:
        orders = hw.create_table("orders", {"id": "BIGINT"})
        orders.append([{"id": number} for number in range(102)])
        names = {"hw": hw, "orders": orders}
        for example in sorted(found, key=lambda each: each.lineno or 0):
            example.globs = names
            runner.run(example, out=shown.append, clear_globs=False)

    assert runner.tries > 0
    assert runner.failures == 0, "".join(shown)
