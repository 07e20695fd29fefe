// Instructions that compute each item of the output from one item of each operand, broadcast.

#include <algorithm>
#include <cmath>

#include "kernels.h"

namespace reference_backend {

using executorch::runtime::Error;

namespace {

using Bool = uint8_t; // any byte but 0 is true: C++'s own type may not even be loaded from other bytes than 0 and 1

// Calls `step(out index, a index, b index)` for every item of `sizes`, in order.
template <typename Step>
void for_each_pair(const Sizes& sizes, const Sizes& a, const Sizes& b, Step step) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    count *= size;
  }
  if (count == 0) {
    return;
  }
  const size_t rank = sizes.size();
  const int64_t inner = rank == 0 ? 1 : sizes[rank - 1];
  const int64_t a_step = rank == 0 ? 0 : a[rank - 1];
  const int64_t b_step = rank == 0 ? 0 : b[rank - 1];
  Sizes index(rank, 0);
  int64_t at_a = 0, at_b = 0;
  for (int64_t done = 0; done < count; done += inner) {
    for (int64_t i = 0; i < inner; ++i) {
      step(done + i, at_a + i * a_step, at_b + i * b_step);
    }
    for (size_t d = rank < 2 ? 0 : rank - 1; d-- > 0;) { // the next index of the outer dimensions
      at_a += a[d];
      at_b += b[d];
      if (++index[d] < sizes[d]) {
        break;
      }
      at_a -= a[d] * sizes[d];
      at_b -= b[d] * sizes[d];
      index[d] = 0;
    }
  }
}

// out = f(a, b) with two tensors, or with a tensor and the instruction's last float.
template <typename In, typename Out, typename F>
Error binary(const Instruction& instruction, Frame& frame, Type out_type, F f) {
  const Value& a = frame.input(instruction, 0);
  if (instruction.inputs.size() == 1) {
    const Error error = frame.make_tensor(instruction, out_type, a.sizes);
    if (error != Error::Ok) {
      return error;
    }
    const double number = instruction.floats[0];
    if (std::is_integral_v<In> && !(std::abs(number) < 9.3e18)) {
      return Error::InvalidProgram; // does not fit into the type
    }
    const In b = static_cast<In>(number);
    const In* from = a.as<In>();
    Out* to = frame.output(instruction).as<Out>();
    for (int64_t i = 0, count = a.numel(); i < count; ++i) {
      to[i] = f(from[i], b);
    }
    return Error::Ok;
  }
  const Value& b = frame.input(instruction, 1);
  Sizes sizes;
  if (b.type != a.type) {
    return Error::InvalidProgram;
  }
  if (!broadcast(a.sizes, b.sizes, sizes)) {
    return Error::InvalidArgument;
  }
  const Error error = frame.make_tensor(instruction, out_type, sizes);
  if (error != Error::Ok) {
    return error;
  }
  const In* from_a = a.as<In>();
  const In* from_b = b.as<In>();
  Out* to = frame.output(instruction).as<Out>();
  if (a.sizes == b.sizes) {
    for (int64_t i = 0, count = a.numel(); i < count; ++i) {
      to[i] = f(from_a[i], from_b[i]);
    }
    return Error::Ok;
  }
  for_each_pair(
      sizes, broadcast_strides(a.sizes, sizes), broadcast_strides(b.sizes, sizes),
      [&](int64_t i, int64_t at_a, int64_t at_b) { to[i] = f(from_a[at_a], from_b[at_b]); });
  return Error::Ok;
}

// Integers wrap around, as in PyTorch; unsigned arithmetic makes that defined.
inline int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline float add(float a, float b) {
  return a + b;
}
inline float multiply(float a, float b) {
  return a * b;
}

template <typename T>
T larger(T a, T b) {
  return a > b || a != a ? a : b; // NaN wins
}

template <typename T>
T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

template <typename T>
Error arithmetic_or_comparison(const Instruction& instruction, Frame& frame, Type type) {
  // `alpha` scales the second tensor; a number comes scaled.
  const T alpha = instruction.inputs.size() == 2 ? static_cast<T>(instruction.floats[0]) : T{1};
  const T minus_alpha = multiply(T{-1}, alpha);
  switch (instruction.opcode) {
    case Opcode::kAdd:
      return binary<T, T>(instruction, frame, type, [=](T a, T b) { return add(a, multiply(alpha, b)); });
    case Opcode::kSub:
      return binary<T, T>(instruction, frame, type, [=](T a, T b) { return add(a, multiply(minus_alpha, b)); });
    case Opcode::kMul:
      return binary<T, T>(instruction, frame, type, [](T a, T b) { return multiply(a, b); });
    case Opcode::kMaximum:
      return binary<T, T>(instruction, frame, type, larger<T>);
    case Opcode::kMinimum:
      return binary<T, T>(instruction, frame, type, smaller<T>);
    case Opcode::kEqual:
      return binary<T, Bool>(instruction, frame, Type::kBool, [](T a, T b) { return a == b; });
    case Opcode::kNotEqual:
      return binary<T, Bool>(instruction, frame, Type::kBool, [](T a, T b) { return a != b; });
    case Opcode::kLess:
      return binary<T, Bool>(instruction, frame, Type::kBool, [](T a, T b) { return a < b; });
    case Opcode::kLessEqual:
      return binary<T, Bool>(instruction, frame, Type::kBool, [](T a, T b) { return a <= b; });
    case Opcode::kGreater:
      return binary<T, Bool>(instruction, frame, Type::kBool, [](T a, T b) { return a > b; });
    case Opcode::kGreaterEqual:
      return binary<T, Bool>(instruction, frame, Type::kBool, [](T a, T b) { return a >= b; });
    default:
      return Error::InvalidProgram;
  }
}

Error run_binary(const Instruction& instruction, Frame& frame) {
  const size_t inputs = instruction.inputs.size();
  if (inputs < 1 || inputs > 2 || !has(instruction, inputs, 0, 1)) {
    return Error::InvalidProgram;
  }
  const Type type = frame.input(instruction, 0).type;
  switch (instruction.opcode) {
    case Opcode::kLogicalAnd:
    case Opcode::kLogicalOr: {
      if (type != Type::kBool || inputs != 2) {
        return Error::InvalidProgram;
      }
      const bool is_and = instruction.opcode == Opcode::kLogicalAnd;
      return binary<Bool, Bool>(
          instruction, frame, Type::kBool, [=](Bool a, Bool b) { return is_and ? a && b : a || b; });
    }
    case Opcode::kDiv:
      if (type != Type::kFloat32) {
        return Error::InvalidProgram;
      }
      return binary<float, float>(instruction, frame, type, [](float a, float b) { return a / b; });
    default:
      if (type == Type::kFloat32) {
        return arithmetic_or_comparison<float>(instruction, frame, type);
      }
      if (type == Type::kInt64) {
        if (!(std::abs(instruction.floats[0]) < 9.3e18)) {
          return Error::InvalidProgram;
        }
        return arithmetic_or_comparison<int64_t>(instruction, frame, type);
      }
      return Error::InvalidProgram;
  }
}

template <typename F>
Error unary(const Instruction& instruction, Frame& frame, F f) {
  const Value& x = frame.input(instruction, 0);
  if (x.type != Type::kFloat32) {
    return Error::InvalidProgram;
  }
  const Error error = frame.make_tensor(instruction, Type::kFloat32, x.sizes);
  if (error != Error::Ok) {
    return error;
  }
  const float* from = x.as<float>();
  float* to = frame.output(instruction).as<float>();
  for (int64_t i = 0, count = x.numel(); i < count; ++i) {
    to[i] = f(from[i]);
  }
  return Error::Ok;
}

Error gelu(const Instruction& instruction, Frame& frame) {
  if (frame.integer(instruction, 0) != 0) {
    return unary(instruction, frame, [](float x) {
      constexpr float kScale = 0.7978845608028654f; // sqrt(2 / pi)
      return 0.5f * x * (1 + std::tanh(kScale * (x + 0.044715f * x * x * x)));
    });
  }
  return unary(instruction, frame, [](float x) {
    constexpr float kScale = 0.7071067811865476f; // sqrt(1 / 2)
    return 0.5f * x * (1 + std::erf(x * kScale));
  });
}

Error run_unary(const Instruction& instruction, Frame& frame) {
  if (!has(instruction, 1, instruction.opcode == Opcode::kGelu ? 1 : 0, 0)) {
    return Error::InvalidProgram;
  }
  switch (instruction.opcode) {
    case Opcode::kRelu:
      return unary(instruction, frame, [](float x) { return x < 0 ? 0 : x; }); // NaN stays
    case Opcode::kTanh:
      return unary(instruction, frame, [](float x) { return std::tanh(x); });
    case Opcode::kSigmoid:
      return unary(instruction, frame, [](float x) { return 1 / (1 + std::exp(-x)); });
    case Opcode::kGelu:
      return gelu(instruction, frame);
    case Opcode::kExp:
      return unary(instruction, frame, [](float x) { return std::exp(x); });
    case Opcode::kNeg:
      return unary(instruction, frame, [](float x) { return -x; });
    case Opcode::kAbs:
      return unary(instruction, frame, [](float x) { return std::abs(x); });
    case Opcode::kSqrt:
      return unary(instruction, frame, [](float x) { return std::sqrt(x); });
    case Opcode::kRsqrt:
      return unary(instruction, frame, [](float x) { return 1 / std::sqrt(x); });
    default:
      return Error::InvalidProgram;
  }
}

Error logical_not(const Instruction& instruction, Frame& frame) {
  if (!has(instruction, 1, 0, 0) || frame.input(instruction, 0).type != Type::kBool) {
    return Error::InvalidProgram;
  }
  const Value& x = frame.input(instruction, 0);
  const Error error = frame.make_tensor(instruction, Type::kBool, x.sizes);
  if (error != Error::Ok) {
    return error;
  }
  std::transform(
      x.as<Bool>(), x.as<Bool>() + x.numel(), frame.output(instruction).as<Bool>(), [](Bool value) { return !value; });
  return Error::Ok;
}

template <typename T>
Error choose(const Instruction& instruction, Frame& frame) {
  const Value& condition = frame.input(instruction, 0);
  const Value& a = frame.input(instruction, 1);
  const Value& b = frame.input(instruction, 2);
  Sizes chosen, sizes;
  if (!broadcast(a.sizes, b.sizes, chosen) || !broadcast(condition.sizes, chosen, sizes)) {
    return Error::InvalidArgument;
  }
  const Error error = frame.make_tensor(instruction, a.type, sizes);
  if (error != Error::Ok) {
    return error;
  }
  T* to = frame.output(instruction).as<T>();
  const Sizes where = broadcast_strides(condition.sizes, sizes);
  for_each_pair(sizes, broadcast_strides(b.sizes, sizes), where, [&](int64_t i, int64_t at, int64_t) {
    to[i] = b.as<T>()[at];
  });
  for_each_pair(sizes, broadcast_strides(a.sizes, sizes), where, [&](int64_t i, int64_t at, int64_t at_condition) {
    if (condition.as<Bool>()[at_condition]) {
      to[i] = a.as<T>()[at];
    }
  });
  return Error::Ok;
}

Error where(const Instruction& instruction, Frame& frame) {
  if (!has(instruction, 3, 0, 0) || frame.input(instruction, 0).type != Type::kBool ||
      frame.input(instruction, 1).type != frame.input(instruction, 2).type) {
    return Error::InvalidProgram;
  }
  switch (frame.input(instruction, 1).type) {
    case Type::kFloat32:
      return choose<float>(instruction, frame);
    case Type::kInt64:
      return choose<int64_t>(instruction, frame);
    case Type::kBool:
      return choose<Bool>(instruction, frame);
    default:
      return Error::InvalidProgram;
  }
}

Error masked_fill(const Instruction& instruction, Frame& frame) {
  if (!has(instruction, 2, 0, 1) || frame.input(instruction, 0).type != Type::kFloat32 ||
      frame.input(instruction, 1).type != Type::kBool) {
    return Error::InvalidProgram;
  }
  const Value& a = frame.input(instruction, 0);
  const Value& mask = frame.input(instruction, 1);
  Sizes sizes;
  if (!broadcast(a.sizes, mask.sizes, sizes)) {
    return Error::InvalidArgument;
  }
  const Error error = frame.make_tensor(instruction, Type::kFloat32, sizes);
  if (error != Error::Ok) {
    return error;
  }
  const float number = static_cast<float>(instruction.floats[0]);
  float* to = frame.output(instruction).as<float>();
  for_each_pair(
      sizes, broadcast_strides(a.sizes, sizes), broadcast_strides(mask.sizes, sizes),
      [&](int64_t i, int64_t at, int64_t at_mask) {
        to[i] = mask.as<Bool>()[at_mask] ? number : a.as<float>()[at];
      });
  return Error::Ok;
}

} // namespace

Error run_elementwise(const Instruction& instruction, Frame& frame) {
  if (instruction.opcode <= Opcode::kLogicalOr) {
    return run_binary(instruction, frame);
  }
  switch (instruction.opcode) {
    case Opcode::kLogicalNot:
      return logical_not(instruction, frame);
    case Opcode::kWhere:
      return where(instruction, frame);
    case Opcode::kMaskedFill:
      return masked_fill(instruction, frame);
    default:
      return run_unary(instruction, frame);
  }
}

} // namespace reference_backend
