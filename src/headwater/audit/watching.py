"""Following an audit while it runs."""

from collections.abc import Callable

Watch = Callable[[str], None]


def no_watch(text: str) -> None:
    """Take no notice of what is being looked at."""
