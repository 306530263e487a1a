"""Views that queries still read, of which only the newest keep what they have read."""

from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from threading import Lock

from headwater.client.sync.table import Table
from headwater.client.sync.view import View

VIEWS_MAX = 16
"""A view by key holds its folded tail: as many as queries run at once, and some more."""


class HeldViews:
    """Give views by what they are made of, and keep the newest ones as they are."""

    def __init__(self, views_max: int = VIEWS_MAX) -> None:
        self._views: OrderedDict[int, View] = OrderedDict()
        self._numbers = count()
        self._views_max = views_max
        self._lock = Lock()

    def keep(self, table: Table, view: View) -> Callable[[], View]:
        """Return what gives the view, at any time later and however often."""
        number, value = next(self._numbers), view.value
        self._put(number, view)

        def found() -> View:
            with self._lock:
                held = self._views.get(number)
            if held is None:
                # It reads the same rows again, since offsets and snapshots do not change.
                held = table.view_of(value)
                self._put(number, held)
            return held

        return found

    def _put(self, number: int, view: View) -> None:
        with self._lock:
            self._views[number] = view
            self._views.move_to_end(number)
            while len(self._views) > self._views_max:
                self._views.popitem(last=False)
