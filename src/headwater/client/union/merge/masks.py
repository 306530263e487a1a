"""Masks of NumPy as Arrow filters by them."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask: TypeAlias = npt.NDArray[np.bool_]


def as_filter(mask: Mask) -> pa.BooleanArray:
    """Return a mask as Arrow holds it, several times quicker than `pa.array` does."""
    packed = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(packed)])
