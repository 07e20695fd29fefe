"""The tensors of a program in safetensors files: written without a copy, read memory-mapped."""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..errors import InvalidFileError, LoweringError, did_you_mean
from ..files import replacing
from .values import DTYPE_NAMES, DTYPES


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a program needs, by name.

    `aliases` are other names of the same tensor in the model's state dict: a checkpoint may use any.
    `supplied` says that it comes from a checkpoint, not from the file of constants.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_parameter: bool
    requires_grad: bool
    supplied: bool = False
    aliases: tuple[str, ...] = ()

    def to_data(self) -> list[Any]:
        """Plain data for the file of the graph."""
        return [
            self.name, DTYPE_NAMES[self.dtype], list(self.shape), list(self.strides), self.is_parameter,
            self.requires_grad, self.supplied, list(self.aliases),
        ]  # fmt: skip

    @staticmethod
    def from_data(data: list[Any]) -> TensorSpec:
        """What `to_data` wrote. Raises InvalidFileError where sizes are no numbers."""
        name, dtype, shape, strides, is_parameter, requires_grad, supplied, aliases = data
        if not all(type(size) is int for size in (*shape, *strides)):
            raise InvalidFileError(f"malformed edge program: the sizes of tensor {name!r} are not integers")
        return TensorSpec(
            name, DTYPES[dtype], tuple(shape), tuple(strides), is_parameter, requires_grad, supplied, tuple(aliases)
        )


def write_tensors(tensors: Mapping[str, torch.Tensor], path: str | os.PathLike[str]) -> None:
    """Write a safetensors file; equal tensors give equal bytes.

    Of tensors that are one in memory, only the first by name is written.
    Raises LoweringError for a tensor that such a file cannot hold.
    """
    dense = dense_tensors(tensors)
    try:
        with replacing(path) as temporary:
            safetensors.torch.save_file(dense, temporary)
    except (KeyError, ValueError, safetensors.SafetensorError) as error:
        raise LoweringError(f"tensors cannot be written to {os.fspath(path)!r}: {error}") from error


def dense_tensors(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What is written of `tensors`, as safetensors takes it. Raises LoweringError for one that it cannot hold."""
    dense: dict[str, torch.Tensor] = {}
    written: set[Hashable] = set()
    storages: set[int] = set()
    for name, tensor in sorted(tensors.items()):
        if identity(tensor) in written:
            continue
        written.add(identity(tensor))
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            what = f"tensor {name!r} is {tensor.layout} on {tensor.device}"
            raise LoweringError(f"{what}: only dense CPU tensors can be kept in a file")
        dense[name] = tensor.detach().contiguous()
        storage = dense[name].untyped_storage().data_ptr()
        if storage in storages:  # safetensors takes no two parts of one memory
            dense[name] = dense[name].clone()
        storages.add(storage)
    return dense


class TensorFiles:
    """Open safetensors files, in order: a name is looked up in the first, then in the next.

    Tensors are views of the mapped files: nothing is read before it is used.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]]):
        """Raises InvalidFileError for a file that is not safetensors, or is cut off."""
        self.paths = tuple(map(Path, paths))
        self._home: dict[str, tuple[Path, Any]] = {}
        self._opened: dict[str, torch.Tensor] = {}
        for path in self.paths:
            try:
                handle = safetensors.safe_open(path, framework="pt")
            except FileNotFoundError:
                raise
            except (safetensors.SafetensorError, OSError, RuntimeError) as error:
                raise InvalidFileError(f"{path}: not a safetensors file: {one_line(error)}") from error
            for name in handle.keys():
                self._home.setdefault(name, (path, handle))

    def names(self) -> Collection[str]:
        """All names in all files."""
        return self._home.keys()

    def find(self, names: Sequence[str]) -> tuple[Path, torch.Tensor] | None:
        """The tensor that has the first of `names` that there is, and its file."""
        for name in names:
            if name in self._home:
                path, handle = self._home[name]
                if name not in self._opened:  # tied weights stay one in memory
                    self._opened[name] = handle.get_tensor(name)
                return path, self._opened[name]
        return None


def resolve(specs: Sequence[TensorSpec], files: TensorFiles) -> dict[str, torch.Tensor]:
    """The tensor of each spec, by name.

    Raises:
        LoweringError: tensors are missing, or have another dtype or shape; all of them are named.
    """
    found: dict[str, torch.Tensor] = {}
    defects: list[str] = []
    for spec in specs:
        where = files.find((spec.name, *spec.aliases))
        if where is None:
            defects.append(f"{spec.name!r} is missing{did_you_mean(spec.name, files.names())}")
            continue
        path, tensor = where
        if (tensor.dtype, tuple(tensor.shape)) != (spec.dtype, spec.shape):
            defects.append(
                f"{spec.name!r} is {_described(tensor.dtype, tensor.shape)} in {path.name}, "
                f"but {_described(spec.dtype, spec.shape)} in the model"
            )
            continue
        found[spec.name] = as_specified(tensor, spec)
    if defects:
        shown = [f"tensor {defect}" for defect in defects[:5]]
        if len(defects) > 5:
            shown.append(f"and {len(defects) - 5} more")
        where_looked = ", ".join(str(path) for path in files.paths)
        raise LoweringError(
            f"the tensors in {where_looked} are not the model's:\n  " + "\n  ".join(shown),
            remedies=["save the checkpoint anew from model.state_dict(), without changing names, shapes and dtypes"],
        )
    return found


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor fills its memory without gaps or overlaps, in whichever order of its dimensions."""
    expected = 1
    for stride, size in sorted(zip(strides, shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def identity(tensor: torch.Tensor) -> Hashable:
    """Equal for two tensors that are one in memory."""
    if isinstance(tensor, FakeTensor) or tensor.numel() == 0:
        return id(tensor)
    return (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())


def one_line(error: BaseException) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__


def as_specified(tensor: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """`tensor`, which has the dtype and shape of `spec`, with its strides, and a parameter if it is one."""
    if tensor.stride() != spec.strides and tensor.numel():
        if not is_dense(spec.shape, spec.strides):
            raise InvalidFileError(f"edge program: the strides of tensor {spec.name!r} leave gaps")
        tensor = torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype).copy_(tensor)
    if spec.is_parameter:
        return torch.nn.Parameter(tensor, requires_grad=spec.requires_grad)
    return tensor


def _described(dtype: torch.dtype, shape: Sequence[int]) -> str:
    return f"{DTYPE_NAMES[dtype]}{list(shape)}"
