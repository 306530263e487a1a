"""Lake formats are found by their entry points, those of other packages too."""

from importlib.metadata import EntryPoint

import pytest

from headwater.errors import UnsupportedError
from headwater.lake import lakes as registry
from headwater.lake.lakes import lake_formats, open_lake
from tests.lake.plain_lake import PlainLake, register_plain_lake


def test_the_formats_of_headwater_are_registered():
    assert {"iceberg", "paimon"} <= set(lake_formats())


def test_a_format_of_another_package_is_found(monkeypatch, tmp_path):
    register_plain_lake(monkeypatch)

    assert open_lake("plain", {"warehouse": str(tmp_path)}) == PlainLake(str(tmp_path))
    assert "plain" in lake_formats()


def test_an_unknown_format_is_told_with_those_that_are_there():
    with pytest.raises(UnsupportedError, match=r"'delta'.*iceberg"):
        open_lake("delta", {})


def test_a_format_without_its_package_says_what_to_install(monkeypatch):
    entry = EntryPoint("iceberg", "no_such_package.plugin:open_lake", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry])

    with pytest.raises(UnsupportedError, match=r"no_such_package.*pip install 'headwater\[iceberg"):
        open_lake("iceberg", {})
