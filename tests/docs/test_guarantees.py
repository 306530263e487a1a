"""Every promise of the pages of guarantees and security names tests that there are."""

import ast
import re
from pathlib import Path

from tests.cases import cases

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    (ROOT / "docs" / name).read_text() for name in ("guarantees.md", "how-to/security.md")
)
THREATS = (ROOT / "docs" / "explanation" / "security.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cases(("file", "name"), sorted(set(NAMED.findall("".join((*PAGES, THREATS))))))
def test_a_test_that_a_promise_names_is_there(file, name):
    tree = ast.parse((ROOT / file).read_text())

    names = {node.name for node in tree.body if hasattr(node, "name")}

    assert name in names


def promises(page: str) -> list[str]:
    """Return every row of the tables that are headed "guarantee"."""
    rows, is_within = [], False
    for line in page.splitlines():
        is_row = line.startswith("|")
        if is_within and is_row and not line.startswith("|---"):
            rows.append(line)
        is_within = is_row and (is_within or line.startswith("| guarantee |"))
    return rows


def test_every_promise_names_a_test():
    rows = [row for page in PAGES for row in promises(page)]

    assert all(len(promises(page)) > 12 for page in PAGES)
    assert [row for row in rows if not NAMED.search(row)] == []


def test_every_threat_names_a_test():
    rows = [line for line in THREATS.splitlines() if line.startswith("| ")]

    assert rows[0] == "| who | wants | line of defence | test |"
    assert len(rows) > 12
    assert [row for row in rows[1:] if not NAMED.search(row)] == []


def test_a_promise_without_a_test_is_seen():
    table = "| guarantee | what tries to break it |\n|---|---|\n| All is well. | |\n"

    assert promises(f"{table}\n| part | tried |\n|---|---|\n| soak | an hour |\n") == [
        "| All is well. | |"
    ]
