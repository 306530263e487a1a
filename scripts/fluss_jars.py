"""The official clients of Apache Fluss: which jars they are made of."""

import os
from collections.abc import Iterable

from scripts.maven import Artifact, fetch_all

FLUSS = "0.9.1-incubating"  # the newest whose clients are published
LOGGER = Artifact("org.slf4j", "slf4j-simple", "1.7.36")


def java_client() -> str:
    """Return the class path of the Java client."""
    return class_path((Artifact("org.apache.fluss", "fluss-client", FLUSS), LOGGER))


def class_path(jars: Iterable[Artifact]) -> str:
    """Return jars as Java wants them named."""
    return os.pathsep.join(map(str, fetch_all(jars)))
