"""The tiering service of Apache Fluss on Flink, into Paimon tables in files; see `foreign`."""

import os

from py4j.java_gateway import JavaGateway

from scripts.foreign import Answer, serve
from scripts.java_gateway import java_gateway
from scripts.paimon_in_java import Paimon


class Tiering:
    """Run the service."""

    def __init__(self, gateway: JavaGateway, server: str, warehouse: str) -> None:
        self._gateway = gateway
        self._settings = {
            "fluss.bootstrap.servers": server,
            "fluss.tiering.poll.table.interval": "1s",
            "datalake.format": "paimon",
            "datalake.paimon.metastore": "filesystem",
            "datalake.paimon.warehouse": warehouse,
        }

    def start(self) -> Answer:
        """Start the service as its command does; it runs until the virtual machine ends."""
        words = [word for name, value in self._settings.items() for word in (f"--{name}", value)]
        arguments = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(words))
        for at, word in enumerate(words):
            arguments[at] = word
        self._gateway.jvm.org.apache.fluss.flink.tiering.FlussLakeTieringEntrypoint.main(arguments)
        return {}


def main() -> None:
    with java_gateway(os.environ["JARS"]) as gateway:
        tiering = Tiering(gateway, os.environ["SERVER"], os.environ["LAKE"])
        paimon = Paimon(gateway, os.environ["LAKE"])
        serve({"start": tiering.start, "rows": paimon.rows})


if __name__ == "__main__":
    main()
