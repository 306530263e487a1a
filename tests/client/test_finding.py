"""What is said where there is no such table."""

import asyncio
from dataclasses import dataclass, field

from headwater.cluster.paths import advised
from headwater.errors import DatabaseMissingError, TableMissingError, TimedOutError
from headwater.model.path import TablePath
from tests.cases import cases

MISSING = TableMissingError("There is no table.")


@dataclass
class Storage:
    """List tables by database, and count how often it is asked."""

    tables: dict[str, list[str]]
    asked: list[str] = field(default_factory=list)

    async def list_databases(self) -> list[str]:
        self.asked.append("databases")
        return sorted(self.tables)

    async def list_tables(self, database: str) -> list[str]:
        self.asked.append("tables")
        if database not in self.tables:
            raise DatabaseMissingError(f"There is no database '{database}'.")
        return self.tables[database]


class Away(Storage):
    """Answer nothing."""

    async def list_tables(self, database: str) -> list[str]:
        raise TimedOutError(f"No server told the tables of {database}.")


SHOP = {"shop": ["orders", "orders_old", "stock"]}
LETTERS = {"shop": list("abcdefg")}


def told(storage: Storage, database: str, table: str) -> Exception:
    return asyncio.run(advised(MISSING, TablePath(database, table), storage))


@cases(
    ("tables", "path", "hint"),
    [
        (SHOP, ("shop", "order"), "Did you mean orders or orders_old?"),
        (SHOP, ("shop", "x"), "The tables are orders, orders_old, stock."),
        (LETTERS, ("shop", "orders"), "The tables are a, b, c, d, e, …"),
        (SHOP, ("shp", "orders"), "There is no database 'shp'. Did you mean shop?"),
        (SHOP, ("x", "orders"), "There is no database 'x'. The databases are shop."),
        ({}, ("shop", "orders"), "There is no database 'shop'."),
    ],
)
def test_names_that_are_there_are_told(tables, path, hint):
    fault = told(Storage(tables), *path)

    assert (type(fault), fault.hint) == (TableMissingError, hint)
    assert str(fault) == f"There is no table. {hint}"


def test_where_there_is_no_table_the_advice_is_to_create_one():
    fault = told(Storage({"shop": []}), "shop", "orders")

    assert fault.hint == TableMissingError.hint


def test_a_storage_is_asked_once():
    storage = Storage(SHOP)

    told(storage, "shop", "order")

    assert storage.asked == ["tables"]


def test_a_storage_that_tells_no_names_leaves_the_error_as_it_was():
    assert told(Away(SHOP), "shop", "order") is MISSING
