"""Follow a table while another thread writes it: `python follow.py [HOST:PORT]`.

Without an address everything happens in this process, in a directory that is removed afterwards.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import headwater

TICKS = 5


def write(table: headwater.Table) -> None:
    for number in range(TICKS):
        table.append({"number": number, "text": f"tick {number}"})
        time.sleep(0.1)


def follow(tail: headwater.Tail) -> None:
    """Print rows as they come; a tail goes on for ever, so stop when all are there."""
    seen = 0
    for batch in tail:
        for offset, row in zip(batch.offsets, batch.rows.to_pylist(), strict=True):
            print(f"offset {offset}: {row['text']}", flush=True)
            seen += 1
        if seen == TICKS:
            return


def run(hw: headwater.Client) -> None:
    table = hw.create_table("ticks", {"number": "BIGINT", "text": "STRING"}, exists_ok=True)
    with ThreadPoolExecutor() as threads, table.tail("latest") as tail:
        writing = threads.submit(write, table)
        follow(tail)
        writing.result()


def main() -> None:
    if len(sys.argv) > 1:
        with headwater.connect(sys.argv[1]) as hw:
            run(hw)
        return
    with tempfile.TemporaryDirectory() as directory, headwater.open(directory) as hw:
        run(hw)


if __name__ == "__main__":
    main()
