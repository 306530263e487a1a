"""Splits that somebody else planned, as an option of a read carries them to the reader."""

import json
from dataclasses import dataclass

from headwater.client.union.split import UnionSplit
from headwater.client.union.split_json import split_document, split_of_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Hold what is read, under which schema of the table."""

    schema_id: int
    splits: tuple[UnionSplit, ...]
    is_tail: bool
    """Whether only the rows of the logs are read, since Spark reads the files."""

    def to_text(self) -> str:
        """Write it as JSON."""
        node = {
            "schema_id": self.schema_id,
            "is_tail": self.is_tail,
            "splits": [split_document(split) for split in self.splits],
        }
        return json.dumps(node, separators=(",", ":"))


def planned_of(text: str) -> Planned:
    """Read what `to_text` wrote, in another process of the same version."""
    node = json.loads(text)
    return Planned(
        schema_id=node["schema_id"],
        is_tail=node["is_tail"],
        splits=tuple(split_of_document(each) for each in node["splits"]),
    )
