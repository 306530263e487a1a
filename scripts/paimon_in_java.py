"""Apache Paimon in Java, asked line by line; see `foreign`.

The Java API is called over the gateway that comes with PySpark, whose jars have the Hadoop classes
that Paimon wants. No Spark session runs. The environment names the jar of Paimon.
"""

import os
from collections.abc import Callable, Iterator

import numpy as np
from py4j.java_gateway import JavaGateway, JavaObject
from pyspark.java_gateway import launch_gateway

from scripts.foreign import Answer, serve

Value = object


class Paimon:
    """Call the Java API for one warehouse."""

    def __init__(self, gateway: JavaGateway, warehouse: str) -> None:
        self._classes = gateway.jvm.org.apache.paimon
        options = self._classes.options.Options()
        options.set("warehouse", warehouse)
        context = self._classes.catalog.CatalogContext.create(options)
        self._catalog = self._classes.catalog.CatalogFactory.createCatalog(context)
        self._scratch = f"{warehouse}-scratch"

    def table(self, name: str) -> JavaObject:
        identifier = self._classes.catalog.Identifier.fromString(name)
        return self._catalog.getTable(identifier)

    def rows(self, table: str, snapshot_id: int | None = None) -> Answer:
        """Return names and rows, the values in the form of `tests.interop.lake.coded`."""
        found = self.table(table)
        if snapshot_id is not None:
            found = found.copy({"scan.snapshot-id": str(snapshot_id)})
        builder = self._classes.table.source.ReadBuilderImpl(found)
        fields = list(found.rowType().getFields())
        read = builder.newRead()
        rows = [
            [value(row) for value in self._getters(found.rowType())]
            for split in builder.newScan().plan().splits()
            for row in self._each(read.createReader(split))
        ]
        return {"names": [field.name() for field in fields], "rows": rows}

    def _each(self, reader: JavaObject) -> Iterator[JavaObject]:
        rows = self._classes.reader.RecordReaderIterator(reader)
        while rows.hasNext():
            yield rows.next()
        rows.close()

    def _getters(self, row_type: JavaObject) -> list[Callable[[JavaObject], Value]]:
        make = self._classes.data.InternalRow.createFieldGetter
        return [
            _getter(make(field.type(), at), self._decoder(field.type()))
            for at, field in enumerate(row_type.getFields())
        ]

    def _decoder(self, kind: JavaObject) -> Callable[[JavaObject], Value]:
        match kind.getTypeRoot().toString():
            case "FLOAT":
                return lambda value: str(np.float32(value))
            case "CHAR" | "VARCHAR" | "DECIMAL":
                return str
            case "BINARY" | "VARBINARY":
                return lambda value: bytes(value).hex()
            case "TIMESTAMP_WITHOUT_TIME_ZONE" | "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
                return lambda at: at.getMillisecond() * 10**6 + at.getNanoOfMillisecond()
            case "ARRAY":
                return self._list_decoder(kind.getElementType())
            case "MAP":
                return self._map_decoder(kind)
            case "ROW":
                getters = self._getters(kind)
                return lambda row: [value(row) for value in getters]
            case _:
                return lambda value: value

    def _list_decoder(self, kind: JavaObject) -> Callable[[JavaObject], Value]:
        element = self._classes.data.InternalArray.createElementGetter(kind)
        decode = self._decoder(kind)

        def values(array: JavaObject) -> list[Value]:
            held = [element.getElementOrNull(array, at) for at in range(array.size())]
            return [None if value is None else decode(value) for value in held]

        return values

    def _map_decoder(self, kind: JavaObject) -> Callable[[JavaObject], Value]:
        keys = self._list_decoder(kind.getKeyType())
        values = self._list_decoder(kind.getValueType())
        return lambda held: [
            list(pair)
            for pair in zip(keys(held.keyArray()), values(held.valueArray()), strict=True)
        ]

    def compact(self, table: str) -> Answer:
        """Have Java compact every bucket whole."""
        found = self.table(table)
        splits = self._classes.table.source.ReadBuilderImpl(found).newScan().plan().splits()
        builder = self._classes.table.sink.BatchWriteBuilderImpl(found)
        scratch = self._classes.disk.IOManager.create(self._scratch)
        write = builder.newWrite().withIOManager(scratch)
        for split in splits:
            write.compact(split.partition(), split.bucket(), True)
        builder.newCommit().commit(write.prepareCommit())
        write.close()
        return {}

    def write(self, table: str, rows: list[list[Value]]) -> Answer:
        """Have Java write rows of integers and texts, and commit them."""
        found = self.table(table)
        builder = self._classes.table.sink.BatchWriteBuilderImpl(found)
        scratch = self._classes.disk.IOManager.create(self._scratch)
        write = builder.newWrite().withIOManager(scratch)
        text = self._classes.data.BinaryString.fromString
        for values in rows:
            row = self._classes.data.GenericRow(len(values))
            for at, value in enumerate(values):
                row.setField(at, text(value) if isinstance(value, str) else value)
            write.write(row)
        builder.newCommit().commit(write.prepareCommit())
        write.close()
        return {}

    def snapshot(self, table: str) -> Answer:
        """Return the newest snapshot as Java reads it."""
        return {"json": self.table(table).snapshotManager().latestSnapshot().toJson()}


def _getter(
    field: JavaObject, decode: Callable[[JavaObject], Value]
) -> Callable[[JavaObject], Value]:
    def value_of(row: JavaObject) -> Value:
        value = field.getFieldOrNull(row)
        return None if value is None else decode(value)

    return value_of


def main() -> None:
    jar = os.environ["JARS"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {jar} pyspark-shell"
    gateway = launch_gateway()
    paimon = Paimon(gateway, os.environ["LAKE"])
    serve(
        {
            "rows": paimon.rows,
            "compact": paimon.compact,
            "write": paimon.write,
            "snapshot": paimon.snapshot,
        }
    )
    gateway.shutdown()


if __name__ == "__main__":
    main()
