"""Total orders by customer in the server, then join them by key: `python upserts.py HOST:PORT`."""

import asyncio
import sys

import fluss
import pyarrow as pa

TOTALS = fluss.TablePath("fluss", "totals")
CUSTOMERS = fluss.TablePath("fluss", "customers")
EXIT_PAUSE_S = 0.5
TOTALS_SCHEMA = pa.schema(
    [("customer", pa.int64()), ("orders", pa.int64()), ("spent", pa.float64())]
)
CUSTOMERS_SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string())])
ORDERS = pa.table(
    {"customer": [1, 2, 1, 3, 1, 2], "spent": [20.0, 5.5, 12.5, 99.0, 7.5, 4.5]},
    schema=pa.schema([("customer", pa.int64()), ("spent", pa.float64())]),
)


async def create_tables(connection: fluss.FlussConnection) -> None:
    admin = connection.get_admin()
    totals = fluss.TableDescriptor(
        fluss.Schema(TOTALS_SCHEMA, primary_keys=["customer"]),
        properties={"table.merge-engine": "aggregation"},
        custom_properties={"fields.orders.agg": "sum", "fields.spent.agg": "sum"},
    )
    customers = fluss.TableDescriptor(fluss.Schema(CUSTOMERS_SCHEMA, primary_keys=["id"]))
    for path, descriptor in ((TOTALS, totals), (CUSTOMERS, customers)):
        await admin.drop_table(path, ignore_if_not_exists=True)
        await admin.create_table(path, descriptor)


async def upsert(table: fluss.FlussTable, rows: list[dict[str, object]]) -> None:
    """Write rows together and wait for each, so that a refused one is not overlooked."""
    writer = table.new_upsert().create_writer()
    written = [writer.upsert(row) for row in rows]
    await writer.flush()
    for each in written:
        await each.wait()


async def joined(orders: pa.Table, table: fluss.FlussTable) -> pa.Table:
    """Look up the customer of each order, each customer once, and join in Arrow.

    A lookuper does one lookup at a time; several lookups travel together from several of them.
    """
    lookup = table.new_lookup
    ids = orders["customer"].unique().to_pylist()
    found = await asyncio.gather(*(lookup().create_lookuper().lookup([each]) for each in ids))
    known = pa.Table.from_pylist([row for row in found if row], schema=CUSTOMERS_SCHEMA)
    return orders.join(known, keys="customer", right_keys="id", join_type="left outer")


async def main(address: str) -> None:
    connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": address}))
    await create_tables(connection)
    totals = await connection.get_table(TOTALS)
    customers = await connection.get_table(CUSTOMERS)
    await upsert(
        customers,
        [{"id": 1, "name": "Ada", "city": "London"}, {"id": 2, "name": "Bob", "city": "Oslo"}],
    )
    # Each order is an upsert; the server adds it to what it holds for that customer.
    await upsert(totals, [{**order, "orders": 1} for order in ORDERS.to_pylist()])

    lookuper = totals.new_lookup().create_lookuper()
    for customer in (1, 2, 3):
        row = await lookuper.lookup({"customer": customer})
        print(f"customer {customer}: {row['orders']} orders, {row['spent']:.2f} spent")
    rows = (await joined(ORDERS, customers)).sort_by([("customer", "ascending")])
    for row in rows.to_pylist():
        print(f"{row['spent']:6.2f} by {row['name'] or 'an unknown customer'}")
    await connection.close()
    # pyfluss 1.0 sometimes aborts when Python exits right after this; a pause was seen to help.
    await asyncio.sleep(EXIT_PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9123"))
