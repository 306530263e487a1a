"""Start a Java virtual machine whose classes can be called from Python.

The gateway comes with PySpark, but nothing of Spark is on the class path: only the jars that are
named.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

# What Arrow and Flink reach for inside Java, which its modules do not open by themselves.
OPENED = ("java.lang", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent")
HEAP = "-Xmx1g"
WARNINGS = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@contextmanager
def java_gateway(jars: str, *options: str) -> Iterator[JavaGateway]:
    """Run a virtual machine with these jars for the length of a block."""
    places = (f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)
    port, token = launch_gateway(
        jarpath=str(_gateway_jar()),
        classpath=jars,
        javaopts=[HEAP, WARNINGS, *places, *options],
        java_path=str(Path(os.environ["JAVA_HOME"]) / "bin" / "java"),
        die_on_exit=True,
        enable_auth=True,
        redirect_stderr=sys.stderr,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    try:
        yield gateway
    finally:
        gateway.shutdown()


def _gateway_jar() -> Path:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    return jar
