"""A lake of every format in the object store that `make interop` runs."""

from collections.abc import Mapping

import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from headwater.lake.spi import LakeStorage
from headwater.model.types import BigIntType, StringType
from tests.lake.formats import FORMATS, PLACE, config_of, opened
from tests.lake.lake_table import LakeTable
from tests.lake.tables import Tables

SCHEMA = {"id": BigIntType(nullable=False), "name": StringType()}


@pytest.fixture(autouse=True)
def place() -> str:
    if PLACE is None:
        pytest.skip("HEADWATER_LAKE_AT names no object store; `make interop` runs one")
    return PLACE


@pytest.fixture(params=FORMATS)
def lake_format(request) -> str:
    return request.param


@pytest.fixture
def config(lake_format, tmp_path) -> Mapping[str, str]:
    return config_of(lake_format, tmp_path)


@pytest.fixture
def lake(lake_format, config) -> LakeStorage:
    return opened(lake_format, config)


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def table(lake, request) -> LakeTable:
    return Tables(lake).make(SCHEMA, key=request.param)


@pytest.fixture
def objects(config):
    """Return what the store holds of the lake."""
    scheme, _, address = config["s3.endpoint"].partition("://")
    store = S3FileSystem(endpoint_override=address, scheme=scheme, region=config["s3.region"])
    below = FileSelector(config["warehouse"].removeprefix("s3://"), recursive=True)
    return lambda: {each.path for each in store.get_file_info(below) if each.is_file}
