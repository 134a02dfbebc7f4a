"""mx_driving.patcher: puts the package's operators into mmcv, and a user's changes into other packages, before a script runs.

The patch of multi-scale deformable attention does what it says. The package's other patches make something faster or possible on
an NPU: here they are accepted, and one line of the log names those that were left out.
"""

from __future__ import annotations

import enum
import functools
import importlib
import importlib.machinery
import inspect
import logging
import sys
import types
from typing import Any, Callable, NamedTuple, Optional

from .ops import MultiScaleDeformableAttnFunction

patcher_logger = logging.getLogger("mx_driving.patcher")
Options = Optional[dict[str, Any]]


class PatchStatus(enum.Enum):
    APPLIED = "applied"
    SKIPPED = "skipped"
    FAILED = "failed"


class PatchResult(NamedTuple):
    status: PatchStatus
    name: str
    module: str = ""
    reason: str = ""


def _find(path: str) -> Any:
    """What a dotted path names, importing what it leads through; None if there is no such thing."""
    found: Any = None
    parts = path.split(".")
    for i, part in enumerate(parts):
        if isinstance(found, dict):
            found = found.get(part)
        elif found is not None and hasattr(found, part):
            found = getattr(found, part)
        else:
            try:
                found = importlib.import_module(".".join(parts[: i + 1]))
            except ImportError:
                return None
    return found


def _passes(precheck: Optional[Callable[..., bool]], **known: Any) -> bool:
    if precheck is None:
        return True
    wanted = inspect.signature(precheck).parameters
    return bool(precheck(**{name: value for name, value in known.items() if name in wanted}))


class BasePatch:
    """apply() makes the change, and says what came of it instead of raising."""

    name: str

    def apply(self) -> PatchResult:
        try:
            return self._apply()
        except (AttributeError, ImportError) as error:
            return PatchResult(PatchStatus.SKIPPED, self.name, reason=str(error))
        except Exception as error:
            return PatchResult(PatchStatus.FAILED, self.name, reason=f"{type(error).__name__}: {error}")

    def _apply(self) -> PatchResult:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class AtomicPatch(BasePatch):
    """Puts `replacement` (or the object that it names), or target_wrapper(original), in the place of `target`, a dotted path.
    With runtime_check, for calls whose arguments it accepts; others go to the original."""

    def __init__(
        self,
        target: str,
        replacement: Any = None,
        *,
        aliases: Optional[list[str]] = None,
        precheck: Optional[Callable[..., bool]] = None,
        runtime_check: Optional[Callable[..., bool]] = None,
        replacement_wrapper: Optional[Callable[[Any], Any]] = None,
        target_wrapper: Optional[Callable[[Any], Any]] = None,
    ) -> None:
        if replacement is None and target_wrapper is None:
            raise ValueError("expected a replacement or a target_wrapper")
        self.name = self.target = target
        self.replacement, self.aliases = replacement, aliases or []
        self.precheck, self.runtime_check = precheck, runtime_check
        self.replacement_wrapper, self.target_wrapper = replacement_wrapper, target_wrapper
        self.is_applied = False

    def _apply(self) -> PatchResult:
        result = self._apply_to(self.target)
        for alias in self.aliases:
            self._apply_to(alias)
        self.is_applied = result.status is PatchStatus.APPLIED
        return result

    def _apply_to(self, target: str) -> PatchResult:
        module = target.partition(".")[0]
        place, _, attribute = target.rpartition(".")
        parent = _find(place)
        inside = isinstance(parent, dict)
        if parent is None or not (attribute in parent if inside else hasattr(parent, attribute)):
            return PatchResult(PatchStatus.SKIPPED, self.name, module, f"there is no {target}")
        if not _passes(self.precheck, target=self.target, replacement=self.replacement, aliases=self.aliases):
            return PatchResult(PatchStatus.SKIPPED, self.name, module, "precheck failed")
        original = parent[attribute] if inside else getattr(parent, attribute)
        new = _find(self.replacement) if isinstance(self.replacement, str) else self.replacement
        if new is not None:
            new = self.replacement_wrapper(new) if self.replacement_wrapper else new
        elif self.target_wrapper is not None:
            new = self.target_wrapper(original)
        else:
            return PatchResult(PatchStatus.SKIPPED, self.name, module, f"there is no {self.replacement}")
        if self.runtime_check is not None:
            new = self._checked(original, new)
        if inside:
            parent[attribute] = new
        else:
            static = isinstance(parent, type) and isinstance(inspect.getattr_static(parent, attribute), staticmethod)
            setattr(parent, attribute, staticmethod(new) if static else new)
        return PatchResult(PatchStatus.APPLIED, self.name, module)

    def _checked(self, original: Any, new: Any) -> Any:
        check: Any = self.runtime_check

        @functools.wraps(new)
        def call(*arguments: Any, **named: Any) -> Any:
            return (new if check(*arguments, **named) else original)(*arguments, **named)

        return call


class RegistryPatch(BasePatch):
    """Registers a class with a registry of mmcv or mmengine, a dotted path."""

    def __init__(
        self,
        registry: str,
        module_cls: Any = None,
        *,
        name: Optional[str] = None,
        force: bool = True,
        precheck: Optional[Callable[..., bool]] = None,
        module_factory: Optional[Callable[[], Any]] = None,
    ) -> None:
        if module_cls is None and (module_factory is None or name is None):
            raise ValueError("expected a module_cls, or a module_factory and a name")
        self.registry, self.force, self.precheck = registry, force, precheck
        self.make = module_factory or (lambda: module_cls)
        self.register_name = name or module_cls.__name__
        self.name = f"{registry}.{self.register_name}"

    def _apply(self) -> PatchResult:
        registry = _find(self.registry)
        if registry is None or not _passes(self.precheck, registry=self.registry, name=self.register_name, force=self.force):
            return PatchResult(PatchStatus.SKIPPED, self.name, reason=f"there is no {self.registry}, or precheck failed")
        registry.register_module(name=self.register_name, force=self.force, module=self.make())
        return PatchResult(PatchStatus.APPLIED, self.name)


class Patch(BasePatch):
    """Patch(function): function(module, options) changes a module. Or the base of a class whose patches() lists others."""

    name: str = ""
    legacy_name: str = ""
    target_module: str = ""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.name = vars(cls).get("name") or cls.__name__

    def __init__(
        self,
        func: Optional[Callable[..., Any]] = None,
        options: Options = None,
        priority: int = 0,
        patch_failure_warning: bool = True,
        target_module: str = "",
    ) -> None:
        self.func, self.options, self.priority = func, options or {}, priority
        self.patch_failure_warning = patch_failure_warning
        self.is_applied = False
        if func is not None:
            self.name, self.target_module = getattr(func, "__name__", repr(func)), target_module

    @classmethod
    def patches(cls, options: Options = None) -> list[BasePatch]:
        return []

    @classmethod
    def apply_all(cls, options: Options = None) -> list[PatchResult]:
        return [patch.apply() for patch in cls.patches(options)]

    def _apply(self) -> PatchResult:
        if self.func is not None:
            self.func(importlib.import_module(self.target_module), self.options)
            self.is_applied = True
            return PatchResult(PatchStatus.APPLIED, self.name, self.target_module)
        results = self.apply_all(self.options)
        return max(results, key=lambda result: list(PatchStatus).index(result.status))

    def __lt__(self, other: Patch) -> bool:
        return self.priority < other.priority


class LegacyPatch(Patch):
    def __init__(self, func: Callable[..., Any], options: Options = None, target_module: Optional[str] = None) -> None:
        if target_module is None:
            raise ValueError("target_module: expected the name of a module, got None")
        super().__init__(func, options, target_module=target_module)


class MultiScaleDeformableAttention(Patch):
    """mmcv's Function, and what its module calls for tensors in host memory: here, all of them."""

    name = "multi_scale_deformable_attention"
    legacy_name = "msda"
    target_module = "mmcv"

    @classmethod
    def patches(cls, options: Options = None) -> list[BasePatch]:
        from ..adapters.mmcv import multi_scale_deformable_attn_pytorch

        module = "mmcv.ops.multi_scale_deform_attn"
        function = f"{module}.MultiScaleDeformableAttnFunction"
        return [
            AtomicPatch(f"{function}.forward", MultiScaleDeformableAttnFunction.forward, replacement_wrapper=_with_step),
            AtomicPatch(f"{function}.backward", MultiScaleDeformableAttnFunction.backward),
            AtomicPatch(f"{module}.multi_scale_deformable_attn_pytorch", multi_scale_deformable_attn_pytorch),
        ]


def _with_step(forward: Callable[..., Any]) -> Callable[..., Any]:
    def forward_with_step(ctx: Any, *tensors: Any, im2col_step: Any = None) -> Any:
        return forward(ctx, *tensors[:5])  # mmcv passes the step behind them

    return forward_with_step


#: The package's other patches, by the names of their classes: as functions called, and whose module they change.
_WITHOUT_EFFECT = {
    "DeformConv": ("dc", "mmcv"),
    "ModulatedDeformConv": ("mdc", "mmcv"),
    "SparseConv3D": ("spconv3d", "mmcv"),
    "Voxelization": ("voxelization", "mmcv"),
    "Stream": ("stream", "mmcv"),
    "DDP": ("ddp", "mmcv"),
    "OptimizerHooks": ("optimizer_hooks", "mmcv"),
    "OptimizerWrapper": ("optimizer_wrapper", "mmengine"),
    "PseudoSampler": ("pseudo_sampler", "mmdet"),
    "ResNetAddRelu": ("resnet_add_relu", "mmdet"),
    "ResNetMaxPool": ("resnet_maxpool", "mmdet"),
    "ResNetFP16": ("resnet_fp16", "mmdet"),
    "NuScenes": ("nuscenes", "mmdet3d"),
    "NuScenesDataset": ("nuscenes_dataset", "mmdet3d"),
    "NuScenesMetric": ("nuscenes_metric", "mmdet3d"),
    "NuScenesMotMetric": ("nuscenes_mot_metric", "mmdet3d"),
    "NumpyCompat": ("numpy_type", "numpy"),
    "TensorIndex": ("index", "torch"),
    "BatchMatmul": ("batch_matmul", "torch"),
    "TorchScatter": ("scatter", "torch_scatter"),
    "Profiler": ("profiler", "mmcv"),
    "Brake": ("brake", "mmcv"),
}


class _WithoutEffect(Patch):
    def _apply(self) -> PatchResult:
        return PatchResult(PatchStatus.SKIPPED, self.name, self.target_module, "without effect on the CPU")

    @classmethod
    def patches(cls, options: Options = None) -> list[BasePatch]:
        return [cls()]


def _log_left_out(names: list[str]) -> None:
    if names:
        patcher_logger.warning("mx_driving.patcher: without effect on the CPU, and left out: %s", ", ".join(names))


def _as_function(kind: type[Patch]) -> Callable[..., None]:
    """The same patch in the package's older form."""

    def change(module: Any = None, options: Options = None) -> None:
        if issubclass(kind, _WithoutEffect):
            _log_left_out([kind.legacy_name])
        else:
            for result in kind.apply_all(options):
                if result.status is not PatchStatus.APPLIED:
                    raise AttributeError(result.reason)

    change.__name__ = change.__qualname__ = kind.legacy_name
    change.kind = kind  # type: ignore[attr-defined]
    return change


_CLASSES: dict[str, type[Patch]] = {
    name: type(name, (_WithoutEffect,), {"legacy_name": function, "target_module": module, "name": function})
    for name, (function, module) in _WITHOUT_EFFECT.items()
}
_CLASSES["MultiScaleDeformableAttention"] = _CLASSES["MSDA"] = MultiScaleDeformableAttention
_FUNCTIONS = {kind.legacy_name: _as_function(kind) for kind in _CLASSES.values()}


class Patcher:
    """Applies patches in the order in which they were added: apply(), or `with patcher:`."""

    def __init__(self) -> None:
        self._entries: list[tuple[Any, Options]] = []
        self._disabled: set[str] = set()
        self.is_applied = False

    def add(self, *patches: Any, options: Options = None) -> Patcher:
        self._entries += [(patch, options) for patch in patches]
        return self

    def disable(self, *names: Any) -> Patcher:
        self._disabled.update(name if isinstance(name, str) else name.name for name in names)
        return self

    def apply(self, allow_internal_format: Optional[bool] = None) -> Patcher:
        if self.is_applied:
            return self
        if "torch_npu" in sys.modules:
            importlib.import_module("torch_npu.contrib.transfer_to_npu")
        self.is_applied = True
        left_out: list[str] = []
        for entry, options in self._entries:
            kind: Any = entry if isinstance(entry, type) else type(entry)
            kind = getattr(getattr(entry, "func", None), "kind", kind)
            if {entry.name, getattr(kind, "name", ""), getattr(kind, "legacy_name", "")} & self._disabled - {""}:
                continue
            if issubclass(kind, _WithoutEffect):
                left_out.append(kind.legacy_name)
                continue
            for patch in kind.patches(options) if isinstance(entry, type) else [entry]:
                result = patch.apply()
                if result.status is not PatchStatus.APPLIED and getattr(entry, "patch_failure_warning", True):
                    patcher_logger.warning("mx_driving.patcher: %s %s: %s", result.name, result.status.value, result.reason)
        _log_left_out(left_out)
        return self

    def with_profiling(self, path: str, *levels: Any, **steps: Any) -> Patcher:
        return self.add(_CLASSES["Profiler"])

    def brake_at(self, step: int) -> Patcher:
        return self.add(_CLASSES["Brake"])

    def allow_internal_format(self, allow: bool = True) -> Patcher:
        return self  # there is none

    def disallow_internal_format(self) -> Patcher:
        return self

    def print_info(self, diff: bool = False) -> Patcher:
        for entry, _ in self._entries:
            print(entry.name)
        return self

    def replace_import(
        self, path: str, replacement: Any = None, *, base_module: Any = None, exports: Options = None, **named: Any
    ) -> Patcher:
        """From now on `path` imports as a module with what `replacement` (a module, or its name) and `exports` have."""
        base = replacement or base_module
        module = types.ModuleType(path)
        if base is not None:
            base = importlib.import_module(base) if isinstance(base, str) else base
            vars(module).update({name: value for name, value in vars(base).items() if not name.startswith("__")})
        vars(module).update({**(exports or {}), **named})
        _register(path, module)
        return self

    def skip_import(self, *paths: str) -> Patcher:
        """From now on `paths` import as modules that have every name, and nothing behind it."""
        for path in paths:
            _register(path, _Nothing(path))
        if _Nothing not in sys.meta_path:
            sys.meta_path.append(_Nothing)
        return self

    def inject_import(self, source: str, name: str, target: str) -> Patcher:
        """Makes `name` of module `source` a name of module `target` as well."""
        setattr(importlib.import_module(target), name, getattr(importlib.import_module(source), name))
        return self

    def __enter__(self) -> Patcher:
        return self.apply()

    def __exit__(self, *exception: Any) -> None: ...


class _Nothing(types.ModuleType):
    """Has every name, and finds itself within itself."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return importlib.import_module(f"{self.__name__}.{name}")

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        inside = isinstance(sys.modules.get(fullname.rpartition(".")[0]), cls)
        return importlib.machinery.ModuleSpec(fullname, cls, is_package=True) if inside else None  # type: ignore[arg-type]

    @classmethod
    def create_module(cls, spec: Any) -> types.ModuleType:
        return cls(spec.name)

    @staticmethod
    def exec_module(module: types.ModuleType) -> None: ...

    def __call__(self, *arguments: Any, **named: Any) -> None: ...

    def __bool__(self) -> bool:
        return False


def _register(path: str, module: types.ModuleType) -> None:
    """In sys.modules, with a parent that does not exist made up."""
    module.__path__ = []
    sys.modules[path] = module
    parent, _, name = path.rpartition(".")
    if parent:
        try:
            found = importlib.import_module(parent)
        except ImportError:
            found = types.ModuleType(parent)
            _register(parent, found)
        setattr(found, name, module)


class PatcherBuilder(Patcher):
    """The package's older form of a Patcher: build() gives one."""

    def add_module_patch(self, module_name: str, *patches: Patch) -> PatcherBuilder:
        for patch in sorted(patches):
            patch.target_module = module_name
            self.add(patch)
        return self

    def disable_patches(self, *names: str) -> PatcherBuilder:
        self.disable(*names)
        return self

    def build(self, allow_internal_format: bool = False) -> Patcher:
        patcher = Patcher()
        patcher._entries, patcher._disabled = list(self._entries), set(self._disabled)
        return patcher


LegacyPatcherBuilder = PatcherBuilder
_DEFAULT = """
    MultiScaleDeformableAttention DeformConv ModulatedDeformConv SparseConv3D Stream DDP ResNetAddRelu ResNetMaxPool NumpyCompat
    NuScenesDataset NuScenesMetric TensorIndex BatchMatmul
""".split()
default_patcher = Patcher().add(*(_CLASSES[name] for name in _DEFAULT))
default_patcher_builder = PatcherBuilder()
default_patcher_builder.add(*(_CLASSES[name] for name in _DEFAULT))


def patch_mmcv_version(expected_version: str) -> None:
    """Imports mmdet and mmdet3d, where there are any, while mmcv says that it is of another version: they refuse some."""
    try:
        mmcv = importlib.import_module("mmcv")
    except ImportError:
        return
    version, mmcv.__version__ = mmcv.__version__, expected_version  # type: ignore[attr-defined]
    try:
        importlib.import_module("mmdet")
        importlib.import_module("mmdet3d")
    except ImportError:
        pass
    finally:
        mmcv.__version__ = version  # type: ignore[attr-defined]


ensure_mmcv_version = patch_mmcv_version


def with_imports(*imports: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that imports at the first call what a function uses: modules, or (module, name, ...)."""

    def decorate(function: Any) -> Callable[..., Any]:
        plain = function.__func__ if isinstance(function, staticmethod) else function

        @functools.wraps(plain)
        def call(*arguments: Any, **named: Any) -> Any:
            for entry in imports:
                path, *names = (entry,) if isinstance(entry, str) else entry
                if path.startswith("@"):
                    raise NotImplementedError(f"with_imports: decorators ({path}) are not in deformkit's stand-in")
                module = importlib.import_module(path)
                found = {name: getattr(module, name) for name in names} or {path.rpartition(".")[2]: module}
                plain.__globals__.update(found)
            return plain(*arguments, **named)

        return call

    return decorate


def configure_patcher_logging(**options: Any) -> None: ...


def set_patcher_log_level(level: Any) -> None:
    patcher_logger.setLevel(level)


globals().update(_CLASSES)
globals().update(_FUNCTIONS)
__all__ = [
    "AtomicPatch",
    "BasePatch",
    "LegacyPatch",
    "LegacyPatcherBuilder",
    "Patch",
    "PatchResult",
    "PatchStatus",
    "Patcher",
    "PatcherBuilder",
    "RegistryPatch",
    "configure_patcher_logging",
    "default_patcher",
    "default_patcher_builder",
    "ensure_mmcv_version",
    "patch_mmcv_version",
    "patcher_logger",
    "set_patcher_log_level",
    "with_imports",
]
__all__ += [*_CLASSES, *_FUNCTIONS]
