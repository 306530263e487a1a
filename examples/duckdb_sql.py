"""SQL over tables with DuckDB: `python duckdb_sql.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
It needs DuckDB: `pip install 'headwater[duckdb]'`.
"""

import sys
import tempfile

import duckdb

import headwater
import headwater.duckdb

REPORT = """
    WITH turnover AS (
        SELECT item, count(*) AS orders, sum(price) AS turnover
        FROM hw.cafe.orders GROUP BY item
    )
    SELECT item, orders, turnover, pieces AS left
    FROM turnover JOIN hw.cafe.shelf USING (item)
    ORDER BY turnover DESC
"""


def run(hw: headwater.Client) -> None:
    hw.create_database("cafe")
    orders = hw.create_table("cafe.orders", {"id": "BIGINT", "item": "STRING", "price": "DOUBLE"})
    shelf = hw.create_table("cafe.shelf", {"item": "STRING", "pieces": "INT"}, primary_key="item")
    orders.append([(1, "tea", 2.5), (2, "cake", 4.5), (3, "tea", 5.0)])
    shelf.upsert([("tea", 90), ("cake", 7)])

    with duckdb.connect() as con:
        headwater.duckdb.install(con, hw)
        print(con.execute(REPORT).fetchall())

        # Each query sees what was written before it.
        token = shelf.view().token()
        orders.append([(4, "cake", 4.5)])
        shelf.upsert([("cake", 6)])
        print(con.execute(REPORT).fetchall())

        # Named arguments choose a position: a token here, or a moment, offsets, a snapshot.
        then = "SELECT pieces FROM fluss_read('cafe', 'shelf', token := ?) WHERE item = 'cake'"
        print(con.execute(then, [token]).fetchall())
        changes = """
            SELECT _change_type, pieces FROM fluss_read('cafe', 'shelf', mode := 'changelog')
            WHERE item = 'cake' ORDER BY _log_offset
        """
        print(con.execute(changes).fetchall())
        listed = "SELECT table_name, primary_key FROM fluss_tables() WHERE database_name = 'cafe'"
        print(con.execute(listed).fetchall())


def main() -> None:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            run(hw)
        return
    with tempfile.TemporaryDirectory() as directory, headwater.open(directory) as hw:
        run(hw)


if __name__ == "__main__":
    main()
