"""All targets, by name."""

from tests.fuzz import (
    targets_batches,
    targets_connection,
    targets_files,
    targets_frames,
    targets_json,
    targets_logins,
    targets_requests,
    targets_rows,
    targets_twice,
)
from tests.fuzz.target import Target

_MODULES = (
    targets_frames,
    targets_connection,
    targets_batches,
    targets_rows,
    targets_json,
    targets_files,
    targets_twice,
    targets_requests,
    targets_logins,
)
TARGETS: dict[str, Target] = {
    target.name: target for module in _MODULES for target in module.TARGETS
}
MODULE_OF: dict[str, str] = {
    target.name: module.__name__ for module in _MODULES for target in module.TARGETS
}


def slug(name: str) -> str:
    """Return the name of a target as part of the name of a file."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
