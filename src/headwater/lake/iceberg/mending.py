"""A fault of pyiceberg mended: its quick decoder reads doubles of manifests as floats.

A table parted by a DOUBLE would lose rows to it: 0.1 is read as 0.10000000149011612, no filter
finds that partition, and a manifest that is written anew holds the wrong value for good.
"""

import struct

from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.reader import DoubleReader

_DOUBLE = struct.Struct("<d")
_PROBE = 0.1


def mend_doubles() -> None:
    """Read doubles in full from now on, unless pyiceberg does so by itself."""
    reader = object.__new__(DoubleReader)
    if reader.read(new_decoder(_DOUBLE.pack(_PROBE))) != _PROBE:
        setattr(DoubleReader, "read", _read_double)  # noqa: B010 (a method is not assigned to)


def _read_double(_: DoubleReader, decoder: BinaryDecoder) -> float:
    number: float = _DOUBLE.unpack(decoder.read(_DOUBLE.size))[0]
    return number
