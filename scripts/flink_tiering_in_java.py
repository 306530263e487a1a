"""The tiering service of Apache Fluss on Flink, started when asked to; see `foreign`."""

import json
import os
from collections.abc import Mapping

from py4j.java_gateway import JavaGateway

from scripts.foreign import Answer, serve
from scripts.java_gateway import java_gateway


class Tiering:
    """Run the service."""

    def __init__(self, gateway: JavaGateway, server: str, lake: Mapping[str, str]) -> None:
        self._gateway = gateway
        self._settings = {
            "fluss.bootstrap.servers": server,
            "fluss.tiering.poll.table.interval": "1s",
            **lake,
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
    lake = json.loads(os.environ["LAKE"])
    with java_gateway(os.environ["JARS"]) as gateway:
        tiering = Tiering(gateway, os.environ["SERVER"], lake)
        serve({"start": tiering.start})


if __name__ == "__main__":
    main()
