"""The reference pages say what the code says."""

from pathlib import Path

from scripts.generate_reference import reference_pages

import headwater
from headwater import aio
from headwater.config.client import ClientSettings
from headwater.config.options import TABLE_OPTIONS
from headwater.config.server import ServerSettings
from headwater.config.values import described
from tests.cases import cases

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = reference_pages()
WRITTEN = {"pipeline-yaml.md", "split-json.md", "sql.md"}


@cases("name", PAGES)
def test_a_generated_page_is_up_to_date(name):
    assert (REFERENCE / name).read_text() == PAGES[name], "run `make docs` and commit the page"


def test_every_generated_page_is_in_the_reference_and_no_other_but_written_ones():
    assert {path.name for path in REFERENCE.glob("*.md")} == {*PAGES, *WRITTEN}


@cases("name", TABLE_OPTIONS)
def test_every_table_option_is_documented(name):
    assert TABLE_OPTIONS[name].description.strip()
    assert f"| `{name}` |" in PAGES["table-options.md"]


@cases(
    ("settings", "page"),
    [(ServerSettings, "server-settings.md"), (ClientSettings, "client-settings.md")],
)
def test_every_setting_is_documented(settings, page):
    texts = {name: text for name, _, text in described(settings)}

    assert all(text.strip() for text in texts.values())
    assert [name for name in texts if f"| `{name}` |" not in PAGES[page]] == []


@cases("kind", ["Client", "Table", "Scan", "View", "Tail", "Writer", "Cursor", "Cursors", "Acls"])
def test_every_public_call_is_documented(kind):
    calls = [name for name in vars(getattr(headwater, kind)) if not name.startswith("_")]

    missing = [name for name in calls if f"### {kind.lower()}.{name}\n" not in PAGES["python.md"]]

    assert missing in ([], ["start"])


def test_everything_that_awaits_is_documented():
    headings = [f"### {name}\n" for name in aio.__all__ if name.startswith("Async")]

    assert [each for each in headings if each not in PAGES["python.md"]] == []
