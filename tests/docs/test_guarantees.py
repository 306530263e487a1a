"""Every promise of the page of guarantees names tests that there are."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(PAGE))))
def test_a_test_that_a_promise_names_is_there(file, name):
    tree = ast.parse((ROOT / file).read_text())

    names = {node.name for node in tree.body if hasattr(node, "name")}

    assert name in names


def test_every_promise_names_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line.endswith("` |")]

    assert len(rows) > 15
    assert all(NAMED.search(row) for row in rows)
