"""The examples in docstrings run as they stand, one after the other."""

import doctest

import pytest

import headwater
from headwater.client.sync import client, table
from headwater.client.sync import scan as view
from headwater.embedded import storage as blocking

MODULES = [blocking, client, table, view]


def examples(module):
    """Return the docstrings with examples in the order of the source."""
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    return sorted((each for each in found if each.examples), key=lambda each: each.lineno or 0)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_of_a_module_show_what_happens(module, tmp_path):
    shown = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)

    with headwater.open(tmp_path / "examples") as hw:
        names = {"hw": hw, "directory": tmp_path}
        for example in examples(module):
            example.globs = names
            runner.run(example, out=shown.append, clear_globs=False)

    assert runner.tries > 0
    assert runner.failures == 0, "".join(shown)


def test_every_public_call_has_an_example_or_needs_none():
    """What only reads a property or mirrors its neighbour may go without."""
    plain = {"__init__", "close", "path", "name", "info", "schema", "is_keyed", "refresh", "start"}
    plain |= {"value", "offsets", "changed_keys"}
    bare = {
        name
        for kind in (headwater.Client, headwater.Table, headwater.View)
        for name, member in vars(kind).items()
        if not name.startswith("_") and name not in plain and ">>>" not in (member.__doc__ or "")
    }

    assert bare <= {
        "address",
        "create_partition",
        "drop_column",
        "drop_database",
        "drop_partition",
        "partitions",
        "rename_column",
        "reset_options",
    }
