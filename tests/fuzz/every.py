"""All targets, by name."""

from tests.fuzz import (
    targets_batches,
    targets_connection,
    targets_files,
    targets_frames,
    targets_json,
    targets_requests,
    targets_rows,
    targets_twice,
)
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (
        targets_frames,
        targets_connection,
        targets_batches,
        targets_rows,
        targets_twice,
        targets_json,
        targets_files,
        targets_twice,
        targets_requests,
    )
    for target in module.TARGETS
}


def slug(name: str) -> str:
    """Return the name of a target as part of the name of a file."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
