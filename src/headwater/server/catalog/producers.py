"""Offsets that producers register before they write, so that they can undo after a failure.

Flink's sink for tables with the aggregation merge engine notes where every bucket ended when its
job began; if the job fails before its first checkpoint, it undoes what was written since. The
offsets are the sink's own: the server keeps them, for each user apart, and forgets them in time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import CorruptFileError, InvalidProducerError
from headwater.model.bucket import TableBucket
from headwater.model.path import name_fault
from headwater.runtime.clock import Clock
from headwater.server.catalog.store import CatalogStore

_PREFIX = "producer_offsets:"
TTL_MS = 24 * 3600 * 1000
PRODUCERS_MAX = 256
"""Producers of all users whose offsets are kept at a time."""


@dataclass(frozen=True, slots=True)
class RegisteredOffsets:
    """Where buckets ended for one producer, and until when that is kept."""

    expires_ms: int
    ends: Mapping[TableBucket, int]

    def to_json(self) -> str:
        """Write them as text."""
        ends = [
            [bucket.table_id, bucket.partition_id, bucket.bucket, end]
            for bucket, end in self.ends.items()
        ]
        return json.dumps({"expires_ms": self.expires_ms, "ends": ends})


def registered_from_json(text: str) -> RegisteredOffsets:
    """Read what `to_json` wrote."""
    try:
        node = json.loads(text)
        ends = {
            TableBucket(table_id, bucket, partition_id): end
            for table_id, partition_id, bucket, end in node["ends"]
        }
        return RegisteredOffsets(node["expires_ms"], ends)
    except (ValueError, KeyError, TypeError) as fault:
        raise CorruptFileError(f"Offsets of a producer cannot be read: {fault!r}.") from fault


class Producers:
    """Register, find and delete the offsets of producers; each user has their own."""

    def __init__(self, store: CatalogStore, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def register(
        self, producer: str, ends: Mapping[TableBucket, int], *, owner: str, ttl_ms: int | None
    ) -> bool:
        """Keep offsets unless there are some already; tell whether they are new."""
        key, now_ms = _key(producer, owner), self._clock.now_ms()
        with self._store.transaction():
            held = self._clear(now_ms)
            if key in held:
                return False
            if len(held) >= PRODUCERS_MAX:
                raise InvalidProducerError(
                    f"Offsets of {PRODUCERS_MAX} producers are kept, which is the limit.",
                    hint="Delete some, or wait until they expire.",
                )
            expires_ms = now_ms + (TTL_MS if ttl_ms is None else ttl_ms)
            self._store.put_note(key, RegisteredOffsets(expires_ms, ends).to_json())
        return True

    def find(self, producer: str, *, owner: str) -> RegisteredOffsets | None:
        """Return the offsets of a producer, if it has some that have not expired."""
        text = self._store.note_if_any(_key(producer, owner))
        found = None if text is None else registered_from_json(text)
        return None if found is None or found.expires_ms <= self._clock.now_ms() else found

    def delete(self, producer: str, *, owner: str) -> None:
        """Forget the offsets of a producer, if it has some."""
        with self._store.transaction():
            self._store.remove_note(_key(producer, owner))

    def _clear(self, now_ms: int) -> Sequence[str]:
        """Remove what has expired, and return the keys of the others."""
        kept = []
        for key, text in self._store.notes_under(_PREFIX).items():
            if registered_from_json(text).expires_ms <= now_ms:
                self._store.remove_note(key)
            else:
                kept.append(key)
        return kept


def _key(producer: str, owner: str) -> str:
    if fault := name_fault(producer):
        raise InvalidProducerError(
            f"The name of a producer {fault}.",
            hint="Use letters, digits, '_' and '-', such as the id of a Flink job.",
        )
    return f"{_PREFIX}{json.dumps([owner, producer])}"
