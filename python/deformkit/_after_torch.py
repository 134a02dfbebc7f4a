"""`import deformkit, torch` registers the operators as `import torch, deformkit` does, without importing PyTorch for those who
do not use it."""

from __future__ import annotations

import contextlib
import importlib.abc
import sys
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "torch":
            return None
        others = (getattr(finder, "find_spec", None) for finder in sys.meta_path if finder is not self)
        specs = (find(name, path, target) for find in others if find)
        spec = next((spec for spec in specs if spec), None)
        if spec and spec.loader:
            spec.loader.exec_module = self._then_register(spec.loader.exec_module)
        return spec

    def _then_register(self, execute: Any) -> Any:
        def exec_module(module: Any) -> None:
            execute(module)
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self)
            # What fails here is met again, and told, by the first call with a tensor; PyTorch itself is there.
            with contextlib.suppress(Exception):
                from . import torch  # noqa: F401

        return exec_module


def register() -> None:
    if "torch" in sys.modules:
        from . import torch  # noqa: F401
    else:
        sys.meta_path.insert(0, _Finder())
