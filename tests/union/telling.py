"""Tables of every kind with rows in the lake, changed in the lake, and in the log."""

from collections import Counter

from tests.choices import EVERYTHING
from tests.union.machine import counted
from tests.union.story import Story, Traits

KINDS = [
    Traits(format=each, is_keyed=is_keyed, is_partitioned=is_partitioned)
    for each in ("iceberg", "paimon")
    for is_keyed in (False, True)
    for is_partitioned in (False, True)
]
# Each kind of table in one of the formats.
FEW = [KINDS[0], KINDS[3], KINDS[5], KINDS[6]]
TRIED = KINDS if EVERYTHING else FEW


def written(numbers, *, days=("mon", "tue"), n=None):
    """Return rows of these numbers."""
    return [
        {
            "id": each,
            "n": each % 5 if n is None else n,
            "text": "abz"[each % 3],
            "day": days[each % 2],
        }
        for each in numbers
    ]


def fitting(story, rows):
    """Return rows with the columns that a table has."""
    names = story.table.schema.names
    return [{name: row.get(name) for name in names if name in row} for row in rows]


def told(storage, traits) -> Story:
    """Return a table with rows in the lake, changed in the lake, and in the log."""
    story = Story(storage, traits)
    story.write(fitting(story, written(range(40))))
    story.tier()
    story.add_column("late", "BIGINT")
    story.write(fitting(story, written(range(30, 50), n=7)))
    story.tier()
    story.rename_column("text", "texture")
    late = [
        {**row, "late": row["id"], "texture": row["text"]} for row in written(range(45, 60), n=1)
    ]
    story.write(fitting(story, late))
    if traits.is_keyed:
        keys = story.table.info.schema.primary_key
        gone = written([0, 5, 33, 46])
        story.delete([{key: row[key] for key in keys} for row in gone])
    story.cut()
    return story


def read(engine, name, token) -> Counter:
    """Return all rows that an engine gives at a token."""
    return counted(engine.rows(name, token, columns=None, where=[]))
