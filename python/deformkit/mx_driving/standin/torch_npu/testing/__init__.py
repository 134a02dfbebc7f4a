from . import common_utils, testcase  # noqa: F401
