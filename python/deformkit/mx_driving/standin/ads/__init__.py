"""mx_driving, as it was called before."""

import torch_npu  # noqa: F401

from deformkit.mx_driving import package

package.install()

from . import common, motion, perception, spconv  # noqa: E402, F401
