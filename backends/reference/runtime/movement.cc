// Instructions that only move items: copies, views, permutations, parts and joins.

#include <algorithm>
#include <cstring>

#include "kernels.h"

namespace reference_backend {

using executorch::runtime::Error;

namespace {

// Fills a dense destination from a source that is read from `from` on with the given strides, in bytes.
void gather(const uint8_t* from, const Sizes& strides, const Sizes& sizes, size_t item, uint8_t* to) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    count *= size;
  }
  if (count == 0) {
    return;
  }
  const size_t rank = sizes.size();
  const int64_t inner = rank == 0 ? 1 : sizes[rank - 1];
  const int64_t inner_stride = rank == 0 ? 0 : strides[rank - 1];
  const bool inner_is_dense = inner_stride == static_cast<int64_t>(item);
  Sizes index(rank, 0);
  for (int64_t done = 0; done < count; done += inner) {
    if (inner_is_dense) {
      std::memcpy(to, from, inner * item);
      to += inner * item;
    } else {
      for (int64_t i = 0; i < inner; ++i, to += item) {
        std::memcpy(to, from + i * inner_stride, item);
      }
    }
    for (size_t d = rank < 2 ? 0 : rank - 1; d-- > 0;) { // the next index of the outer dimensions
      from += strides[d];
      if (++index[d] < sizes[d]) {
        break;
      }
      from -= strides[d] * sizes[d];
      index[d] = 0;
    }
  }
}

// An output of `sizes`, read from the input, `offset` items on, with strides in items.
Error make_gathered(const Instruction& instruction, Frame& frame, const Sizes& sizes, Sizes strides, int64_t offset) {
  const Value& input = frame.input(instruction, 0);
  const Error error = frame.make_tensor(instruction, input.type, sizes);
  if (error != Error::Ok) {
    return error;
  }
  const size_t item = item_bytes(input.type);
  for (int64_t& stride : strides) {
    stride *= static_cast<int64_t>(item);
  }
  gather(input.as<uint8_t>() + offset * item, strides, sizes, item, frame.output(instruction).as<uint8_t>());
  return Error::Ok;
}

// The same items in the same order, under other sizes.
Error make_copy(const Instruction& instruction, Frame& frame, const Sizes& sizes) {
  const Value& input = frame.input(instruction, 0);
  const Error error = frame.make_tensor(instruction, input.type, sizes);
  if (error != Error::Ok) {
    return error;
  }
  if (frame.output(instruction).numel() != input.numel()) {
    return Error::InvalidArgument;
  }
  if (input.numel() > 0) {
    std::memcpy(frame.output(instruction).data, input.data, input.numel() * item_bytes(input.type));
  }
  return Error::Ok;
}

Error reshape(const Instruction& instruction, Frame& frame) {
  Sizes sizes;
  int64_t known = 1;
  int64_t unknown = -1; // the dimension of size -1
  for (size_t i = 0; i < instruction.ints.size(); ++i) {
    const int64_t size = frame.integer(instruction, i);
    if (size < -1 || (size == -1 && unknown >= 0) || (size >= 0 && __builtin_mul_overflow(known, size, &known))) {
      return Error::InvalidArgument;
    }
    unknown = size == -1 ? static_cast<int64_t>(i) : unknown;
    sizes.push_back(size);
  }
  const int64_t numel = frame.input(instruction, 0).numel();
  if (unknown >= 0) {
    if (known == 0 || numel % known != 0) {
      return Error::InvalidArgument;
    }
    sizes[unknown] = numel / known;
  }
  return make_copy(instruction, frame, sizes);
}

Error permute(const Instruction& instruction, Frame& frame) {
  const Value& input = frame.input(instruction, 0);
  if (instruction.ints.size() != input.rank()) {
    return Error::InvalidProgram;
  }
  const Sizes dense = dense_strides(input.sizes);
  Sizes sizes, strides;
  uint32_t seen = 0;
  for (size_t i = 0; i < input.rank(); ++i) {
    const int64_t dimension = frame.integer(instruction, i);
    if (dimension < 0 || dimension >= static_cast<int64_t>(input.rank()) || (seen >> dimension & 1) != 0) {
      return Error::InvalidProgram;
    }
    seen |= uint32_t{1} << dimension;
    sizes.push_back(input.sizes[dimension]);
    strides.push_back(dense[dimension]);
  }
  return make_gathered(instruction, frame, sizes, strides, 0);
}

Error expand(const Instruction& instruction, Frame& frame) {
  const Value& input = frame.input(instruction, 0);
  const size_t rank = instruction.ints.size();
  if (rank < input.rank() || rank > kMaxRank) {
    return Error::InvalidProgram;
  }
  Sizes sizes(rank);
  for (size_t i = 0; i < rank; ++i) {
    const size_t added = rank - input.rank();
    const int64_t own = i < added ? 1 : input.sizes[i - added];
    const int64_t wanted = frame.integer(instruction, i);
    sizes[i] = wanted == -1 ? own : wanted;
    if (sizes[i] < 0 || (own != 1 && own != sizes[i])) {
      return Error::InvalidArgument;
    }
  }
  return make_gathered(instruction, frame, sizes, broadcast_strides(input.sizes, sizes), 0);
}

// An index from the front, from one that may count from the end; beyond either end, that end.
int64_t clamp_index(int64_t index, int64_t size) {
  return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
}

Error slice(const Instruction& instruction, Frame& frame) {
  const Value& input = frame.input(instruction, 0);
  const int64_t dimension = frame.integer(instruction, 0);
  const int64_t step = frame.integer(instruction, 3);
  if (dimension < 0 || dimension >= static_cast<int64_t>(input.rank()) || step < 1) {
    return Error::InvalidProgram;
  }
  const int64_t size = input.sizes[dimension];
  const int64_t start = clamp_index(frame.integer(instruction, 1), size);
  const int64_t end = std::max(start, clamp_index(frame.integer(instruction, 2), size));
  const int64_t length = end - start;
  Sizes sizes = input.sizes;
  sizes[dimension] = length / step + (length % step != 0);
  Sizes strides = dense_strides(input.sizes);
  const int64_t offset = start * strides[dimension];
  strides[dimension] *= std::min(step, std::max<int64_t>(size, 1)); // a longer step is never taken
  return make_gathered(instruction, frame, sizes, strides, offset);
}

Error select(const Instruction& instruction, Frame& frame) {
  const Value& input = frame.input(instruction, 0);
  const int64_t dimension = frame.integer(instruction, 0);
  if (dimension < 0 || dimension >= static_cast<int64_t>(input.rank())) {
    return Error::InvalidProgram;
  }
  int64_t index = frame.integer(instruction, 1);
  index += index < 0 ? input.sizes[dimension] : 0;
  if (index < 0 || index >= input.sizes[dimension]) {
    return Error::InvalidArgument;
  }
  Sizes sizes = input.sizes;
  Sizes strides = dense_strides(input.sizes);
  const int64_t offset = index * strides[dimension];
  sizes.erase(sizes.begin() + dimension);
  strides.erase(strides.begin() + dimension);
  return make_gathered(instruction, frame, sizes, strides, offset);
}

Error cat(const Instruction& instruction, Frame& frame) {
  const Value& first = frame.input(instruction, 0);
  const int64_t dimension = frame.integer(instruction, 0);
  if (dimension < 0 || dimension >= static_cast<int64_t>(first.rank())) {
    return Error::InvalidProgram;
  }
  Sizes sizes = first.sizes;
  sizes[dimension] = 0;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Value& input = frame.input(instruction, i);
    if (input.rank() != first.rank() || input.type != first.type) {
      return Error::InvalidProgram;
    }
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (static_cast<int64_t>(d) == dimension) {
        sizes[d] += input.sizes[d];
      } else if (input.sizes[d] != sizes[d]) {
        return Error::InvalidArgument;
      }
    }
  }
  const Error error = frame.make_tensor(instruction, first.type, sizes);
  if (error != Error::Ok) {
    return error;
  }
  Value& output = frame.output(instruction);
  const size_t item = item_bytes(first.type);
  int64_t outer = 1;
  for (int64_t d = 0; d < dimension; ++d) {
    outer *= sizes[d];
  }
  const int64_t row = outer == 0 ? 0 : output.numel() / outer * item; // bytes of the output per outer index
  int64_t offset = 0;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Value& input = frame.input(instruction, i);
    const int64_t part = outer == 0 ? 0 : input.numel() / outer * item;
    for (int64_t o = 0; o < outer && part > 0; ++o) {
      std::memcpy(output.as<uint8_t>() + o * row + offset, input.as<uint8_t>() + o * part, part);
    }
    offset += part;
  }
  return Error::Ok;
}

Error unsqueeze(const Instruction& instruction, Frame& frame) {
  const int64_t dimension = frame.integer(instruction, 0);
  Sizes sizes = frame.input(instruction, 0).sizes;
  if (dimension < 0 || dimension > static_cast<int64_t>(sizes.size())) {
    return Error::InvalidProgram;
  }
  sizes.insert(sizes.begin() + dimension, 1);
  return make_copy(instruction, frame, sizes);
}

Error squeeze(const Instruction& instruction, Frame& frame) {
  const Sizes& from = frame.input(instruction, 0).sizes;
  uint32_t dropped = 0;
  for (size_t i = 0; i < instruction.ints.size(); ++i) {
    const int64_t dimension = frame.integer(instruction, i);
    if (dimension < 0 || dimension >= static_cast<int64_t>(std::max<size_t>(from.size(), 1))) {
      return Error::InvalidProgram;
    }
    dropped |= uint32_t{1} << dimension;
  }
  Sizes sizes;
  for (size_t d = 0; d < from.size(); ++d) {
    if ((dropped >> d & 1) == 0 || from[d] != 1) {
      sizes.push_back(from[d]);
    }
  }
  return make_copy(instruction, frame, sizes);
}

} // namespace

Error run_movement(const Instruction& instruction, Frame& frame) {
  const size_t inputs = instruction.inputs.size();
  const size_t ints = instruction.ints.size();
  const bool is_cat = instruction.opcode == Opcode::kCat;
  if (inputs < 1 || (inputs > 1 && !is_cat) || !instruction.floats.empty()) {
    return Error::InvalidProgram;
  }
  switch (instruction.opcode) {
    case Opcode::kCopy:
      return ints == 0 ? make_copy(instruction, frame, frame.input(instruction, 0).sizes) : Error::InvalidProgram;
    case Opcode::kReshape:
      return reshape(instruction, frame);
    case Opcode::kPermute:
      return permute(instruction, frame);
    case Opcode::kExpand:
      return expand(instruction, frame);
    case Opcode::kSlice:
      return ints == 4 ? slice(instruction, frame) : Error::InvalidProgram;
    case Opcode::kSelect:
      return ints == 2 ? select(instruction, frame) : Error::InvalidProgram;
    case Opcode::kCat:
      return ints == 1 ? cat(instruction, frame) : Error::InvalidProgram;
    case Opcode::kUnsqueeze:
      return ints == 1 ? unsqueeze(instruction, frame) : Error::InvalidProgram;
    case Opcode::kSqueeze:
      return squeeze(instruction, frame);
    default:
      return Error::InvalidProgram;
  }
}

} // namespace reference_backend
