"""Targets that fail in each way there is, to see that those who drive targets notice."""

import ctypes

import pyarrow as pa

from headwater.errors import CorruptBatchError
from tests.fuzz.target import ARROW_BYTES_MAX, Target


def crash(_: bytes) -> None:
    ctypes.string_at(0)


def hang(_: bytes) -> None:
    while True:
        pass


def swell(_: bytes) -> None:
    bytes(10**11)


def fail(_: bytes) -> None:
    raise ZeroDivisionError


def hoard(_: bytes) -> None:
    pa.allocate_buffer(ARROW_BYTES_MAX + 1)
    raise CorruptBatchError("but too late")


def refuse(_: bytes) -> None:
    raise CorruptBatchError("on purpose")


BROKEN = {
    run.__name__: Target(run.__name__, run, lambda: [b"seed"], (CorruptBatchError,))
    for run in (crash, hang, swell, fail, hoard, refuse)
}
