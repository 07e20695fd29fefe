"""fx graphs to and from plain data, with the graphs of control-flow bodies inside them."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..errors import InvalidFileError, LoweringError
from ..uncompiled import uncompiled_graph_module
from .arguments import decode_argument, decode_target, encode_argument, encode_target
from .expressions import ExpressionReader, ExpressionWriter
from .interning import Table
from .metadata import MetadataReader, MetadataWriter
from .values import ValueReader, ValueWriter


class GraphWriter:
    """Encodes the graphs of one program; what they have in common is collected in its tables."""

    def __init__(self) -> None:
        self.expressions = ExpressionWriter()
        self.values = ValueWriter(self.expressions)
        self.metadata = MetadataWriter()
        self.targets = Table()
        self.attributes: dict[str, torch.Tensor] = {}

    def encode(self, module: GraphModule, path: str = "") -> dict[str, Any]:
        """Plain data for a graph and its subgraphs; `path` is where it is within the program's module.

        Raises LoweringError where the graph holds what files do not.
        """
        indices: dict[Node, int] = {}
        nodes = []
        subgraphs: dict[str, Any] = {}
        for node in module.graph.nodes:
            nodes.append(self._node(node, indices))
            indices[node] = len(indices)
            if node.op == "get_attr" and node.target not in subgraphs:
                subgraphs[node.target] = self._attribute(module, node, path)
        return {"nodes": nodes, "attributes": subgraphs}

    def tables(self) -> dict[str, Any]:
        """The tables that encoded graphs refer to. Call it last: symbols are described only then."""
        symbols = self.expressions.described_symbols()
        return {
            "symbols": symbols,
            "expressions": self.expressions.table.entries,
            "values": self.values.table.entries,
            "frames": self.metadata.frames.entries,
            "module_stacks": self.metadata.module_stacks.entries,
            "targets": self.targets.entries,
        }

    def _node(self, node: Node, indices: dict[Node, int]) -> list[Any]:
        try:
            if node.op == "call_function":
                encoded = encode_target(node.target)
                target: Any = self.targets.add(tuple(encoded), encoded)
            else:
                target = node.target
            return [
                node.op,
                node.name,
                target,
                encode_argument(tuple(node.args), indices, self.expressions),
                encode_argument(dict(node.kwargs), indices, self.expressions) if node.kwargs else None,
                self.values.encode(node.meta.get("val")),
                self.metadata.encode(node.meta),
            ]
        except (LoweringError, TypeError) as error:
            raise LoweringError(str(error), node=node) from error

    def _attribute(self, module: GraphModule, node: Node, path: str) -> Any:
        value = module
        for name in node.target.split("."):
            value = getattr(value, name)
        if isinstance(value, GraphModule):
            return ["graph", self.encode(value, f"{path}{node.target}.")]
        if isinstance(value, torch.Tensor):
            self.attributes[path + node.target] = value
            return ["tensor", path + node.target]
        raise LoweringError(f"an attribute of type {type(value).__name__} cannot be written to a file", node=node)


@dataclass(frozen=True)
class GraphReader:
    """Decodes the graphs of one program. `attributes` are the tensors that get_attr nodes read."""

    expressions: ExpressionReader
    values: ValueReader
    metadata: MetadataReader
    targets: list[Any]
    attributes: dict[str, torch.Tensor]

    @staticmethod
    def over(tables: dict[str, Any], attributes: dict[str, torch.Tensor]) -> GraphReader:
        """A reader over the tables that `GraphWriter.tables` gave."""
        expressions = ExpressionReader(tables["expressions"], tables["symbols"])
        return GraphReader(
            expressions,
            ValueReader(tables["values"], expressions),
            MetadataReader(tables["frames"], tables["module_stacks"], expressions.shape_env),
            [decode_target(entry) for entry in tables["targets"]],
            attributes,
        )

    def decode(self, data: dict[str, Any]) -> tuple[torch.nn.Module, Graph]:
        """The graph that `GraphWriter.encode` wrote, and the module whose attributes it reads."""
        root = torch.nn.Module()
        for name, attribute in data["attributes"].items():
            _set_attribute(root, name, self._attribute(attribute))
        graph = Graph()
        nodes: list[Node] = []
        names: set[str] = set()
        for entry in data["nodes"]:
            nodes.append(self._node(graph, entry, nodes))
            name = nodes[-1].name
            if name in names or not name.isidentifier() or keyword.iskeyword(name):
                raise InvalidFileError(f"edge program: {name!r} is no name for a node, or is used twice")
            names.add(name)
        if not nodes or nodes[-1].op != "output":
            raise InvalidFileError("edge program: a graph does not end with its output")
        return root, graph

    def _node(self, graph: Graph, entry: list[Any], nodes: list[Node]) -> Node:
        op, name, target, args, kwargs, value, meta = entry
        if op == "call_function":
            if type(target) is not int or target < 0:
                raise InvalidFileError(f"edge program: {target!r} is no index of a target")
            target = self.targets[target]
        elif op not in ("placeholder", "get_attr", "output"):
            raise InvalidFileError(f"edge program: {op!r} is no kind of node")
        node = graph.create_node(
            op,
            target,
            decode_argument(args, nodes, self.expressions),
            decode_argument(kwargs, nodes, self.expressions) if kwargs is not None else {},
            name=name,
        )
        # fx avoids names of Python's builtins; torch.export does not.
        node.name = name
        decoded = self.values.decode(value, own_storage=op == "placeholder")
        node.meta = self.metadata.decode(meta, decoded)
        if op != "output":
            node.meta["val"] = decoded
        return node

    def _attribute(self, data: list[Any]) -> Any:
        kind, content = data
        if kind == "graph":
            return uncompiled_graph_module(*self.decode(content))
        if kind == "tensor":
            return self.attributes[content]
        raise InvalidFileError(f"edge program: {kind!r} is no kind of attribute")


def _set_attribute(root: torch.nn.Module, path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(root, parent):
            setattr(root, parent, torch.nn.Module())
        root = getattr(root, parent)
    if not name.isidentifier() or hasattr(root, name):
        raise InvalidFileError(f"edge program: {path!r} is no name for an attribute")
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)
