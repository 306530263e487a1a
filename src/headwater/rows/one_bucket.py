"""The bucket of a single key, with plain Python: quicker than numpy for just one."""

_MASK = 0xFFFF_FFFF
_SEED = 42
_WORD_BYTES = 4
_SIGN = 0x8000_0000


def fluss_bucket(key: bytes, count: int, *, signed: bool = True) -> int:
    """Return the bucket of a key by Fluss's own function."""
    if count == 1:
        return 0
    whole = len(key) // _WORD_BYTES * _WORD_BYTES
    hashed = _SEED
    for at in range(0, whole, _WORD_BYTES):
        hashed = _taken_in(hashed, int.from_bytes(key[at : at + _WORD_BYTES], "little"))
    for byte in key[whole:]:
        # Each byte that is left over enters as a number of its own.
        hashed = _taken_in(hashed, byte | 0xFFFF_FF00 if signed and byte & 0x80 else byte)
    hashed = _finished(hashed ^ len(key))
    hashed = _finished(_spread(_mixed(hashed)) ^ _WORD_BYTES)
    # The one number whose sign cannot be taken off stands for 0.
    if hashed == _SIGN:
        return 0
    return (_MASK + 1 - hashed if hashed & _SIGN else hashed) % count


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _spread(hashed: int) -> int:
    return _rotated(hashed, 13) * 5 + 0xE6546B64 & _MASK


def _taken_in(hashed: int, word: int) -> int:
    return _spread(hashed ^ _mixed(word))


def _finished(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16
