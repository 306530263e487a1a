"""The union of serialised roaring bitmaps, 32 and 64 bits wide."""

from headwater.errors import InvalidValueError, UnsupportedError
from headwater.kv.merge.art import art_from_portable, portable_from_art

try:
    from pyroaring import BitMap, BitMap64
except ImportError:
    IS_AVAILABLE = False
else:
    IS_AVAILABLE = True


def require_bitmaps() -> None:
    """Refuse to go on where the library of bitmaps is not installed."""
    if not IS_AVAILABLE:
        raise UnsupportedError(
            "The aggregate functions rbm32 and rbm64 need the package pyroaring.",
            hint="Install it on the server: pip install headwater[bitmaps].",
        )


def union32(held: bytes, written: bytes) -> bytes:
    """Unite two bitmaps in the portable form."""
    union = _read32(held)
    union |= _read32(written)
    union.run_optimize()
    return union.serialize()


def union64(held: bytes, written: bytes) -> bytes:
    """Unite two bitmaps in the form of Java's Roaring64Bitmap."""
    union = _read64(held)
    union |= _read64(written)
    union.run_optimize()
    return art_from_portable(union.serialize())


def check32(content: bytes) -> None:
    """Refuse bytes that are no 32-bit bitmap."""
    _read32(content)


def check64(content: bytes) -> None:
    """Refuse bytes that are no 64-bit bitmap."""
    _read64(content)


def _read32(content: bytes) -> "BitMap":
    require_bitmaps()
    try:
        return BitMap.deserialize(content)
    except (ValueError, IndexError) as error:
        raise InvalidValueError(f"These are not the bytes of a 32-bit bitmap: {error}.") from error


def _read64(content: bytes) -> "BitMap64":
    require_bitmaps()
    try:
        return BitMap64.deserialize(portable_from_art(content))
    except (ValueError, IndexError) as error:
        raise InvalidValueError(f"These are not the bytes of a 64-bit bitmap: {error}.") from error
