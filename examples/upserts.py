"""Total orders by customer in the storage, then join them by key: `python upserts.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
"""

import sys
import tempfile

import pyarrow as pa

import headwater

ORDERS = pa.table({"customer": [1, 2, 1, 3, 1, 2], "spent": [20.0, 5.5, 12.5, 99.0, 7.5, 4.5]})


def create_totals(hw: headwater.Client) -> headwater.Table:
    """Make a table that adds up what is written to it."""
    hw.drop_table("totals", missing_ok=True)
    return hw.create_table(
        "totals",
        {"customer": "BIGINT", "orders": "BIGINT", "spent": "DOUBLE"},
        primary_key="customer",
        options={
            "table.merge-engine": "aggregation",
            "fields.orders.agg": "sum",
            "fields.spent.agg": "sum",
        },
    )


def create_customers(hw: headwater.Client) -> headwater.Table:
    hw.drop_table("customers", missing_ok=True)
    customers = hw.create_table(
        "customers", {"id": "BIGINT", "name": "STRING", "city": "STRING"}, primary_key="id"
    )
    customers.upsert([(1, "Ada", "London"), (2, "Bob", "Oslo")])
    return customers


def joined(orders: pa.Table, customers: headwater.Table) -> pa.Table:
    """Look up the customer of each order, all at once, and put both side by side."""
    found = customers.lookup({"id": orders["customer"]}, columns=["name"], keep_missing=True)
    return orders.append_column("name", found["name"])


def run(hw: headwater.Client) -> None:
    totals, customers = create_totals(hw), create_customers(hw)

    # Each order is an upsert; it is added to what the table holds for that customer.
    ones = pa.array([1] * ORDERS.num_rows, pa.int64())
    totals.upsert(ORDERS.append_column("orders", ones))

    for row in totals.lookup([(1,), (2,), (3,)]).to_pylist():
        print(f"customer {row['customer']}: {row['orders']} orders, {row['spent']:.2f} spent")
    for row in joined(ORDERS, customers).to_pylist():
        print(f"{row['spent']:6.2f} by {row['name'] or 'an unknown customer'}")


def main() -> None:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            run(hw)
        return
    with tempfile.TemporaryDirectory() as directory, headwater.open(directory) as hw:
        run(hw)


if __name__ == "__main__":
    main()
