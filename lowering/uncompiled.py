"""Programs and graph modules that get their Python code when they are first called, as most never are.

torch generates and compiles that code whenever one is made, which takes longer than all else that it does then.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import torch.export.exported_program
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule

_LOCK = threading.Lock()


def uncompiled_graph_module(root: torch.nn.Module | Mapping[str, Any], graph: Graph) -> GraphModule:
    """GraphModule(root, graph): a graph, and what has the attributes that its nodes refer to."""
    return _LazyGraphModule(root if isinstance(root, torch.nn.Module) else dict(root), graph)


def uncompiled_program(root: torch.nn.Module | Mapping[str, Any], graph: Graph, **rest: Any) -> ExportedProgram:
    """ExportedProgram(root, graph, **rest)."""
    # Its constructor cannot be told how to make the graph's module. The lock is for who makes programs in threads.
    with _LOCK:
        make = torch.export.exported_program._create_graph_module_for_export
        torch.export.exported_program._create_graph_module_for_export = uncompiled_graph_module
        try:
            return ExportedProgram(root, graph, **rest)
        finally:
            torch.export.exported_program._create_graph_module_for_export = make
