"""What is read of a table: columns, rows and shape as one value for all tasks, and its buckets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.cluster.cluster import Cluster
from headwater.cluster.paths import table_path
from headwater.cluster.schema_in import schema_of
from headwater.config.options import CHANGELOG_IMAGE, ChangelogImage
from headwater.engines.spark.clients import SparkConnection, SparkLink
from headwater.engines.spark.source_options import SourceOptions
from headwater.engines.spark.types import spark_schema
from headwater.errors import RequestError, UnsupportedError
from headwater.model import TableInfo
from headwater.model.arrow import arrow_schema
from headwater.model.path import complete_spec, name_of_spec, spec_of_name
from headwater.read.filters import Filter, RowView, Where
from headwater.read.offsets import Buckets, Place, buckets_of
from headwater.read.prune import wanted_buckets
from headwater.read.virtual import VirtualKind, VirtualShape, check_shape, virtual_schema

# Buckets and partitions as people write them: `0`, `day=2026-11-16/0`, `day=2026-11-16`.

_BETWEEN = "/"
_IS = "="


def place_text(place: Place, keys: Sequence[str]) -> str:
    """Write a bucket, given the partition keys of its table."""
    if place.partition is None:
        return str(place.bucket)
    return f"{partition_text(place.partition, keys)}{_BETWEEN}{place.bucket}"


def place_of(text: str, keys: Sequence[str]) -> Place:
    """Read a bucket, or say how to write one."""
    partition, _, number = text.rpartition(_BETWEEN)
    if not number.isdecimal() or bool(partition) != bool(keys):
        raise RequestError(f"{text!r} names no bucket.", hint=f"Write it as {_example(keys)!r}.")
    return Place(partition_of(partition, keys) if partition else None, int(number))


def partition_text(name: str, keys: Sequence[str]) -> str:
    """Write a partition by the value of each partition key."""
    return _BETWEEN.join(f"{key}{_IS}{value}" for key, value in spec_of_name(name, keys))


def partition_of(text: str, keys: Sequence[str]) -> str:
    """Return the name of a partition that is written by the value of each partition key."""
    pairs = [part.partition(_IS) for part in text.split(_BETWEEN)]
    if not keys or not all(separator for _, separator, _ in pairs):
        example = _example(keys).rpartition(_BETWEEN)[0]
        hint = f"Write it as {example!r}." if keys else "The table has no partitions."
        raise RequestError(f"{text!r} names no partition.", hint=hint)
    spec = {key.strip(): value.strip() for key, _, value in pairs}
    return name_of_spec(complete_spec(spec, keys))


def _example(keys: Sequence[str]) -> str:
    return _BETWEEN.join((*(f"{key}{_IS}…" for key in keys), "0"))


# What is read of a table: columns, rows and shape, as one value that travels to tasks.


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Hold everything that a task needs to know beside its splits."""

    connection: SparkConnection
    table: TableInfo
    columns: tuple[str, ...]
    where: Where | None
    limit: int | None
    virtual: VirtualKind | None
    follows: bool
    """Whether a stream is read, and what happens to rows after they were read is read as well."""
    fails_on_loss: bool

    @classmethod
    def of(cls, options: SourceOptions, schema: StructType, *, follows: bool) -> "Reading":
        """Find the table, and check that it has what is asked for."""
        return cls.whole(options).asked(schema, follows=follows)

    @classmethod
    def whole(cls, options: SourceOptions) -> "Reading":
        """Find the table, all of whose columns may be read."""
        link = options.connection.link()
        table = link.loop.run(link.awaiting.cluster.table(table_path(options.path)))
        check_shape(str(table.path), options.virtual, is_keyed=table.is_keyed)
        return cls(
            connection=options.connection,
            table=table,
            columns=table.schema.names,
            where=options.where,
            limit=options.limit,
            virtual=options.virtual,
            follows=False,
            fails_on_loss=options.fails_on_loss,
        )

    def asked(self, schema: StructType, *, follows: bool) -> "Reading":
        """Return what reads some columns, once it is clear that the table has them."""
        reading = replace(self, columns=tuple(schema.names), follows=follows)
        check_columns(schema, reading.whole_schema, path=reading.name)
        if reading.virtual is VirtualKind.BINLOG:
            check_image(reading.table, wanted="Updates with both their rows")
        # What is wrong with the filter is said before anything is read.
        reading.filter()
        return reading

    @property
    def name(self) -> str:
        """Return the path, with the suffix of a virtual table if its changes are read."""
        return str(self.table.path) if self.virtual is None else f"{self.table.path}${self.virtual}"

    @property
    def is_state(self) -> bool:
        """Tell whether rows are read by key, and not from a log."""
        return self.table.is_keyed and self.virtual is None

    @property
    def whole_schema(self) -> pa.Schema:
        """Return all columns that there are to read."""
        rows = arrow_schema(self.table.schema)
        return rows if self.virtual is None else virtual_schema(rows, self.virtual)

    def link(self) -> SparkLink:
        """Return the client of this process, which knows the table then."""
        link = self.connection.link()
        link.awaiting.cluster.know(self.table)
        return link

    def filter(self) -> Filter | None:
        """Return the filter, over the columns that there are to read."""
        if self.where is None:
            return None
        schema = self.table.schema if self.virtual is None else schema_of(self.whole_schema)
        return Filter.of(self.where, schema)

    def view(self) -> RowView:
        """Return what is read of the table itself."""
        if self.virtual is None:
            return RowView.of(self.table, columns=self.columns, where=self.where)
        return RowView.of(self.table, columns=self._columns_behind(self.virtual))

    def shape(self, view: RowView) -> VirtualShape | None:
        """Return what makes changes of the rows of a log, if changes are read."""
        if self.virtual is None:
            return None
        return VirtualShape(view.schema, self.virtual, columns=self.columns, where=self.where)

    def _columns_behind(self, virtual: VirtualKind) -> Sequence[str]:
        """Return the columns of the table that are needed for those of a virtual table."""
        names = self.table.schema.names
        if virtual is VirtualKind.BINLOG:
            return names
        wanted = self.filter()
        needed = {*self.columns, *(wanted.columns if wanted else ())}
        # One column at least: the log cannot be read without any.
        return [name for name in names if name in needed] or names[:1]


def check_columns(asked: StructType, whole: pa.Schema, *, path: str) -> None:
    """Refuse columns that a table does not have, or has of another type."""
    known = spark_schema(whole, columns=asked.names, path=path)
    if not asked.names:
        raise RequestError(
            f"No column of {path} is requested.", hint=f"It has {', '.join(whole.names)}."
        )
    for ours, theirs in zip(known, asked, strict=True):
        if ours.dataType.simpleString() != theirs.dataType.simpleString():
            raise RequestError(
                f"The column '{ours.name}' of {path} is {ours.dataType.simpleString()}, not"
                f" {theirs.dataType.simpleString()}.",
                hint="Ask for it with that type, and cast it in Spark.",
            )


def check_image(table: TableInfo, *, wanted: str) -> None:
    """Refuse what needs rows before updates where the log has none."""
    image = CHANGELOG_IMAGE.required(table.descriptor.properties)
    if image is ChangelogImage.WAL:
        raise UnsupportedError(
            f"{wanted} cannot be read: the log of {table.path} has no rows before updates, as its"
            f" '{CHANGELOG_IMAGE.name}' is {image}.",
            hint=f"Read {table.path}${VirtualKind.CHANGELOG}.",
        )


# The buckets of a table that are read, by the partitions named and the filter.


async def selected(cluster: Cluster, reading: Reading, options: SourceOptions) -> Buckets:
    """Return the buckets that can hold wanted rows, or say which partition there is not."""
    names = selected_names(reading, options)
    found = await buckets_of(cluster, reading.table, partitions=names)
    return wanted_buckets(found, reading.table.descriptor, reading.filter())


async def selected_still(cluster: Cluster, reading: Reading, options: SourceOptions) -> Buckets:
    """Return the buckets that exist now; partitions may have come or gone."""
    names = selected_names(reading, options)
    found = await buckets_of(cluster, reading.table)
    if names is not None:
        found = {place: bucket for place, bucket in found.items() if place.partition in names}
    return wanted_buckets(found, reading.table.descriptor, reading.filter())


def selected_names(reading: Reading, options: SourceOptions) -> frozenset[str] | None:
    """Return the names of the partitions that are asked for, or None for all of them."""
    if options.partitions is None:
        return None
    keys = reading.table.descriptor.partition_keys
    return frozenset(partition_of(text, keys) for text in options.partitions)
