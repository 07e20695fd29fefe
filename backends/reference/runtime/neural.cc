// Instructions that combine many items into one: products of matrices, normalisation, softmax, look-up.

#include <algorithm>
#include <cmath>

#include "kernels.h"

namespace reference_backend {

using executorch::runtime::Error;

namespace {

int64_t product(const Sizes& sizes, size_t from, size_t to) {
  int64_t result = 1;
  for (size_t i = from; i < to; ++i) {
    result *= sizes[i];
  }
  return result;
}

bool are_float(const Instruction& instruction, Frame& frame) {
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (frame.input(instruction, i).type != Type::kFloat32) {
      return false;
    }
  }
  return true;
}

// Eight partial sums, so that the compiler may use vector instructions without reordering a sum itself.
float dot(const float* a, const float* b, int64_t count) {
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  float sum = ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  for (; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

Error linear(const Instruction& instruction, Frame& frame) {
  const size_t inputs = instruction.inputs.size();
  if (inputs < 2 || inputs > 3 || !has(instruction, inputs, 0, 0) || !are_float(instruction, frame)) {
    return Error::InvalidProgram;
  }
  const Value& x = frame.input(instruction, 0);
  const Value& weight = frame.input(instruction, 1);
  if (x.rank() < 1 || weight.rank() != 2) {
    return Error::InvalidProgram;
  }
  const int64_t in = weight.sizes[1];
  const int64_t out = weight.sizes[0];
  if (x.sizes.back() != in || (inputs == 3 && frame.input(instruction, 2).sizes != Sizes{out})) {
    return Error::InvalidArgument;
  }
  Sizes sizes = x.sizes;
  sizes.back() = out;
  const Error error = frame.make_tensor(instruction, Type::kFloat32, sizes);
  if (error != Error::Ok || frame.output(instruction).numel() == 0) {
    return error;
  }
  const int64_t rows = product(sizes, 0, sizes.size() - 1);
  const float* bias = inputs == 3 ? frame.input(instruction, 2).as<float>() : nullptr;
  float* to = frame.output(instruction).as<float>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      *to++ = dot(x.as<float>() + r * in, weight.as<float>() + o * in, in) + (bias != nullptr ? bias[o] : 0);
    }
  }
  return Error::Ok;
}

Error matmul(const Instruction& instruction, Frame& frame) {
  if (!has(instruction, 2, 0, 0) || !are_float(instruction, frame)) {
    return Error::InvalidProgram;
  }
  const Value& a = frame.input(instruction, 0);
  const Value& b = frame.input(instruction, 1);
  const size_t rank = a.rank();
  if (rank < 2 || b.rank() != rank) {
    return Error::InvalidProgram;
  }
  const int64_t n = a.sizes[rank - 2], k = a.sizes[rank - 1], m = b.sizes[rank - 1];
  if (b.sizes[rank - 2] != k || !std::equal(a.sizes.begin(), a.sizes.end() - 2, b.sizes.begin())) {
    return Error::InvalidArgument;
  }
  Sizes sizes = a.sizes;
  sizes[rank - 1] = m;
  const Error error = frame.make_tensor(instruction, Type::kFloat32, sizes);
  if (error != Error::Ok || frame.output(instruction).numel() == 0) {
    return error;
  }
  const int64_t batches = product(sizes, 0, rank - 2);
  const float* left = a.as<float>();
  float* to = frame.output(instruction).as<float>();
  std::fill_n(to, frame.output(instruction).numel(), 0.0f);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const float* matrix = b.as<float>() + batch * k * m;
    for (int64_t row = 0; row < n; ++row, left += k, to += m) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t column = 0; column < m; ++column) {
          to[column] += left[i] * matrix[i * m + column];
        }
      }
    }
  }
  return Error::Ok;
}

Error softmax(const Instruction& instruction, Frame& frame) {
  if (!has(instruction, 1, 1, 0) || !are_float(instruction, frame)) {
    return Error::InvalidProgram;
  }
  const Value& x = frame.input(instruction, 0);
  const int64_t dimension = frame.integer(instruction, 0);
  if (dimension < 0 || dimension >= static_cast<int64_t>(std::max<size_t>(x.rank(), 1))) {
    return Error::InvalidProgram;
  }
  const Error error = frame.make_tensor(instruction, Type::kFloat32, x.sizes);
  if (error != Error::Ok || frame.output(instruction).numel() == 0) {
    return error;
  }
  const int64_t length = x.rank() == 0 ? 1 : x.sizes[dimension];
  const int64_t step = product(x.sizes, std::min<size_t>(dimension + 1, x.rank()), x.rank());
  const int64_t outer = product(x.sizes, 0, dimension);
  float* to = frame.output(instruction).as<float>();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < step && length > 0; ++i) {
      const float* row = x.as<float>() + o * length * step + i;
      float* out = to + o * length * step + i;
      float largest = row[0];
      for (int64_t l = 1; l < length; ++l) {
        largest = std::max(largest, row[l * step]);
      }
      float sum = 0;
      for (int64_t l = 0; l < length; ++l) {
        out[l * step] = std::exp(row[l * step] - largest);
        sum += out[l * step];
      }
      for (int64_t l = 0; l < length; ++l) {
        out[l * step] /= sum;
      }
    }
  }
  return Error::Ok;
}

Error layer_norm(const Instruction& instruction, Frame& frame) {
  if (instruction.ints.size() != 3 || instruction.floats.size() != 1 || !are_float(instruction, frame)) {
    return Error::InvalidProgram;
  }
  const int64_t dimensions = frame.integer(instruction, 0);
  const bool has_weight = frame.integer(instruction, 1) != 0;
  const bool has_bias = frame.integer(instruction, 2) != 0;
  if (instruction.inputs.size() != size_t{1} + has_weight + has_bias) {
    return Error::InvalidProgram;
  }
  const Value& x = frame.input(instruction, 0);
  if (dimensions < 0 || dimensions > static_cast<int64_t>(x.rank())) {
    return Error::InvalidProgram;
  }
  const Sizes shape(x.sizes.end() - dimensions, x.sizes.end());
  for (size_t i = 1; i < instruction.inputs.size(); ++i) {
    if (frame.input(instruction, i).sizes != shape) {
      return Error::InvalidArgument;
    }
  }
  const Error error = frame.make_tensor(instruction, Type::kFloat32, x.sizes);
  if (error != Error::Ok || frame.output(instruction).numel() == 0) {
    return error;
  }
  const float* weight = has_weight ? frame.input(instruction, 1).as<float>() : nullptr;
  const float* bias = has_bias ? frame.input(instruction, 1 + has_weight).as<float>() : nullptr;
  const int64_t length = product(shape, 0, shape.size());
  const int64_t rows = product(x.sizes, 0, x.rank() - dimensions);
  const float* row = x.as<float>();
  float* to = frame.output(instruction).as<float>();
  for (int64_t r = 0; r < rows; ++r, row += length, to += length) {
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) {
      sum += row[i];
    }
    const double mean = sum / static_cast<double>(length);
    double squares = 0;
    for (int64_t i = 0; i < length; ++i) {
      squares += (row[i] - mean) * (row[i] - mean);
    }
    const double scale = 1 / std::sqrt(squares / static_cast<double>(length) + instruction.floats[0]);
    for (int64_t i = 0; i < length; ++i) {
      const float normalised = static_cast<float>((row[i] - mean) * scale);
      to[i] = normalised * (weight != nullptr ? weight[i] : 1) + (bias != nullptr ? bias[i] : 0);
    }
  }
  return Error::Ok;
}

Error embedding(const Instruction& instruction, Frame& frame) {
  if (!has(instruction, 2, 0, 0)) {
    return Error::InvalidProgram;
  }
  const Value& weight = frame.input(instruction, 0);
  const Value& indices = frame.input(instruction, 1);
  if (weight.type != Type::kFloat32 || weight.rank() != 2 || indices.type != Type::kInt64) {
    return Error::InvalidProgram;
  }
  const int64_t width = weight.sizes[1];
  const int64_t count = indices.numel();
  Sizes sizes = indices.sizes;
  sizes.push_back(width);
  const Error error = frame.make_tensor(instruction, Type::kFloat32, sizes);
  if (error != Error::Ok || frame.output(instruction).numel() == 0) {
    return error;
  }
  float* to = frame.output(instruction).as<float>();
  for (int64_t i = 0; i < count; ++i, to += width) {
    const int64_t index = indices.as<int64_t>()[i];
    if (index < 0 || index >= weight.sizes[0]) {
      return Error::InvalidArgument;
    }
    std::copy_n(weight.as<float>() + index * width, width, to);
  }
  return Error::Ok;
}

} // namespace

Error run_neural(const Instruction& instruction, Frame& frame) {
  switch (instruction.opcode) {
    case Opcode::kSoftmax:
      return softmax(instruction, frame);
    case Opcode::kLayerNorm:
      return layer_norm(instruction, frame);
    case Opcode::kEmbedding:
      return embedding(instruction, frame);
    case Opcode::kLinear:
      return linear(instruction, frame);
    case Opcode::kMatmul:
      return matmul(instruction, frame);
    default:
      return Error::InvalidProgram;
  }
}

} // namespace reference_backend
