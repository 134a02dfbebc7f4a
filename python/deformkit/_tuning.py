"""The values of a knob that are worth trying."""

from __future__ import annotations


def steps(lowest: int, highest: int, standard: int) -> list[int]:
    """All of a narrow range; of a wide one 2 to the n and 3 times that, whose neighbours differ by a third or a half."""
    if highest - lowest < 8:
        return list(range(lowest, highest + 1))
    wide = {step << n for n in range(highest.bit_length()) for step in (1, 3)}
    return sorted({n for n in wide if lowest <= n <= highest} | {lowest, standard, highest})
