"""What an executorch_model says of its methods: checked, and in the words of the engine's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.core.label import Label

from .backend import MODULE_MEMBER
from .providers import ExecutorchBackendInfo

_METHOD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOAD = 'load("@rules_executorch//rules:defs.bzl", "delegation_spec", "executorch_model", "partitioner")'
# kind → the key of what it hands to the backend
_OPTION_KEYS = {"delegation_spec": "compile_specs", "partitioner": "options"}


def factories(ctx: RuleContext) -> dict[str, str]:
    """Each method's "module:factory".

    Raises:
        BuildError: `methods` or `model` is not as the rule documents.
    """
    methods, model = ctx.attr.methods, ctx.attr.model
    if not isinstance(methods, Mapping) or not methods:
        raise ctx.error(
            f"`methods` of {ctx.label} must be a dict with at least one method",
            remedy='write methods = {"forward": None} for one method without a backend',
        )
    for name in methods:
        if not isinstance(name, str) or not _METHOD_NAME.fullmatch(name):
            raise ctx.error(f"`methods` of {ctx.label} has {name!r}, which is not a method's name")
    if isinstance(model, str):
        model = dict.fromkeys(methods, model)
    if not isinstance(model, Mapping) or set(model) != set(methods):
        raise ctx.error(
            f"`model` of {ctx.label} must be one factory, or a dict with one for each of {', '.join(methods)}",
            remedy='write model = "module:factory"',
        )
    for name, factory in model.items():
        if not isinstance(factory, str) or not MODULE_MEMBER.fullmatch(factory):
            raise ctx.error(
                f"`model` of {ctx.label} is {factory!r}",
                remedy='write it as in "module:factory", where the module is importable from `deps`',
            )
    return {name: model[name] for name in methods}


def recipe_function(ctx: RuleContext) -> str | None:
    """The "module:function" that makes the model's recipe, None for none.

    Raises:
        BuildError: `recipe` is not written so.
    """
    recipe = ctx.attr.recipe or None
    if recipe is not None and not MODULE_MEMBER.fullmatch(recipe):
        raise ctx.error(
            f"`recipe` of {ctx.label} is {recipe!r}",
            remedy='write it as in "module:function", where the module is importable from `deps`',
        )
    return recipe


def lowering(
    ctx: RuleContext, method: str, backends: Mapping[Label, ExecutorchBackendInfo]
) -> list[dict[str, Any]]:
    """How `method` is lowered: the engine's configuration of its delegation specs and partitioners, in order.

    Raises:
        BuildError: it is not what delegation_spec() and partitioner() make.
    """
    value = ctx.attr.methods[method]
    if value is None:
        return []
    specs = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    return [_one(ctx, method, spec, backends) for spec in specs]


def _one(
    ctx: RuleContext, method: str, spec: Any, backends: Mapping[Label, ExecutorchBackendInfo]
) -> dict[str, Any]:
    kind = spec.get("kind") if isinstance(spec, Mapping) else None
    if kind not in _OPTION_KEYS:
        raise ctx.error(
            f"method '{method}' of {ctx.label} is {spec!r}, not how to lower it",
            notes=("it may be None, delegation_spec(…), partitioner(…), or a list of these",),
            remedy=_LOAD,
        )
    label = ctx.parse_label(spec["backend"])
    backend = backends.get(label)
    if backend is None:
        raise ctx.error(
            f"method '{method}' of {ctx.label} names {label}, which is not among its `backends`",
            notes=("executorch_model of defs.bzl adds the backends of all methods",),
            remedy=_LOAD,
        )
    if kind == "partitioner" and backend.partitioner is None:
        raise ctx.error(
            f"method '{method}' of {ctx.label}: {backend.label} has no partitioner",
            remedy=f'write delegation_spec("{spec["backend"]}"), or give the backend the attribute `partitioner`',
        )
    key = _OPTION_KEYS[kind]
    return {"kind": kind, "backend": ctx.full_name(backend.label), key: dict(spec.get(key) or {})}
