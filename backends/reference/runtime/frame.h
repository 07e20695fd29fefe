// The values of one delegate while it executes, and the rules by which kernels read and make them.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <executorch/runtime/core/array_ref.h>
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/span.h>

#include "blob.h"

namespace reference_backend {

using Sizes = std::vector<int64_t>;

// A value at its present size. Tensors are dense, the last dimension innermost.
struct Value {
  Type type = Type::kNumber;
  bool is_set = false; // in this execution
  int64_t number = 0; // of a kNumber
  void* data = nullptr;
  Sizes sizes;

  size_t rank() const {
    return sizes.size();
  }
  int64_t numel() const {
    int64_t product = 1;
    for (int64_t size : sizes) {
      product *= size;
    }
    return product;
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  template <typename T>
  T* as() {
    return static_cast<T*>(data);
  }
};

// What a delegate owns from init to destroy: its program, constants, state and arena. As an ExecuTorch
// method, it executes one call at a time.
class Frame {
 public:
  // Takes constants from `data_map`, which may be null where there are none.
  executorch::runtime::Error init(Blob blob, const executorch::runtime::NamedDataMap* data_map);

  // Runs all instructions on the call's inputs, followed by its outputs.
  executorch::runtime::Error execute(executorch::runtime::Span<executorch::runtime::EValue*> args);

  // For kernels. The output is made by `make_tensor` or `make_number`, after all checks of the operands.
  const Value& input(const Instruction& instruction, size_t index) const {
    return values_[instruction.inputs[index]];
  }
  int64_t integer(const Instruction& instruction, size_t index) const {
    const Int& operand = instruction.ints[index];
    return operand.is_value ? values_[operand.number].number : operand.number;
  }
  Value& output(const Instruction& instruction) {
    return values_[instruction.output];
  }

  // Gives the output its sizes and memory. InvalidArgument if the sizes are larger than planned for.
  executorch::runtime::Error make_tensor(const Instruction& instruction, Type type, const Sizes& sizes);
  executorch::runtime::Error make_number(const Instruction& instruction, int64_t number);

 private:
  executorch::runtime::Error bind_inputs(executorch::runtime::Span<executorch::runtime::EValue*> args);
  executorch::runtime::Error update_state();
  bool operands_are_set(const Instruction& instruction) const;

  Blob blob_;
  std::vector<Value> values_;
  std::vector<executorch::runtime::FreeableBuffer> constants_;
  std::vector<std::unique_ptr<uint8_t[]>> states_;
  std::unique_ptr<uint8_t[]> arena_;
  executorch::runtime::Span<executorch::runtime::EValue*> args_;
};

} // namespace reference_backend
