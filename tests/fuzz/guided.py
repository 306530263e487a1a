"""A process in which atheris makes inputs up, led by which lines they reach.

`python -m tests.fuzz.guided MODULE TARGET DIRECTORY [options of libFuzzer]`; only the module of
the target is loaded, as what is loaded is rewritten to tell which lines are reached.
"""

import random
import sys
from importlib import import_module
from pathlib import Path

import atheris

from tests.fuzz.edits import random_edits
from tests.fuzz.limits import limit_memory

# What libFuzzer changes by itself knows nothing of lengths, checksums and fields.
_BLIND_SHARE = 0.2


def main() -> None:
    module, name, directory, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["headwater"], enable_loader_override=False):
        (target,) = (each for each in import_module(module).TARGETS if each.name == name)
    corpus = Path(directory) / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)

    def changed(data: bytes, size_max: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < _BLIND_SHARE:
            data = atheris.Mutate(data, size_max)
        return target.changed(data, random_edits(chance))[:size_max]

    limit_memory()
    given = [sys.argv[0], f"-artifact_prefix={directory}/", *options, str(corpus)]
    atheris.Setup(given, target.try_out, custom_mutator=changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
