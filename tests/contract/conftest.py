"""One suite for every storage that a client can reach.

`embedded` and `served` run always. `HEADWATER_CONTRACT_AT` names an Apache Fluss cluster on which
the same tests run in `make interop`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

import headwater
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from tests.audit.files.storages import errors
from tests.contract.lakes import Lakeside
from tests.serving import serving

CLUSTER = os.environ.get("HEADWATER_CONTRACT_AT")
BACKENDS = ("fluss",) if CLUSTER else ("embedded", "served")
_numbers = count()


@dataclass(frozen=True)
class Backend:
    """Hold a client and the kind of storage behind it."""

    kind: str
    client: headwater.Client

    @property
    def is_fluss(self) -> bool:
        return self.kind == "fluss"


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request, tmp_path_factory) -> Iterator[Backend]:
    directory: Path = tmp_path_factory.mktemp("contract") / "data"
    settings = ClientSettings(deadline_s=60.0)
    if request.param == "embedded":
        # Some tests tell of lakes that are not there.
        trusting = ServerSettings(lake_trusted_tierers="*")
        with headwater.open(directory, settings=settings, server_settings=trusting) as client:
            yield Backend("embedded", client)
        assert errors(directory) == []
    elif request.param == "served":
        with (
            serving(directory, "--trust-tierers", "*") as server,
            headwater.connect(server.address, settings=settings) as client,
        ):
            yield Backend("served", client)
        # What all tests left is sound by its files, as it was through the server.
        assert errors(directory) == []
    else:
        with headwater.connect(CLUSTER, settings=settings) as client:
            yield Backend("fluss", client)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip what a cluster cannot do, as long as the client says so by name."""
    try:
        return (yield)
    except headwater.errors.UnsupportedError as fault:
        if CLUSTER and "does not support" in str(fault):
            pytest.skip(str(fault))
        raise


@pytest.fixture
def client(backend) -> headwater.Client:
    return backend.client


@pytest.fixture
def name() -> str:
    """Name a table that no other test has."""
    return f"contract_{os.getpid()}_{next(_numbers)}"


@pytest.fixture(params=("iceberg", "paimon"))
def lakeside(request, backend, name, tmp_path) -> Lakeside:
    """Have a lake below the storage."""
    if backend.is_fluss:
        pytest.skip("the lake of a cluster is not ours to fill")
    return Lakeside.of(backend.client, name, kind=request.param, directory=tmp_path)


@pytest.fixture
def orders(client, name) -> headwater.Table:
    """Make a log table with two buckets."""
    schema = {"id": "BIGINT", "city": "STRING", "amount": "DOUBLE"}
    return client.create_table(name, schema, buckets=2, bucket_by="id")


@pytest.fixture
def customers(client, name) -> headwater.Table:
    """Make a primary-key table with two buckets."""
    schema = {"id": "BIGINT", "name": "STRING", "visits": "INT"}
    return client.create_table(name, schema, primary_key="id", buckets=2)
