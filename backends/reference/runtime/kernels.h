// The instructions' meanings. Every kernel checks the number, types and sizes of its operands.

#pragma once

#include <executorch/runtime/core/error.h>

#include "blob.h"
#include "frame.h"

namespace reference_backend {

// InvalidProgram for an instruction that no compiler writes, InvalidArgument for sizes that do not fit.
executorch::runtime::Error run(const Instruction& instruction, Frame& frame);

// One family per file.
executorch::runtime::Error run_number(const Instruction& instruction, Frame& frame);
executorch::runtime::Error run_movement(const Instruction& instruction, Frame& frame);
executorch::runtime::Error run_elementwise(const Instruction& instruction, Frame& frame);
executorch::runtime::Error run_neural(const Instruction& instruction, Frame& frame);

// The number of tensors, ints and floats that an instruction has, as a check at the top of a kernel.
inline bool has(const Instruction& instruction, size_t inputs, size_t ints, size_t floats) {
  return instruction.inputs.size() == inputs && instruction.ints.size() == ints && instruction.floats.size() == floats;
}

// Steps between neighbours in each dimension of a dense tensor, in items.
Sizes dense_strides(const Sizes& sizes);

// The sizes of the result of broadcasting; false if the operands cannot be broadcast.
bool broadcast(const Sizes& a, const Sizes& b, Sizes& result);

// The strides with which to read a tensor as if it had the broadcast sizes: 0 where it is repeated.
Sizes broadcast_strides(const Sizes& sizes, const Sizes& broadcast_sizes);

} // namespace reference_backend
