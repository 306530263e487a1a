"""A process that reads splits that others planned: `python -m tests.union.elsewhere host:port`."""

import base64
import json
import pickle
import sys

import pyarrow as pa

import headwater
from headwater.client.sync.client import Client
from headwater.client.view import AsyncView
from headwater.read.split import split_of_document


def main() -> None:
    with headwater.connect(sys.argv[1]) as client:
        for line in sys.stdin:
            answer = _answer(client, line)
            sys.stdout.write(base64.b64encode(pickle.dumps(answer)).decode() + "\n")
            sys.stdout.flush()


def _answer(client: Client, line: str) -> bytes | Exception:
    value, documents, pickled, columns, where = pickle.loads(base64.b64decode(line))
    splits = [*pickled, *(split_of_document(each) for each in json.loads(documents))]

    async def read(awaiting):
        view = AsyncView.of(awaiting.cluster, value)
        batches = []
        for split in splits:
            found = view.read([split], columns=columns, where=where)
            batches += [batch async for batch in found]
        schema = view.scan(columns=columns).schema
        return pa.Table.from_batches(batches, schema=schema)

    try:
        table = client.run(read)
    except Exception as fault:  # noqa: BLE001 - whoever asked wants to know
        return fault
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


if __name__ == "__main__":
    main()
