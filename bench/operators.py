"""By the names of operators.cpp: a description of what each pass is compared with. See msda.py for what one has to have."""

from typing import Any

import da
import gka
import msda

DESCRIPTIONS: dict[str, Any] = {
    "msda_forward": msda.Forward,
    "msda_backward": msda.Backward,
    "da_forward": da.Forward,
    "da_backward": da.Backward,
    "gka_forward": gka.Forward,
    "gka_backward": gka.Backward,
}
