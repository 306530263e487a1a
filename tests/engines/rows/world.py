"""A storage with a lake that is filled when a test says so."""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import headwater
from headwater.cluster.lake import TieringAssignment
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes
from headwater.model.boundary import TieringEpoch
from headwater.tiering.plan import Limits
from headwater.tiering.progress import TieringTurn
from headwater.tiering.round import tier_round
from headwater.tiering.task import LocalRunner
from tests.lake.formats import config_of

SCHEMA = {"id": "BIGINT", "city": "STRING", "amount": "DOUBLE"}
LIMITS = Limits(rows_max=10_000_000)


@dataclass
class World:
    """Hold a storage, and make tables in it."""

    hw: headwater.Client
    directory: Path
    format: str
    lake: dict[str, str]
    names: count = field(default_factory=count)
    turns: count = field(default_factory=lambda: count(1))

    @classmethod
    def open(cls, directory: Path, lake_format: str) -> "World":
        (directory / "lake").mkdir(parents=True)
        config = dict(config_of(lake_format, directory / "lake"))
        settings = ClientSettings(deadline_s=30.0)
        hw = headwater.open(directory / "data", listen=True, settings=settings, lake=config)
        return cls(hw, directory / "data", lake_format, config)

    def table(self, schema=SCHEMA, **traits) -> headwater.Table:
        """Make a table that goes to the lake, under a name of its own."""
        options = {
            "table.datalake.enabled": True,
            "table.datalake.format": self.format,
            **traits.pop("options", {}),
        }
        routing = {} if "primary_key" in traits else {"bucket_by": next(iter(schema))}
        traits = {"buckets": 3, **routing, **traits}
        return self.hw.create_table(f"t{next(self.names)}", schema, options=options, **traits)

    def keyed(self, schema=SCHEMA, **traits) -> headwater.Table:
        return self.table(schema, **{"primary_key": next(iter(schema)), **traits})

    def tier(self, table: headwater.Table) -> None:
        """Bring everything that was written into the lake."""
        table.refresh()
        epoch = TieringEpoch(1, next(self.turns))
        held = TieringAssignment(path=table.path, table_id=table.info.table_id, epoch=epoch)
        turn = TieringTurn(held, self.hw.lake.heartbeat().storage_id)
        self.hw.run(
            lambda client: tier_round(
                turn,
                client=client,
                runner=LocalRunner(client),
                lakes=Lakes(config=self.lake),
                limits=LIMITS,
            )
        )


def some(*ids: int, city: str = "Ulm") -> list[dict[str, object]]:
    """Return rows with these ids."""
    return [{"id": number, "city": f"{city}{number}", "amount": number / 2} for number in ids]
