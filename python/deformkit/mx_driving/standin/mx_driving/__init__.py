"""deformkit's operators under mx_driving's names, for scripts that run on the CPU."""

import torch_npu  # noqa: F401  (as the original does: scripts call .npu() without importing it themselves)

from deformkit.mx_driving import package

package.install()
globals().update(package.NAMES)

from . import api, common, detection, fused, modules, ops, patcher, point, preprocess, spconv  # noqa: E402, F401
