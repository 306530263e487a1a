"""A lake below the storage of a contract test, and the tierer that fills it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import headwater
from headwater.lake.lakes import Lakes, lake_spec
from headwater.lake.spi import Retention
from headwater.read.plan import local_path
from headwater.tiering.plan import TieringSettings
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.lake.formats import config_of, opened

_LATER_MS = 2**42
SCHEMA = {"id": "BIGINT", "text": "STRING"}


@dataclass(frozen=True)
class Lakeside:
    """Hold a client whose tables go to lakes of one format in a directory."""

    client: headwater.Client
    format: str
    lakes: Lakes
    name: str

    @classmethod
    def of(cls, client: headwater.Client, name: str, *, kind: str, directory: Path) -> "Lakeside":
        config = config_of(kind, directory)
        opened(kind, config)
        lakes = Lakes(config=config)

        async def know(awaiting) -> None:
            awaiting.cluster.lakes = lakes

        client.run(know)
        return cls(client, kind, lakes, name)

    def log(self, **traits) -> headwater.Table:
        return self._table("log", {"bucket_by": "id", **traits})

    def keyed(self, **traits) -> headwater.Table:
        return self._table("keyed", {"primary_key": "id", **traits})

    def _table(self, kind, traits) -> headwater.Table:
        options = {
            "table.datalake.enabled": True,
            "table.datalake.format": self.format,
            **traits.pop("options", {}),
        }
        schema = traits.pop("schema", SCHEMA)
        return self.client.create_table(
            f"{self.name}_{kind}", schema, options=options, **{"buckets": 2, **traits}
        )

    def tier(self, table: headwater.Table) -> int:
        """Bring all that there is to the lake, and return the newest snapshot."""
        settings, lakes = TieringSettings(), self.lakes

        async def once(client) -> None:
            service = TieringService(client, LocalRunner(client), settings=settings, lakes=lakes)
            await service.run_once(tables=[table.path])

        self.client.run(once)
        reported = self.client.lake.snapshot(table.path)
        assert reported is not None
        return reported.snapshot_id

    def compact(self, table: headwater.Table) -> None:
        """Put files together, in a snapshot that no server is told of."""
        keeper = self.lakes.of(table.info).keeper(lake_spec(table.info))
        head = self.lakes.of(table.info).committer(lake_spec(table.info)).head()
        works = keeper.plan_rewrites(on=head)
        assert works, "nothing to compact"
        keeper.commit_rewrites([keeper.rewrite(work) for work in works], on=head)

    def lose_files(self, splits) -> None:
        """Delete the files of splits, as an expiry does that nobody reads."""
        for split in splits:
            for file in split.lake.files:
                Path(local_path(file.path)).unlink(missing_ok=True)

    def expire(self, table: headwater.Table) -> None:
        """Drop all snapshots but the newest, with the files that only they held."""
        keeper = self.lakes.of(table.info).keeper(lake_spec(table.info))
        keeper.expire(Retention(snapshots_min=1, age_ms=0), now_ms=_LATER_MS)


def rows(*ids: int, text: str = "a") -> list[dict[str, object]]:
    return [{"id": number, "text": f"{text}{number}"} for number in ids]


def counted(scan) -> Counter:
    """Return how often each row is there."""
    return Counter(tuple(sorted(row.items())) for row in scan.to_pylist())


def ids(scan) -> list[int]:
    return sorted(row["id"] for row in scan.to_pylist())
