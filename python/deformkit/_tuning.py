"""What the tuner of an installed library and `./run tune`, which loads this file by itself, have in common."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def steps(lowest: int, highest: int, standard: int) -> list[int]:
    """The values of a knob that are worth trying: all of a narrow range; of a wide one 2 to the n and 3 times that, whose
    neighbours differ by a third or a half."""
    if highest - lowest < 8:
        return list(range(lowest, highest + 1))
    wide = {step << n for n in range(highest.bit_length()) for step in (1, 3)}
    return sorted({n for n in wide if lowest <= n <= highest} | {lowest, standard, highest})


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Whoever reads sees the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
