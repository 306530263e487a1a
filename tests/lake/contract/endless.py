"""A process that tiers one offset after another until it is killed: `python -m …endless`."""

import base64
import pickle
import sys

from headwater.model.boundary import LakeBucket
from tests.lake.lake_table import LakeTable

BUCKET = LakeBucket(None, 0)
ROUNDS_BETWEEN_UPKEEP = 7


def main() -> None:
    lake, spec = pickle.loads(base64.b64decode(sys.stdin.read()))
    table = LakeTable(lake, spec)
    while True:
        head = table.committer.head()
        offset = 0 if head is None or head.boundary is None else head.boundary.end(BUCKET) or 0
        # The row is its offset, so that what is there tells what the boundary has to be.
        table.tier([{"id": offset, "name": "x"}], round_id=f"round-{offset}")
        if offset % ROUNDS_BETWEEN_UPKEEP == 0:
            _keep(table)
        sys.stdout.write(f"{offset}\n")
        sys.stdout.flush()


def _keep(table: LakeTable) -> None:
    head, keeper = table.head(), table.keeper
    if works := keeper.plan_rewrites(on=head):
        keeper.commit_rewrites([keeper.rewrite(work) for work in works], on=head)


if __name__ == "__main__":
    main()
