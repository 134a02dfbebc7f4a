"""By the names of operators.cpp: a description of what each pass is compared with. See msda.py for what one has to have."""

import msda

DESCRIPTIONS = {
    "msda_forward": msda.Forward,
    "msda_backward": msda.Backward,
}
