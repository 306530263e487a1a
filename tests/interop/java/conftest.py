"""A server of ours, the official Java client in a process of its own, and our client."""

from collections.abc import Iterator
from itertools import count

import pytest
from scripts.flink import running_flink
from scripts.fluss_jars import java_client
from scripts.foreign import Foreign, foreign

import headwater
from headwater.engines.spark.java import java_home
from tests.serving import ServerProcess, serving

_numbers = count()


@pytest.fixture(scope="session")
def served(tmp_path_factory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("served") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def java(tmp_path_factory, served) -> Iterator[Foreign]:
    log = tmp_path_factory.mktemp("java") / "log"
    with foreign(
        "scripts.fluss_in_java",
        log=log,
        JAVA_HOME=str(java_home()),
        JARS=java_client(),
        SERVER=served.address,
    ) as asked:
        yield asked


@pytest.fixture(scope="session")
def flink(tmp_path_factory, served) -> Iterator[Foreign]:
    with running_flink(served.address, log=tmp_path_factory.mktemp("flink") / "log") as asked:
        yield asked


@pytest.fixture(scope="session")
def hw(served) -> Iterator[headwater.Client]:
    with headwater.connect(served.address) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"fluss.table_{next(_numbers)}"
