"""Tables from data frames and back: `python pandas_and_polars.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
It needs pandas and Polars: `pip install 'headwater[pandas,polars]'`.
"""

import sys
import tempfile

import pandas as pd
import polars as pl

import headwater

SALES = pd.DataFrame({"city": ["Ulm", "Bonn", "Ulm"], "amount": [9.5, 3.0, 20.5]})
MORE = pl.DataFrame({"city": ["Kiel", "Bonn"], "amount": [7.25, None]})


def run(hw: headwater.Client) -> None:
    # A frame can stand for the schema of a table as well as for its rows.
    sales = hw.create_table("sales", SALES, exists_ok=True)
    sales.append(SALES)
    sales.append(MORE)

    frame = sales.scan().to_pandas()
    print(frame.groupby("city")["amount"].sum().to_string())
    large = sales.scan(where=[("amount", ">", 5)]).to_polars()
    print(large.sort("amount").to_dicts())
    # A scan is Arrow to whoever takes Arrow, batch by batch.
    print(pl.DataFrame(sales.scan(columns=["city"]))["city"].n_unique(), "cities")


def main() -> None:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            run(hw)
        return
    with tempfile.TemporaryDirectory() as directory, headwater.open(directory) as hw:
        run(hw)


if __name__ == "__main__":
    main()
