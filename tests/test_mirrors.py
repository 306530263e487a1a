"""The blocking API mirrors the one that awaits, and the generator sees to it."""

import pytest
from scripts.generate_sync import BY_HAND, MODULES, SYNC, generated, sync_modules


@pytest.fixture
def mended(tmp_path):
    """Change the module of tables, and return what the generator makes of it."""

    def mend(old, new):
        text = (SYNC / "table.py").read_text()
        assert text.count(old) == 1
        changed = tmp_path / "table.py"
        changed.write_text(text.replace(old, new))
        return generated(changed, MODULES["table.py"])

    return mend


def test_the_blocking_api_is_current():
    stale = [path.name for path, text in sync_modules().items() if path.read_text() != text]

    assert stale == [], "mark what is written by hand, run `make sync`"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("self._table.count()", "self._table.count() + 1", id="a body"),
        pytest.param("def drop_column(self, name: str)", "def drop_column(self)", id="a signature"),
        pytest.param('"""Drop a column."""', '"""Drop it."""', id="a docstring"),
        pytest.param("import DataType, ", "import TimeType, ", id="an import"),
    ],
)
def test_a_change_by_hand_is_taken_back(old, new, mended):
    assert mended(old, new) == (SYNC / "table.py").read_text()


def test_a_method_that_has_no_twin_is_refused(mended):
    with pytest.raises(LookupError, match=r"AsyncTable has no method name_column: .* by hand:"):
        mended("def rename_column(", "def name_column(")


def test_a_method_that_is_missing_is_written(mended):
    text = (SYNC / "table.py").read_text()
    start, end = text.index("    def drop_column("), text.index("    def rename_column(")

    assert mended(text[start:end], "") == text


def test_what_is_marked_as_written_by_hand_is_kept(mended):
    body = "        return self._loop.run(self._table.count())\n"
    by_hand = f"        {BY_HAND} counts twice\n        return 2 * self._table.counted\n"

    assert by_hand in mended(body, by_hand)


def test_examples_are_kept(mended):
    assert ">>> customers.count() + 1\n" in mended(
        ">>> customers.count()\n", ">>> customers.count() + 1\n"
    )
