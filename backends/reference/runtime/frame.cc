#include "frame.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include "kernels.h"

namespace reference_backend {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Span;

namespace {

bool is_of_type(const Tensor& tensor, Type type) {
  return static_cast<uint8_t>(tensor.scalar_type()) == static_cast<uint8_t>(type);
}

// Memory aligned for any item; null if there is not enough.
std::unique_ptr<uint8_t[]> allocate(uint64_t nbytes) {
  return std::unique_ptr<uint8_t[]>(new (std::nothrow) uint8_t[std::max<uint64_t>(nbytes, 1)]);
}

} // namespace

Error Frame::init(Blob blob, const NamedDataMap* data_map) {
  blob_ = std::move(blob);
  for (const Constant& constant : blob_.constants) {
    if (data_map == nullptr) {
      return Error::NotFound;
    }
    auto buffer = data_map->get_data(constant.key.c_str());
    if (!buffer.ok()) {
      return buffer.error();
    }
    if (buffer->size() < constant.nbytes) { // a segment may be padded
      return Error::InvalidExternalData;
    }
    constants_.push_back(std::move(*buffer));
  }
  arena_ = allocate(blob_.arena_bytes);
  if (!arena_) {
    return Error::MemoryAllocationFailed;
  }
  for (const ValueSpec& spec : blob_.values) {
    Value value;
    value.type = spec.type;
    if (spec.place == Place::kConstant || spec.place == Place::kState) {
      const void* constant = constants_[spec.index].data();
      if (reinterpret_cast<uintptr_t>(constant) % item_bytes(spec.type) != 0) {
        return Error::InvalidExternalData;
      }
      value.is_set = true;
      value.sizes = spec.bounds;
      value.data = const_cast<void*>(constant); // instructions write to outputs and arena only
      if (spec.place == Place::kState) {
        states_.push_back(allocate(spec.capacity));
        if (!states_.back()) {
          return Error::MemoryAllocationFailed;
        }
        value.data = states_.back().get();
        if (spec.capacity > 0) {
          std::memcpy(value.data, constant, spec.capacity);
        }
      }
    } else if (spec.place == Place::kArena) {
      value.data = arena_.get() + spec.offset;
    }
    values_.push_back(std::move(value));
  }
  return Error::Ok;
}

Error Frame::execute(Span<EValue*> args) {
  if (args.size() != size_t{blob_.inputs} + blob_.outputs) {
    return Error::InvalidArgument;
  }
  args_ = args;
  Error error = bind_inputs(args);
  for (const Instruction& instruction : blob_.instructions) {
    if (error != Error::Ok) {
      return error;
    }
    error = operands_are_set(instruction) ? run(instruction, *this) : Error::InvalidProgram;
  }
  return error == Error::Ok ? update_state() : error;
}

Error Frame::bind_inputs(Span<EValue*> args) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const ValueSpec& spec = blob_.values[i];
    Value& value = values_[i];
    value.is_set = spec.place == Place::kConstant || spec.place == Place::kState;
    if (spec.place != Place::kInput) {
      continue;
    }
    const EValue& arg = *args[spec.index];
    if (spec.type == Type::kNumber) {
      if (!arg.isInt()) {
        return Error::InvalidArgument;
      }
      value.number = arg.toInt();
    } else {
      if (!arg.isTensor()) {
        return Error::InvalidArgument;
      }
      const Tensor& tensor = arg.toTensor();
      const auto order = tensor.dim_order();
      if (!is_of_type(tensor, spec.type) || static_cast<size_t>(tensor.dim()) != spec.bounds.size() ||
          !executorch::runtime::is_contiguous_dim_order(order.data(), order.size())) {
        return Error::InvalidArgument;
      }
      value.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
      value.data = const_cast<void*>(tensor.const_data_ptr());
    }
    value.is_set = true;
  }
  return Error::Ok;
}

bool Frame::operands_are_set(const Instruction& instruction) const {
  for (uint32_t input : instruction.inputs) {
    if (!values_[input].is_set) {
      return false;
    }
  }
  for (const Int& operand : instruction.ints) {
    if (operand.is_value && !values_[operand.number].is_set) {
      return false;
    }
  }
  return true;
}

Error Frame::make_tensor(const Instruction& instruction, Type type, const Sizes& sizes) {
  const ValueSpec& spec = blob_.values[instruction.output];
  Value& value = values_[instruction.output];
  if (type != spec.type || type == Type::kNumber || sizes.size() > kMaxRank) {
    return Error::InvalidProgram;
  }
  uint64_t nbytes = item_bytes(type); // as if no size were 0, so that no product of sizes overflows
  bool is_empty = false;
  for (int64_t size : sizes) {
    if (size < 0 || size > INT32_MAX || nbytes > INT64_MAX / std::max<uint64_t>(size, 1)) {
      return Error::InvalidArgument;
    }
    nbytes *= std::max<uint64_t>(size, 1);
    is_empty = is_empty || size == 0;
  }
  if (!is_empty && nbytes > spec.capacity) {
    return Error::InvalidArgument;
  }
  if (spec.place == Place::kOutput) {
    EValue& arg = *args_[blob_.inputs + spec.index];
    if (!arg.isTensor() || !is_of_type(arg.toTensor(), type) ||
        static_cast<size_t>(arg.toTensor().dim()) != sizes.size()) {
      return Error::InvalidArgument;
    }
    Tensor& tensor = arg.toTensor();
    std::array<SizesType, kMaxRank> new_sizes{};
    std::copy(sizes.begin(), sizes.end(), new_sizes.begin());
    const Error error = executorch::runtime::resize_tensor(tensor, {new_sizes.data(), sizes.size()});
    if (error != Error::Ok) {
      return error;
    }
    const auto order = tensor.dim_order();
    if (!executorch::runtime::is_contiguous_dim_order(order.data(), order.size())) {
      return Error::InvalidArgument;
    }
    value.data = tensor.mutable_data_ptr();
    if (value.data == nullptr && !is_empty) {
      return Error::InvalidArgument;
    }
  }
  value.sizes = sizes;
  value.is_set = true;
  return Error::Ok;
}

Error Frame::make_number(const Instruction& instruction, int64_t number) {
  const ValueSpec& spec = blob_.values[instruction.output];
  if (spec.type != Type::kNumber) {
    return Error::InvalidProgram;
  }
  if (spec.place == Place::kOutput) {
    *args_[blob_.inputs + spec.index] = EValue(number);
  }
  values_[instruction.output].number = number;
  values_[instruction.output].is_set = true;
  return Error::Ok;
}

Error Frame::update_state() {
  for (const Update& update : blob_.updates) {
    const Value& value = values_[update.value];
    Value& state = values_[update.state];
    if (!value.is_set || value.sizes != state.sizes) {
      return Error::InvalidProgram;
    }
    if (value.numel() > 0) {
      std::memmove(state.data, value.data, blob_.values[update.state].capacity);
    }
  }
  return Error::Ok;
}

} // namespace reference_backend
