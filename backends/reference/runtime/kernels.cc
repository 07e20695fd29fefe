#include "kernels.h"

#include <algorithm>

namespace reference_backend {

using executorch::runtime::Error;

Error run(const Instruction& instruction, Frame& frame) {
  if (instruction.opcode <= Opcode::kFloordivNumbers) {
    return run_number(instruction, frame);
  }
  if (instruction.opcode <= Opcode::kSqueeze) {
    return run_movement(instruction, frame);
  }
  if (instruction.opcode <= Opcode::kRsqrt) {
    return run_elementwise(instruction, frame);
  }
  return run_neural(instruction, frame);
}

Error run_number(const Instruction& instruction, Frame& frame) {
  if (instruction.opcode == Opcode::kSize) {
    if (!has(instruction, 1, 1, 0)) {
      return Error::InvalidProgram;
    }
    const Value& tensor = frame.input(instruction, 0);
    const int64_t dimension = frame.integer(instruction, 0);
    if (dimension < 0 || dimension >= static_cast<int64_t>(tensor.rank())) {
      return Error::InvalidProgram;
    }
    return frame.make_number(instruction, tensor.sizes[dimension]);
  }
  if (!has(instruction, 0, 2, 0)) {
    return Error::InvalidProgram;
  }
  const int64_t a = frame.integer(instruction, 0);
  const int64_t b = frame.integer(instruction, 1);
  int64_t result = 0;
  switch (instruction.opcode) {
    case Opcode::kAddNumbers:
      if (__builtin_add_overflow(a, b, &result)) {
        return Error::InvalidArgument;
      }
      break;
    case Opcode::kSubNumbers:
      if (__builtin_sub_overflow(a, b, &result)) {
        return Error::InvalidArgument;
      }
      break;
    case Opcode::kMulNumbers:
      if (__builtin_mul_overflow(a, b, &result)) {
        return Error::InvalidArgument;
      }
      break;
    case Opcode::kFloordivNumbers:
      if (b == 0 || (a == INT64_MIN && b == -1)) {
        return Error::InvalidArgument;
      }
      result = a / b - (a % b != 0 && (a < 0) != (b < 0));
      break;
    default:
      return Error::InvalidProgram;
  }
  return frame.make_number(instruction, result);
}

Sizes dense_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i];
  }
  return strides;
}

bool broadcast(const Sizes& a, const Sizes& b, Sizes& result) {
  const size_t rank = std::max(a.size(), b.size());
  result.assign(rank, 1);
  for (size_t i = 1; i <= rank; ++i) {
    const int64_t in_a = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t in_b = i <= b.size() ? b[b.size() - i] : 1;
    if (in_a != in_b && in_a != 1 && in_b != 1) {
      return false;
    }
    result[rank - i] = in_a == 1 ? in_b : in_a;
  }
  return true;
}

Sizes broadcast_strides(const Sizes& sizes, const Sizes& broadcast_sizes) {
  const Sizes dense = dense_strides(sizes);
  Sizes strides(broadcast_sizes.size(), 0);
  const size_t shift = broadcast_sizes.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    strides[shift + i] = sizes[i] == 1 ? 0 : dense[i];
  }
  return strides;
}

} // namespace reference_backend
