"""The marks of an index or checkpoint, compared with the batches that they speak of."""

from collections.abc import Sequence
from dataclasses import replace

from headwater.log.mark import Mark, extend_chain, fits


class Trail:
    """Follow the marks of one file along the batches of its segment."""

    def __init__(self, source: str, marks: Sequence[Mark]) -> None:
        self.source = source
        self.end = marks[-1]
        # The place before which everything is as the marks say.
        self.known = replace(marks[0], position=0)
        self.misfit = ""
        self._wanted = [mark for mark in marks if mark.position]
        self._chain = 0

    def step(self, head: bytes, after: Mark) -> bool:
        """Take the header of a batch, and the place behind it; tell whether all fits."""
        self._chain = extend_chain(self._chain, head)
        if not self._wanted or after.position < self._wanted[0].position:
            return True
        expected = self._wanted.pop(0)
        if after.position != expected.position:
            self.misfit = f"{self.source} names byte {expected.position}, where no batch begins"
        elif not fits(expected, replace(after, chain=self._chain)):
            self.misfit = f"the batch headers before byte {expected.position} do not fit"
            self.misfit += f" {self.source}"
        self.known, self._chain = (self.known if self.misfit else expected), 0
        return not self.misfit
