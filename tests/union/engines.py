"""Every way to read a table at a token; each gives an Arrow table."""

import base64
import json
import pickle
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import headwater.arrow
import headwater.datafusion
import headwater.duckdb
import headwater.polars
from headwater.client.sync.client import Client
from headwater.read.split import split_document, split_of_document
from tests.union.wanting import Term

Columns = Sequence[str] | None
_COMPARE = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Engine(ABC):
    """One way to read."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @abstractmethod
    def rows(self, table: str, token: str, *, columns: Columns, where: Sequence[Term]) -> pa.Table:
        """Return the rows of a table at a token that pass, in the wanted columns."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of what was opened."""


class ClientScan(Engine):
    def rows(self, table, token, *, columns, where):
        view = self.client.table(table).view(token=token)
        return view.scan(columns=columns, where=where or None).to_arrow()


class TableScan(Engine):
    def rows(self, table, token, *, columns, where):
        scan = self.client.table(table).scan(token=token, columns=columns, where=where or None)
        return scan.to_arrow()


class Pandas(Engine):
    def rows(self, table, token, *, columns, where):
        view = self.client.table(table).view(token=token)
        scan = view.scan(columns=columns, where=where or None)
        return pa.Table.from_pandas(scan.to_pandas(), schema=scan.schema, preserve_index=False)


class Elsewhere(Engine):
    """Plan here, and read in another process: some splits from their JSON, some from a pickle."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.union.elsewhere", client.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def rows(self, table, token, *, columns, where):
        view = self.client.table(table).view(token=token)
        splits = view.plan(columns=columns, where=where or None).splits
        documents = json.dumps([split_document(each) for each in splits[::2]])
        # What this reader does not need, others may.
        assert [split_of_document(each) for each in json.loads(documents)] == [*splits[::2]]
        work = (view.value, documents, splits[1::2], columns, where or None)
        self._process.stdin.write(base64.b64encode(pickle.dumps(work)) + b"\n")
        self._process.stdin.flush()
        answer = pickle.loads(base64.b64decode(self._process.stdout.readline()))
        if isinstance(answer, Exception):
            raise answer
        return pa.ipc.open_stream(answer).read_all()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


class ArrowDataset(Engine):
    def rows(self, table, token, *, columns, where):
        dataset = headwater.arrow.dataset(self.client, table, token=token)
        tests = [_expression(term) for term in where]
        wanted = reduce(and_, tests) if tests else None
        return dataset.to_table(columns=None if columns is None else [*columns], filter=wanted)


class Sql(Engine):
    """An engine that takes SQL."""

    def rows(self, table, token, *, columns, where):
        names = "*" if columns is None else ", ".join(f'"{name}"' for name in columns)
        condition = " AND ".join(_sql(term) for term in where) or "1 = 1"
        return self.run(table, token, sql=f"SELECT {names} FROM {{}} WHERE {condition}")

    @abstractmethod
    def run(self, table: str, token: str, *, sql: str) -> pa.Table:
        """Run a query with a gap where the table goes."""


class DuckDB(Sql):
    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.connection = duckdb.connect()
        headwater.duckdb.install(self.connection, client)

    def run(self, table, token, *, sql):
        database, name = table.split(".")
        source = f"hw.fluss_read('{database}', '{name}', token := '{token}')"
        return self.connection.sql(sql.format(source)).to_arrow_table()

    def close(self):
        self.connection.close()


class Polars(Sql):
    def run(self, table, token, *, sql):
        frame = headwater.polars.scan(self.client, table, token=token)
        return pl.SQLContext(t=frame).execute(sql.format("t")).collect().to_arrow()


class DataFusion(Sql):
    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.context = datafusion.SessionContext()
        headwater.datafusion.install(self.context, client)

    def run(self, table, token, *, sql):
        database, name = table.split(".")
        source = f"fluss_read('{self.client.address}', '{database}', '{name}', 'union', '{token}')"
        return self.context.sql(sql.format(source)).to_arrow_table()


ENGINES: Mapping[str, type[Engine]] = {
    "client": ClientScan,
    "table": TableScan,
    "pandas": Pandas,
    "elsewhere": Elsewhere,
    "arrow": ArrowDataset,
    "duckdb": DuckDB,
    "polars": Polars,
    "datafusion": DataFusion,
}


def _expression(term: Term) -> pc.Expression:
    column, (test, *wanted) = pc.field(term[0]), term[1:]
    match test:
        case "is null":
            return column.is_null()
        case "is not null":
            return column.is_valid()
        case "in":
            return column.isin(wanted[0])
        case "not in":
            # Null is in no list for Arrow, and neither in nor out of one for SQL.
            return ~column.isin(wanted[0]) & column.is_valid()
        case "starts with":
            return pc.starts_with(column, wanted[0])
        case "contains":
            return pc.match_substring(column, wanted[0])
        case _:
            return _COMPARE[test](column, pc.scalar(wanted[0]))


def _sql(term: Term) -> str:
    column, (test, *wanted) = f'"{term[0]}"', term[1:]
    match test:
        case "is null" | "is not null":
            return f"{column} {test}"
        case "in" | "not in":
            return f"{column} {test} ({', '.join(_literal(each) for each in wanted[0])})"
        case "starts with":
            return f"{column} LIKE '{wanted[0]}%'"
        case "contains":
            return f"{column} LIKE '%{wanted[0]}%'"
        case _:
            return f"{column} {'=' if test == '==' else test} {_literal(wanted[0])}"


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
