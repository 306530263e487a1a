"""Which way a scan of a table goes: through lake and log, or as the servers tell it alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headwater.client.cluster import Cluster
from headwater.client.reading.filters import Where
from headwater.client.reading.log_scan import LogScan
from headwater.client.reading.starts import Start
from headwater.client.reading.state_scan import StateScan
from headwater.client.reading.view import View
from headwater.client.scan import AsyncScan, BatchSource, Explanation
from headwater.client.union.looking import has_lake, look_at
from headwater.client.union.positions import Wish
from headwater.client.union.ranges import RangeScan
from headwater.client.union.scanning import UnionScan
from headwater.client.union.token import read_token
from headwater.client.union.viewing import AsyncView
from headwater.errors import RequestError
from headwater.model.partition import complete_spec, name_of_spec
from headwater.model.table import TableInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Hold what a caller asks of a scan."""

    columns: tuple[str, ...] | None = None
    where: Where | None = None
    limit: int | None = None
    partitions: tuple[Mapping[str, str], ...] | None = None
    start: Start | None = None
    end: Start | None = None
    wish: Wish = field(default_factory=Wish)


def scan_of(cluster: Cluster, table: TableInfo, asked: Asked) -> AsyncScan:
    """Return a scan of a table."""
    return AsyncScan(
        _Scans(cluster, table, asked).source(),
        name=str(table.path),
        explain=lambda: _explained(cluster, table, asked),
    )


def check_columns(table: TableInfo, wish: Wish) -> None:
    """Refuse a token of other columns than the table is known to have: a view has those."""
    if wish.token is None:
        return
    token = read_token(wish.token, path=table.path, table_id=table.table_id)
    if token.schema_id != table.schema_id:
        raise RequestError(
            f"The columns of {table.path} were others when the token was taken.",
            hint="Scan the view of the token: (await table.view(token=…)).scan()",
        )


async def _explained(cluster: Cluster, table: TableInfo, asked: Asked) -> Explanation:
    value = await look_at(cluster, table, _position(asked), renews_columns=False)
    view = AsyncView.of(cluster, value)
    return await view.explain(columns=asked.columns, where=asked.where, partitions=asked.partitions)


def _position(asked: Asked) -> Wish:
    """Return the position that a scan ends at, which `end` may name as well."""
    match asked.end:
        case None | "latest":
            return asked.wish
        case datetime():
            return Wish(as_of=asked.end)
        case "earliest":
            return Wish(mode="log")
        case _:
            return Wish(offsets=asked.end)


class _Scans:
    """Find the source of the rows that are asked for."""

    def __init__(self, cluster: Cluster, table: TableInfo, asked: Asked) -> None:
        self._cluster = cluster
        self._table = table
        self._asked = asked

    def source(self) -> BatchSource:
        asked, wish = self._asked, self._asked.wish
        if asked.start is not None or asked.end is not None:
            return self._between()
        if wish.is_newest and (wish.mode == "log" or not self._reads_lake):
            return self._alone()
        return self._union(wish)

    @property
    def _reads_lake(self) -> bool:
        return self._asked.wish.mode == "lake" or has_lake(self._table)

    def _between(self) -> BatchSource:
        """Return the rows between two moments of a log; all before the end, where none starts."""
        asked = self._asked
        if self._table.is_keyed:
            raise RequestError(
                f"{self._table.path} has a primary key, so it is scanned at a position, without"
                " bounds.",
                hint=f"Use 'as_of' or 'offsets', or scan {self._table.path}$changelog between"
                " offsets.",
            )
        if not asked.wish.is_newest or asked.wish.mode == "lake":
            raise RequestError(
                "'start' and 'end' bound the log, so they cannot be used with another position.",
                hint="Leave them out, or name the position by 'end' alone.",
            )
        if asked.wish.mode == "log" or not has_lake(self._table):
            return self._log()
        if asked.start not in (None, "earliest"):
            assert asked.start is not None
            return RangeScan(self._cluster, self._table, self._log(), start=asked.start)
        return self._log() if asked.end == "earliest" else self._union(_position(asked))

    def _union(self, wish: Wish) -> UnionScan:
        asked = self._asked
        check_columns(self._table, wish)
        return UnionScan(
            self._cluster,
            self._table,
            wish,
            wanted=View.of(self._table, columns=asked.columns, where=asked.where),
            partitions=asked.partitions,
            limit=asked.limit,
            state=self._alone(),
        )

    def _alone(self) -> BatchSource:
        """Return the rows as servers tell them."""
        asked = self._asked
        if not self._table.is_keyed:
            return self._log()
        return StateScan(
            self._cluster,
            self._table,
            columns=asked.columns,
            where=asked.where,
            limit=asked.limit,
            partitions=self._names(),
        )

    def _log(self) -> LogScan:
        asked = self._asked
        return LogScan(
            self._cluster,
            self._table,
            start=asked.start or "earliest",
            end=asked.end or "latest",
            columns=asked.columns,
            where=asked.where,
            limit=asked.limit,
            partitions=self._names(),
        )

    def _names(self) -> tuple[str, ...] | None:
        if self._asked.partitions is None:
            return None
        keys = self._table.descriptor.partition_keys
        return tuple(name_of_spec(complete_spec(each, keys)) for each in self._asked.partitions)
