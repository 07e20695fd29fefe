"""The encoder and the decoder of tables that are described as data."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass

import pytest

from rules_executorch.lowering.errors import InvalidFileError
from rules_executorch.lowering.format.decode import decode
from rules_executorch.lowering.format.encode import encode
from rules_executorch.lowering.format.table import F64, I64, U8, Bytes, OneOf, String, Union, Vector, slot


@dataclass(frozen=True)
class Leaf:
    number: int = slot(1, I64)
    text: str | None = slot(0, String(), None)


@dataclass(frozen=True)
class Other:
    real: float = slot(0, F64)


@dataclass(frozen=True)
class Node:
    leaves: tuple[Leaf, ...] = slot(1, Vector(Leaf))
    choice: Leaf | Other = slot(2, Union((Leaf, Other)), Leaf())
    mixed: tuple[Leaf | Other, ...] = slot(4, Vector(OneOf((Leaf, Other))))
    small: tuple[int, ...] = slot(5, Vector(U8))
    raw: bytes | memoryview = slot(6, Bytes(alignment=16), b"")


@dataclass(frozen=True)
class Tree:
    nodes: tuple[Node, ...] = slot(1, Vector(Node))


def round_trip(tree: Tree) -> Tree:
    return decode(memoryview(encode(tree, b"TEST")), Tree, "test")


def test_everything_comes_back() -> None:
    node = Node((Leaf(-5, "ä"), Leaf()), Other(-0.0), (Other(1.5), Leaf(7)), (1, 255), b"raw")
    assert round_trip(Tree((node, node, Node()))) == Tree((node, node, Node()))


def test_equal_parts_are_written_once() -> None:
    leaf = Leaf(1 << 40, "a text of some length")
    one, many = len(encode(Tree((Node((leaf,)),)), b"TEST")), len(encode(Tree((Node((leaf,) * 100),)), b"TEST"))
    assert many - one <= 4 * 99 + 8


def test_zero_and_negative_zero_are_different_parts() -> None:
    tree = Tree((Node(mixed=(Other(0.0), Other(-0.0))),))
    signs = [struct.pack("d", other.real) for other in round_trip(tree).nodes[0].mixed]
    assert signs == [struct.pack("d", 0.0), struct.pack("d", -0.0)]


def test_absent_and_empty_are_different() -> None:
    assert round_trip(Tree((Node((Leaf(text=""),)),))).nodes[0].leaves[0].text == ""
    assert round_trip(Tree((Node((Leaf(),)),))).nodes[0].leaves[0].text is None


def test_aligned_bytes_lie_at_multiples_of_their_alignment() -> None:
    for length in range(40):
        data = encode(Tree((Node(small=(1,) * length, raw=b"\xaa" * 16),)), b"TEST")
        assert data.index(b"\xaa" * 16) % 16 == 0


def bomb(count: int) -> bytes:
    """A Tree of one node, `count` times, of one leaf, `count` times: count² leaves in 8 × count bytes."""
    data = bytearray(struct.pack("<I4s", 0, b"TEST"))

    def table(slot_1: int | None) -> int:
        """A table whose slot 1 holds an offset to what follows it, or nothing."""
        vtable = len(data)
        data.extend(struct.pack("<HHHH", 8, 8, 0, 4 if slot_1 is not None else 0))
        place = len(data)
        data.extend(struct.pack("<iI", place - vtable, 4))
        return place

    def vector() -> int:
        place = len(data)
        data.extend(struct.pack("<I", count) + b"\0" * (4 * count))
        return place

    tree, nodes = table(1), vector()
    node, leaves = table(1), vector()
    leaf = table(None)
    for place, target in ((nodes, node), (leaves, leaf)):
        for index in range(count):
            struct.pack_into("<I", data, place + 4 + 4 * index, target - (place + 4 + 4 * index))
    struct.pack_into("<I", data, 0, tree)
    return bytes(data)


@dataclass(frozen=True)
class PlainNode:
    leaves: tuple[Leaf, ...] = slot(1, Vector(Leaf))


@dataclass(frozen=True)
class PlainTree:
    nodes: tuple[PlainNode, ...] = slot(1, Vector(PlainNode))


def test_a_file_that_unfolds_to_far_more_than_its_size_is_refused_at_once() -> None:
    assert len(decode(memoryview(bomb(10)), PlainTree, "test").nodes) == 10
    begin = time.process_time()
    with pytest.raises(InvalidFileError, match="unfolds"):
        decode(memoryview(bomb(100_000)), PlainTree, "test")
    assert time.process_time() - begin < 5


def test_a_missing_part_is_named() -> None:
    with pytest.raises(InvalidFileError, match="Node.choice"):
        decode(memoryview(bomb(1)), Tree, "test")
