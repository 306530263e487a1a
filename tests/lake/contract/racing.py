"""A process that commits rows beside others: `python -m tests.lake.contract.racing`."""

import base64
import pickle
import sys

from headwater.errors import LakeMovedError
from tests.lake.lake_table import LakeTable

ATTEMPTS_MAX = 500


def tiered(table: LakeTable, number: int) -> None:
    """Commit one row, again and again until it stands after the newest snapshot."""
    for _ in range(ATTEMPTS_MAX):
        head = table.committer.head()
        results = table.write([{"id": number, "name": "x"}], on=head)
        try:
            table.commit(results, on=head, round_id=f"round-{number}")
        except LakeMovedError:
            table.committer.abort(results)
        else:
            return
    raise AssertionError("never won")


def main() -> None:
    tables, numbers = pickle.loads(base64.b64decode(sys.stdin.read()))
    for number in numbers:
        for lake, spec in tables:
            tiered(LakeTable(lake, spec), number)


if __name__ == "__main__":
    main()
