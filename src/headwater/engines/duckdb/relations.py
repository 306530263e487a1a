"""The relations of a database through which its queries read streams."""

from threading import Lock
from weakref import ref

import duckdb
import pyarrow as pa

from headwater.engines.duckdb.quoting import name_sql
from headwater.engines.duckdb.relation import StreamRelation
from headwater.engines.duckdb.streams import NumberedStreams
from headwater.errors import ClosedError

MARKER = "__stream"
_VIEW = "rows"


class Relations:
    """Keep one relation for each schema.

    Each stands in a small database of its own in memory, which nobody sees listed: a query that
    is being planned sees a database that is attached meanwhile, but no new view in one that it
    has looked at before.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, streams: NumberedStreams, *, alias: str
    ) -> None:
        # Weak, as the database holds the planner, and the planner this: it could never be closed.
        self._connection = ref(connection)
        self._streams = streams
        self._alias = alias
        self._names: dict[pa.Schema, str] = {}
        self._lock = Lock()

    def of(self, schema: pa.Schema) -> tuple[str, str]:
        """Return how the relation of a schema is read in SQL, and its column of streams."""
        marker = MARKER
        while marker in map(str.casefold, schema.names):
            marker += "_"
        with self._lock:
            name = self._names.get(schema)
            if name is None:
                name = self._names[schema] = self._create(schema, marker)
        return f"{name_sql(name)}.main.{_VIEW}", marker

    def _create(self, schema: pa.Schema, marker: str) -> str:
        name = f"__{self._alias}:{len(self._names)}"
        relation = StreamRelation(schema, marker=marker, streams=self._streams)
        with self.cursor() as cursor:
            cursor.execute(
                f"ATTACH OR REPLACE ':memory:' AS {name_sql(name)} (READ_WRITE, HIDDEN true)"
            )
            cursor.execute(f"USE {name_sql(name)}")
            cursor.from_arrow(relation).create_view(_VIEW)
        return name

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection beside the one that waits for the planner."""
        connection = self._connection()
        try:
            if connection is not None:
                return connection.cursor()
        except duckdb.ConnectionException:
            pass
        raise ClosedError(
            "The connection that Headwater was installed on is closed.",
            hint="Call headwater.duckdb.install with one that stays open as long as its cursors.",
        )
