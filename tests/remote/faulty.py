"""An object store that fails as real ones do, in an order that a seed decides."""

import random
from collections.abc import Iterable, Iterator, Sequence

from headwater.errors import RemoteUnreachableError


class MemoryObjects:
    """Objects in memory, with a count of requests."""

    address = "memory"

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.requests = 0

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        self.requests += 1
        found = self.held.get(key)
        return None if found is None else found[start : None if length is None else start + length]

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        self.requests += 1
        self.held[key] = b"".join(parts)

    def create(self, key: str, content: bytes) -> bool:
        self.requests += 1
        if key in self.held:
            return False
        self.held[key] = content
        return True

    def delete(self, keys: Sequence[str]) -> None:
        self.requests += 1
        for key in keys:
            self.held.pop(key, None)

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        yield from [(key, len(data)) for key, data in self.held.items() if key.startswith(prefix)]


class FaultyObjects(MemoryObjects):
    """Fail before or after the work, tear nothing, and list what was there a while ago."""

    def __init__(self, seed: int, *, share: float) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.share = share
        self.lost_answers = 0
        self._old: dict[str, bytes] = {}

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        self._fail()
        return super().read(key, start=start, length=length)

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        self._fail()
        super().put(key, parts)
        self._lose_answer()

    def create(self, key: str, content: bytes) -> bool:
        self._fail()
        created = super().create(key, content)
        self._lose_answer()
        return created

    def delete(self, keys: Sequence[str]) -> None:
        self._fail()
        super().delete(keys)
        self._lose_answer()

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        self._fail()
        old, self._old = self._old, dict(self.held)
        yield from [(key, len(data)) for key, data in old.items() if key.startswith(prefix)]

    def _fail(self) -> None:
        if self.chance.random() < self.share:
            raise RemoteUnreachableError("The store is busy.")

    def _lose_answer(self) -> None:
        if self.chance.random() < self.share:
            self.lost_answers += 1
            raise RemoteUnreachableError("The answer was lost.")
