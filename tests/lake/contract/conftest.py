"""Every format passes the same tests: a lake of each, and tables that are made in it."""

from inspect import signature
from pathlib import Path

import pytest

from headwater.lake.spi import LakeStorage
from tests.lake.formats import FORMATS, PLACE, config_of, opened
from tests.lake.tables import Tables


@pytest.fixture(params=FORMATS, scope="session")
def lake_format(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def lake_directory(lake_format, tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp(lake_format)


@pytest.fixture(scope="session")
def lake(lake_format, lake_directory) -> LakeStorage:
    return opened(lake_format, config_of(lake_format, lake_directory))


@pytest.fixture(scope="session")
def tables(lake) -> Tables:
    return Tables(lake)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PLACE is None:
        return
    elsewhere = pytest.mark.skip(reason="looks for the files of the lake on the local disk")
    for item in items:
        if isinstance(item, pytest.Function) and _looks_on_disk(item):
            item.add_marker(elsewhere)


def _looks_on_disk(item: pytest.Function) -> bool:
    is_here = Path(__file__).parent in item.path.parents
    named = {name for mark in item.iter_markers("usefixtures") for name in mark.args}
    return is_here and "lake_directory" in {*named, *signature(item.function).parameters}
