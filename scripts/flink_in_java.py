"""Apache Flink with the connector of Apache Fluss, in one virtual machine; see `foreign`.

A row comes as its kind of change and its values, of which those that JSON lacks are texts.
"""

import os

from py4j.java_gateway import JavaGateway, JavaObject

from scripts.foreign import Answer, serve
from scripts.java_gateway import java_gateway

Row = list[object]


class Flink:
    """Run SQL; each job has a cluster of its own within the virtual machine."""

    def __init__(self, gateway: JavaGateway) -> None:
        api = gateway.jvm.org.apache.flink.table.api
        settings = api.EnvironmentSettings
        self._environments = {
            "streaming": api.TableEnvironment.create(settings.inStreamingMode()),
            "batch": api.TableEnvironment.create(settings.inBatchMode()),
        }
        self._jobs: dict[str, JavaObject] = {}
        self.set("parallelism.default", "1")

    def set(self, name: str, value: str) -> Answer:
        """Set an option of all jobs that follow."""
        for environment in self._environments.values():
            environment.getConfig().set(name, value)
        return {}

    def run(self, text: str, *, mode: str = "streaming") -> Answer:
        """Run a statement to its end."""
        getattr(self._environments[mode].executeSql(text), "await")()
        return {}

    def rows(self, text: str, *, count: int | None = None, mode: str = "streaming") -> Answer:
        """Run a query, which ends by itself or when so many rows came."""
        # Whoever stops taking rows ends the job.
        return {"rows": _taken(self._environments[mode].executeSql(text), count=count)}

    def start(self, text: str) -> Answer:
        """Start a job that runs on."""
        self._jobs[text] = self._environments["streaming"].executeSql(text).getJobClient().get()
        return {}

    def cancel(self, text: str) -> Answer:
        """End a job that was started."""
        self._jobs.pop(text).cancel().get()
        return {}


def _taken(result: JavaObject, *, count: int | None) -> list[Row]:
    found = result.collect()
    rows: list[Row] = []
    while (count is None or len(rows) < count) and found.hasNext():
        row = found.next()
        values = (row.getField(at) for at in range(row.getArity()))
        rows.append([row.getKind().shortString(), *map(_told, values)])
    found.close()
    return rows


def _told(value: object) -> object:
    return value if value is None or isinstance(value, int | float | str) else str(value)


def main() -> None:
    with java_gateway(os.environ["JARS"]) as gateway:
        flink = Flink(gateway)
        names = ("cancel", "rows", "run", "set", "start")
        serve({name: getattr(flink, name) for name in names})


if __name__ == "__main__":
    main()
