"""The official Java client of Apache Fluss, asked line by line; see `foreign`.

The environment names its jars, the server and, as JSON, further settings of the client, such as a
login. Rows are in the form of `tests.interop.lake.coded`.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping

from py4j.java_gateway import JavaGateway, JavaObject

from scripts.foreign import Answer, serve
from scripts.java_gateway import java_gateway
from scripts.java_values import RowMaker, RowReader, Value

ENDS_WITHIN_S = 30.0
POLL_MS = 200
NO_PARTITION = None


class Catalog:
    """Call the administrator of the Java client."""

    def __init__(self, gateway: JavaGateway, connection: JavaObject) -> None:
        self._fluss = gateway.jvm.org.apache.fluss
        self._admin = connection.getAdmin()

    def path(self, table: str) -> JavaObject:
        return self._fluss.metadata.TablePath.of(*table.split("."))

    def create_database(self, name: str, comment: str) -> Answer:
        described = self._fluss.metadata.DatabaseDescriptor.builder().comment(comment).build()
        self._admin.createDatabase(name, described, False).get()
        info = self._admin.getDatabaseInfo(name).get()
        return {
            "name": info.getDatabaseName(),
            "comment": info.getDatabaseDescriptor().getComment().get(),
        }

    def drop_database(self, name: str, *, cascade: bool) -> Answer:
        self._admin.dropDatabase(name, False, cascade).get()
        return {}

    def databases(self) -> Answer:
        return {"names": list(self._admin.listDatabases().get())}

    def create_table(  # noqa: PLR0913 - one argument per trait of a table
        self,
        table: str,
        columns: Mapping[str, str],
        *,
        key: Iterable[str] = (),
        partitioned_by: Iterable[str] = (),
        bucket_key: Iterable[str] = (),
        buckets: int = 1,
        options: Mapping[str, str] | None = None,
    ) -> Answer:
        schema = self._fluss.metadata.Schema.newBuilder()
        for name, kind in columns.items():
            schema.column(name, self._fluss.types.DataTypes.parse(kind))
        if key:
            schema.primaryKey(list(key))
        described = (
            self._fluss.metadata.TableDescriptor.builder()
            .schema(schema.build())
            .partitionedBy(list(partitioned_by))
            .distributedBy(buckets, list(bucket_key))
            .properties(dict(options or {}))
            .build()
        )
        self._admin.createTable(self.path(table), described, False).get()
        return {}

    def table(self, table: str) -> Answer:
        info = self._admin.getTableInfo(self.path(table)).get()
        return {
            "columns": {c.getName(): str(c.getDataType()) for c in info.getSchema().getColumns()},
            "key": list(info.getPrimaryKeys()),
            "bucket_key": list(info.getBucketKeys()),
            "partition_keys": list(info.getPartitionKeys()),
            "buckets": info.getNumBuckets(),
            "schema_id": info.getSchemaId(),
            "options": dict(info.getProperties().toMap()),
        }

    def tables(self, database: str) -> Answer:
        return {"names": list(self._admin.listTables(database).get())}

    def table_exists(self, table: str) -> Answer:
        return {"exists": self._admin.tableExists(self.path(table)).get()}

    def drop_table(self, table: str) -> Answer:
        self._admin.dropTable(self.path(table), False).get()
        return {}

    def add_column(self, table: str, name: str, kind: str) -> Answer:
        changes = self._fluss.metadata.TableChange
        parsed = self._fluss.types.DataTypes.parse(kind)
        change = changes.addColumn(name, parsed, None, changes.ColumnPosition.last())
        self._admin.alterTable(self.path(table), [change], False).get()
        return {}

    def set_option(self, table: str, name: str, value: str) -> Answer:
        change = self._fluss.metadata.TableChange.set(name, value)
        self._admin.alterTable(self.path(table), [change], False).get()
        return {}

    def create_partition(self, table: str, values: Mapping[str, str]) -> Answer:
        spec = self._fluss.metadata.PartitionSpec(dict(values))
        self._admin.createPartition(self.path(table), spec, False).get()
        return {}

    def drop_partition(self, table: str, values: Mapping[str, str]) -> Answer:
        spec = self._fluss.metadata.PartitionSpec(dict(values))
        self._admin.dropPartition(self.path(table), spec, False).get()
        return {}

    def partitions(self, table: str) -> Answer:
        return {"ids": self.partition_ids(self.path(table))}

    def partition_ids(self, path: JavaObject) -> dict[str, int]:
        found = self._admin.listPartitionInfos(path).get()
        return {each.getPartitionName(): each.getPartitionId() for each in found}

    def offsets(
        self,
        table: str,
        *,
        at: str | int,
        buckets: int = 1,
        partition: str | None = NO_PARTITION,
    ) -> Answer:
        specs = self._fluss.client.admin.OffsetSpec
        match at:
            case "earliest":
                spec = specs.EarliestSpec()
            case "latest":
                spec = specs.LatestSpec()
            case _:
                spec = specs.TimestampSpec(at)
        place = (self.path(table), *((partition,) if partition else ()))
        found = self._admin.listOffsets(*place, list(range(buckets)), spec).all().get()
        return {"offsets": [found[bucket] for bucket in range(buckets)]}

    def row_count(self, table: str) -> Answer:
        return {"rows": self._admin.getTableStats(self.path(table)).get().getRowCount()}

    def kv_snapshots(self, table: str) -> Answer:
        found = self._admin.getLatestKvSnapshots(self.path(table)).get()
        return {"buckets": list(found.getBucketIds())}


class Permissions:
    """Grant, list and revoke with the administrator of the Java client.

    A grant is a principal, an operation, and a resource: `cluster`, a database or a table.
    """

    def __init__(self, gateway: JavaGateway, connection: JavaObject) -> None:
        self._fluss = gateway.jvm.org.apache.fluss
        self._acl = self._fluss.security.acl
        self._admin = connection.getAdmin()

    def grant(self, grants: list[list[str]]) -> Answer:
        entries = [
            self._acl.AclBinding(self._resource(resource), self._entry(who, operation))
            for who, operation, resource in grants
        ]
        self._admin.createAcls(entries).all().get()
        return {}

    def revoke(self, who: str, operation: str, resource: str) -> Answer:
        entry = self._acl.AccessControlEntryFilter(
            self._principal(who), None, self._operation(operation), self._acl.PermissionType.ALLOW
        )
        named = self._resource(resource)
        place = self._acl.ResourceFilter(named.getType(), named.getName())
        dropped = self._admin.dropAcls([self._acl.AclBindingFilter(place, entry)]).all().get()
        return {"grants": [self._told(each) for each in dropped]}

    def grants(self) -> Answer:
        found = self._admin.listAcls(self._acl.AclBindingFilter.ANY).get()
        return {"grants": sorted(self._told(each) for each in found)}

    def _entry(self, who: str, operation: str) -> JavaObject:
        allow = self._acl.PermissionType.ALLOW
        return self._acl.AccessControlEntry(
            self._principal(who), "*", self._operation(operation), allow
        )

    def _principal(self, who: str) -> JavaObject:
        kind, name = who.split(":")
        return self._acl.FlussPrincipal(name, kind)

    def _operation(self, name: str) -> JavaObject:
        return self._acl.OperationType.valueOf(name)

    def _resource(self, named: str) -> JavaObject:
        match named.split("."):
            case ["cluster"]:
                return self._acl.Resource.cluster()
            case [database]:
                return self._acl.Resource.database(database)
            case [database, table]:
                return self._acl.Resource.table(database, table)
        raise ValueError(named)

    def _told(self, each: JavaObject) -> list[str]:
        entry, resource = each.getAccessControlEntry(), each.getResource()
        who = entry.getPrincipal()
        return [
            f"{who.getType()}:{who.getName()}",
            str(entry.getOperationType()),
            f"{resource.getType()} {resource.getName()}",
        ]


class Rows:
    """Write and read rows with the Java client."""

    def __init__(self, gateway: JavaGateway, connection: JavaObject, catalog: Catalog) -> None:
        self._gateway = gateway
        self._connection = connection
        self._catalog = catalog
        self._maker = RowMaker(gateway)

    def append(self, table: str, rows: list[list[Value]]) -> Answer:
        opened = self._open(table)
        writer = opened.newAppend().createWriter()
        kinds = list(opened.getTableInfo().getRowType().getFieldTypes())
        written = [writer.append(self._maker.row(kinds, row)) for row in rows]
        return _flushed(writer, written)

    def upsert(
        self, table: str, rows: list[list[Value]], *, columns: list[str] | None = None
    ) -> Answer:
        opened = self._open(table)
        upsert = opened.newUpsert()
        if columns is not None:
            upsert = upsert.partialUpdate(self._texts(columns))
        writer = upsert.createWriter()
        kinds = list(opened.getTableInfo().getRowType().getFieldTypes())
        written = [writer.upsert(self._maker.row(kinds, row)) for row in rows]
        return _flushed(writer, written)

    def delete(self, table: str, rows: list[list[Value]]) -> Answer:
        opened = self._open(table)
        writer = opened.newUpsert().createWriter()
        kinds = list(opened.getTableInfo().getRowType().getFieldTypes())
        return _flushed(writer, [writer.delete(self._maker.row(kinds, row)) for row in rows])

    def lookup(
        self, table: str, keys: list[list[Value]], *, columns: list[str] | None = None
    ) -> Answer:
        """Return the rows of each key, or of each beginning of a key that the columns name."""
        opened = self._open(table)
        row_type = opened.getTableInfo().getRowType()
        names = columns or list(opened.getTableInfo().getPrimaryKeys())
        kinds = [row_type.getTypeAt(row_type.getFieldIndex(name)) for name in names]
        lookup = opened.newLookup() if columns is None else opened.newLookup().lookupBy(columns)
        lookuper = lookup.createLookuper()
        asked = [lookuper.lookup(self._maker.row(kinds, key)) for key in keys]
        reader = RowReader(self._gateway, row_type)
        found = [[reader.values(row) for row in each.get().getRowList() if row] for each in asked]
        return {"rows": found}

    def scan(
        self,
        table: str,
        *,
        count: int,
        columns: list[str] | None = None,
        start: list[int] | None = None,
        buckets: int = 1,
    ) -> Answer:
        """Read so many records (partition, bucket, offset, kind of change, row) and their times."""
        opened = self._open(table)
        row_type = opened.getTableInfo().getRowType()
        scan = opened.newScan()
        if columns is not None:
            scan = scan.project(columns)
            row_type = row_type.project(columns)
        scanner = scan.createLogScanner()
        names = {None: NO_PARTITION}
        if opened.getTableInfo().isPartitioned():
            found = self._catalog.partition_ids(self._catalog.path(table))
            names = {number: name for name, number in found.items()}
        starts = start or [-2] * buckets
        for number in names:
            place = () if number is None else (number,)
            for bucket, offset in enumerate(starts):
                scanner.subscribe(*place, bucket, offset)
        reader = RowReader(self._gateway, row_type)
        answer = self._polled(scanner, reader, names, count=count)
        scanner.close()
        return answer

    def _polled(
        self,
        scanner: JavaObject,
        reader: RowReader,
        names: Mapping[int | None, str | None],
        *,
        count: int,
    ) -> Answer:
        records: list[list[Value]] = []
        times: list[int] = []
        end = time.monotonic() + ENDS_WITHIN_S
        while len(records) < count and time.monotonic() < end:
            polled = scanner.poll(self._gateway.jvm.java.time.Duration.ofMillis(POLL_MS))
            for bucket in polled.buckets():
                place = [names[bucket.getPartitionId()], bucket.getBucket()]
                for record in polled.records(bucket):
                    change = record.getChangeType().shortString()
                    row = reader.values(record.getRow())
                    records.append([*place, record.logOffset(), change, row])
                    times.append(record.timestamp())
        return {"records": records, "times": times}

    def limit(self, table: str, limit: int, *, columns: list[str] | None = None) -> Answer:
        opened = self._open(table)
        row_type = opened.getTableInfo().getRowType()
        scan = opened.newScan().limit(limit)
        if columns is not None:
            scan = scan.project(columns)
            row_type = row_type.project(columns)
        bucket = self._gateway.jvm.org.apache.fluss.metadata.TableBucket(
            opened.getTableInfo().getTableId(), 0
        )
        scanner = scan.createBatchScanner(bucket)
        reader = RowReader(self._gateway, row_type)
        rows: list[list[Value]] = []
        wait = self._gateway.jvm.java.time.Duration.ofMillis(POLL_MS)
        while (batch := scanner.pollBatch(wait)) is not None:
            while batch.hasNext():
                rows.append(reader.values(batch.next()))
            batch.close()
        scanner.close()
        return {"rows": rows}

    def _open(self, table: str) -> JavaObject:
        return self._connection.getTable(self._catalog.path(table))

    def _texts(self, texts: list[str]) -> JavaObject:
        array = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(texts))
        for at, text in enumerate(texts):
            array[at] = text
        return array


def _flushed(writer: JavaObject, written: list[JavaObject]) -> Answer:
    writer.flush()
    for each in written:
        each.get()
    return {"rows": len(written)}


def connected(gateway: JavaGateway, settings: Mapping[str, str]) -> JavaObject:
    """Return a connection of the Java client."""
    fluss = gateway.jvm.org.apache.fluss
    config = fluss.config.Configuration()
    for name, value in settings.items():
        config.setString(name, value)
    return fluss.client.ConnectionFactory.createConnection(config)


def main() -> None:
    with java_gateway(os.environ["JARS"]) as gateway:
        settings = {"bootstrap.servers": os.environ["SERVER"]}
        settings |= json.loads(os.environ.get("SETTINGS", "{}"))
        connection = connected(gateway, settings)
        catalog = Catalog(gateway, connection)
        permissions = Permissions(gateway, connection)
        parts = (catalog, permissions, Rows(gateway, connection, catalog))
        served = {
            name: getattr(part, name)
            for part in parts
            for name in vars(type(part))
            if name[0] != "_"
        }
        serve(served)
        connection.close()


if __name__ == "__main__":
    main()
