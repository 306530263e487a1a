"""Logs that lose their beginning while a reader asks where they begin and end."""

import asyncio

import pytest

from headwater.read import offsets
from tests.union.story import Story


class Cut:
    """Cut the log of a table after so many questions for offsets, asked one after the other."""

    def __init__(self, patch: pytest.MonkeyPatch, story: Story, *, after: int) -> None:
        self._story, self._left = story, after
        self._list, self._turn = offsets._list, asyncio.Lock()
        patch.setattr(offsets, "_list", self._listed)

    @property
    def is_done(self) -> bool:
        return self._left <= 0

    async def _listed(self, *args, **options):
        async with self._turn:
            found = await self._list(*args, **options)
            self._left -= 1
            if self._left == 0:
                table_id = self._story.table.info.table_id
                await asyncio.to_thread(self._story.storage.cut, table_id, checked=False)
            return found
