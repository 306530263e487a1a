"""Errors as they are told where only their text is left."""

from headwater.errors import HeadwaterError


def hinted(fault: HeadwaterError) -> HeadwaterError:
    """Return an error whose text has its advice: an engine passes on the text alone."""
    if fault.hint not in str(fault):
        fault.args = (f"{fault} {fault.hint}",)
    return fault
