"""The Apache Fluss cluster that a whole run shares."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.fluss_cluster import FlussCluster

# Set by `make interop`, and by anyone who keeps a cluster running between runs.
BOOTSTRAP_VARIABLE = "HEADWATER_FLUSS_BOOTSTRAP"


@contextmanager
def running_cluster() -> Iterator[str]:
    """Give the address of the cluster that the environment names, or of one started for this."""
    if running := os.environ.get(BOOTSTRAP_VARIABLE):
        yield running
        return
    with FlussCluster.start() as cluster:
        yield cluster.bootstrap
