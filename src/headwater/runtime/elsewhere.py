"""Calls that must not be made in the thread that asks for them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def elsewhere(work: Callable[[], T]) -> T:
    """Make a call in a thread of its own, wait for it, and return what it returns."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="elsewhere") as threads:
        return threads.submit(work).result()
