#!/usr/bin/env python3
"""Runs one file of tests for ctest: 77, skipped, where pytest or what the file as a whole needs is not installed."""

import sys

SKIPPED, NO_TESTS = 77, 5

try:
    import numpy  # noqa: F401
    import pytest
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)

code = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", *sys.argv[1:]])
sys.exit(SKIPPED if code == NO_TESTS else code)
