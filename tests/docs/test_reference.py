"""The reference pages say what the code says."""

import importlib.util
from pathlib import Path

import pytest

from headwater.config.options import TABLE_OPTIONS
from headwater.config.server import described_settings

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def generated() -> dict[str, str]:
    place = ROOT / "scripts" / "generate_reference.py"
    spec = importlib.util.spec_from_file_location("generate_reference", place)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reference_pages()


PAGES = generated()


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name):
    assert (REFERENCE / name).read_text() == PAGES[name], "run `make docs` and commit the page"


def test_every_generated_page_is_in_the_reference_and_no_other():
    assert {path.name for path in REFERENCE.glob("*.md")} == set(PAGES)


@pytest.mark.parametrize("name", TABLE_OPTIONS)
def test_every_table_option_is_documented(name):
    assert TABLE_OPTIONS[name].description.strip()
    assert f"| `{name}` |" in PAGES["table-options.md"]


@pytest.mark.parametrize(("name", "description"), [(n, d) for n, _, d in described_settings()])
def test_every_server_setting_is_documented(name, description):
    assert description.strip()
    assert f"| `{name}` |" in PAGES["server-settings.md"]
