"""What is read of a table: columns, rows and shape, as one value that travels to tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.client.paths import table_path
from headwater.client.reading.filters import Filter, Where
from headwater.client.reading.view import View
from headwater.client.schema_in import schema_of
from headwater.client.virtual import VirtualKind, check_shape, virtual_schema
from headwater.client.virtual_reading import Shape
from headwater.config.choices import ChangelogImage
from headwater.config.options import CHANGELOG_IMAGE
from headwater.engines.spark.clients import Connection, Link
from headwater.engines.spark.source_options import SourceOptions
from headwater.engines.spark.types import spark_schema
from headwater.errors import RequestError, UnsupportedError
from headwater.model.arrow import arrow_schema
from headwater.model.table import TableInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Hold everything that a task needs to know beside its splits."""

    connection: Connection
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

    def link(self) -> Link:
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

    def view(self) -> View:
        """Return what is read of the table itself."""
        if self.virtual is None:
            return View.of(self.table, columns=self.columns, where=self.where)
        return View.of(self.table, columns=self._columns_behind(self.virtual))

    def shape(self, view: View) -> Shape | None:
        """Return what makes changes of the rows of a log, if changes are read."""
        if self.virtual is None:
            return None
        return Shape(view.schema, self.virtual, columns=self.columns, where=self.where)

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
            f"No column of {path} is asked for.", hint=f"It has {', '.join(whole.names)}."
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
