"""Attention modules whose arithmetic around the sampling is known.

With two coordinates as the last of six axes, PyTorch takes about as long for the locations as the sampling does. Here they are
computed on rows that hold all levels and points of a head, and a mask that drops nothing is not applied. The values are the same,
to rounding. Deformable DETR's encoder attention at 800 x 1333 takes 105 ms instead of 127, of which the locations take 2.4
(2-core EPYC, AVX-512, 2 threads).
"""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch

from ...torch import OPERATORS, is_eager
from .. import _msda

_operator = OPERATORS["multi_scale_deformable_attn"]

#: Names of forward's arguments, by what they are; the first that is given counts.
ROLES = {
    "query": ("hidden_states", "query"),
    "position": ("position_embeddings", "query_pos"),
    "source": ("encoder_hidden_states", "input_flatten", "value"),
    "reference": ("reference_points",),
    "mask": ("attention_mask", "input_padding_mask", "key_padding_mask"),
    "shapes": ("spatial_shapes_list", "input_spatial_shapes_hw", "spatial_shapes", "input_spatial_shapes"),
    "identity": ("identity",),
}
#: Arguments that say nothing more.
IGNORED = {"key", "encoder_attention_mask", "level_start_index", "input_level_start_index", "output_attentions"}
#: Arguments beside forward's own that mmdetection hands on and mmcv does not look at.
SWALLOWED = {"key_pos", "attn_mask", "attn_masks", "valid_ratios"}
NEEDED = ("query", "source", "reference", "shapes")


@dataclass(frozen=True)
class Form:
    """What differs between modules of the same arguments."""

    mask_keeps: bool  # a mask is true where value counts, not where it does not
    with_weights: bool  # returns the weights too
    is_residual: bool  # adds the query, or `identity`, behind a dropout; may have the batch as the second axis


def _roles_of(module: torch.nn.Module) -> tuple[str, ...]:
    """The names of the module's forward's arguments, if they are those of such a module."""
    parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    names = tuple(p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD)
    known = {name for several in ROLES.values() for name in several} | IGNORED
    needed = all(set(ROLES[role]) & set(names) for role in NEEDED)
    children = ("sampling_offsets", "attention_weights", "value_proj", "output_proj")
    is_known = needed and set(names) <= known and all(isinstance(getattr(module, c, None), torch.nn.Module) for c in children)
    return names if is_known else ()


def _sizes_of(module: Any) -> tuple[int, int, int]:
    """Heads, levels, points."""
    if hasattr(module, "n_heads"):
        return module.n_heads, module.n_levels, module.n_points
    return module.num_heads, module.num_levels, module.num_points


def _locations(offsets: torch.Tensor, reference: torch.Tensor, shapes: Any, sizes: tuple[int, int, int]) -> torch.Tensor:
    """Reference points, or boxes, plus offsets in cells, or in parts of a box: one multiplication and one addition on rows of a
    head's levels and points."""
    heads, levels, points = sizes
    batch, queries = offsets.shape[:2]

    def rows(xy: torch.Tensor) -> torch.Tensor:
        """[..., levels or 1, 2] for all points: [N, 1, levels * points * 2]."""
        return xy.unsqueeze(-2).expand(*xy.shape[:-2], levels, points, 2).reshape(-1, 1, levels * points * 2)

    if reference.shape[-1] == 2:
        extents = torch.as_tensor(shapes, device=offsets.device).flip(-1).to(offsets.dtype)
        centre, scale = reference, extents.reciprocal()
    else:
        centre, scale = reference[..., :2], reference[..., 2:] * (0.5 / points)
    # A broadcast that is left out costs a level's axis of extent 1 in `reference`.
    centre, scale = (xy.expand(*xy.shape[:-2], levels, 2) if xy.shape[-2] == 1 else xy for xy in (centre, scale))
    located = torch.addcmul(rows(centre), offsets.reshape(batch * queries, heads, -1), rows(scale))
    return located.view(batch, queries, heads, levels, points, 2)


def _masked(value: torch.Tensor, dropped: Optional[torch.Tensor]) -> torch.Tensor:
    if dropped is None or (is_eager((value, dropped)) and not dropped.any()):
        return value
    return value.masked_fill(dropped[..., None], 0.0)


def rewritten_forward(module: Any, form: Form, base: Callable[[torch.nn.Module], Callable[..., Any]]) -> Callable[..., Any]:
    """The module's forward. What is in none of the forms above goes to `base`, which knows all."""
    names, original, sizes = _roles_of(module), base(module), _sizes_of(module)
    samples = (sizes[1], sizes[2])

    def forward(*arguments: Any, **named: Any) -> Any:
        given = dict(zip(names, arguments))
        given.update(named)
        roles = {
            role: next((given[name] for name in several if given.get(name) is not None), None) for role, several in ROLES.items()
        }
        others = [name for name in named if name not in names[len(arguments) :]]
        is_plain = all(name in SWALLOWED or named[name] is None or isinstance(named[name], bool) for name in others)
        # jit.trace would warn of every comparison below.
        is_plain = is_plain and (torch.compiler.is_compiling() or not torch.jit.is_tracing())
        if len(arguments) > len(names) or not is_plain or not _fits(module, form, roles, sizes):
            return original(*arguments, **named)
        query: Any = roles["query"]
        source: Any = roles["source"]
        mask = roles["mask"]
        identity = query if roles["identity"] is None else roles["identity"]
        if roles["position"] is not None:
            query = query + roles["position"]
        if form.is_residual and not module.batch_first:
            query, source = query.transpose(0, 1), source.transpose(0, 1)
        dropped = ~mask if form.mask_keeps and mask is not None else mask
        value = _masked(module.value_proj(source), dropped).unflatten(-1, (sizes[0], -1))
        weights = module.attention_weights(query).unflatten(-1, (sizes[0], -1)).softmax(-1).unflatten(-1, samples)
        locations = _locations(module.sampling_offsets(query), roles["reference"], roles["shapes"], sizes)
        if isinstance(getattr(module, "attn", None), torch.nn.Module):
            tables = (given["spatial_shapes"], given["spatial_shapes_list"], given["level_start_index"])
            output = module.attn(value, *tables, locations, weights, module.im2col_step)
        else:
            output = _operator.forward(value, *_msda.tables(roles["shapes"]), locations, weights)
        output = module.output_proj(output)
        if form.is_residual:
            output = module.dropout(output if module.batch_first else output.transpose(0, 1)) + identity
        return (output, weights) if form.with_weights else output

    return forward


def _fits(module: Any, form: Form, roles: dict[str, Any], sizes: tuple[int, int, int]) -> bool:
    query, source, reference, shapes = (roles[role] for role in NEEDED)
    tensors = [roles[role] for role in ("query", "source", "reference", "position", "identity") if roles[role] is not None]
    if shapes is None or not all(isinstance(tensor, torch.Tensor) for tensor in tensors) or torch.is_autocast_enabled("cpu"):
        return False
    if any(tensor.device.type != "cpu" or tensor.dtype != query.dtype for tensor in tensors):
        return False
    batch = 1 if form.is_residual and not module.batch_first else 0
    mask = roles["mask"]
    return (
        query.ndim == source.ndim == 3
        and query.shape[batch] == source.shape[batch]
        and reference.ndim == 4
        and reference.shape[:2] == (query.shape[batch], query.shape[1 - batch])
        and reference.shape[2] in (1, sizes[1])
        and reference.shape[3] in (2, 4)
        and len(shapes) == sizes[1]
        and (mask is None or mask.dtype == torch.bool)
        and (isinstance(shapes, torch.Tensor) or sum(h * w for h, w in shapes) == source.shape[1 - batch])
    )


def form_of(module: torch.nn.Module, base: Callable[[torch.nn.Module], Callable[..., Any]]) -> Optional[Form]:
    """The form that computes what the module's own forward does, as a small call with random tensors shows; None if there is
    none, or if calling it might be seen from outside."""
    hooked = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if not _roles_of(module) or any(getattr(part, hooks) for part in module.modules() for hooks in hooked):
        return None
    if any(parameter.device.type != "cpu" for parameter in module.parameters()):
        return None
    for form in (Form(*flags) for flags in itertools.product((False, True), repeat=3)):
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                if all(_agree(module, form, base, *case) for case in itertools.product((2, 4), (False, True))):
                    return form
        except Exception:  # not this form's arguments, or a module that cannot be called as it is
            continue
    return None


def _agree(module: Any, form: Form, base: Any, coordinates: int, with_mask: bool) -> bool:
    heads, levels, points = _sizes_of(module)
    dtype = next(module.parameters()).dtype
    shapes = [(3, 2 + level) for level in range(levels)]
    cells = sum(height * width for height, width in shapes)
    channels, inputs = module.sampling_offsets.in_features, module.value_proj.in_features
    query, source = torch.randn(2, 5, channels, dtype=dtype), torch.randn(2, cells, inputs, dtype=dtype)
    mask = torch.rand(2, cells) < 0.5
    if form.is_residual and not module.batch_first:
        query, source = query.transpose(0, 1), source.transpose(0, 1)
    tables = _msda.tables(shapes)
    roles = {
        "query": query,
        "source": source,
        "reference": torch.rand(2, 5, levels, coordinates, dtype=dtype),
        "mask": mask if with_mask else None,
        "position": torch.randn_like(query),
    }
    names = _roles_of(module)
    arguments = {name: roles[role] for role in roles for name in ROLES[role] if name in names}
    for name in set(ROLES["shapes"]) & set(names):
        arguments[name] = shapes if name in ROLES["shapes"][:2] else tables[0]
    arguments.update({name: tables[1] for name in ("level_start_index", "input_level_start_index") if name in names})
    results = []
    for forward in (base(module), rewritten_forward(module, form, _refuse)):
        torch.manual_seed(0)
        result = forward(**arguments)
        results.append(result if isinstance(result, tuple) else (result,))
    tolerance = 64 * torch.finfo(dtype).eps
    return len(results[0]) == len(results[1]) and all(
        torch.allclose(one, other, rtol=tolerance, atol=tolerance * max(1.0, other.abs().max().item()))
        for one, other in zip(*results)
    )


def _refuse(module: torch.nn.Module) -> Callable[..., Any]:
    def forward(*arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    return forward
