// The reference backend's compiled form, as the device reads it.
//
// The layout is documented in ../blob.py, which writes it. Whatever bytes are given, reading them
// neither crashes nor reads outside of them, and what it accepts has only indices that exist.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <executorch/runtime/core/error.h>

namespace reference_backend {

constexpr size_t kMaxRank = 16; // as in ExecuTorch

enum class Place : uint8_t { kInput = 0, kOutput = 1, kArena = 2, kConstant = 3, kState = 4 };

enum class Type : uint8_t { kInt64 = 4, kFloat32 = 6, kBool = 11, kNumber = 255 };

// The operands are documented in ../blob.py; a test compares the numbers.
enum class Opcode : uint16_t {
  kSize = 0,
  kAddNumbers = 1,
  kSubNumbers = 2,
  kMulNumbers = 3,
  kFloordivNumbers = 4,
  kCopy = 10,
  kReshape = 11,
  kPermute = 12,
  kExpand = 13,
  kSlice = 14,
  kSelect = 15,
  kCat = 16,
  kUnsqueeze = 17,
  kSqueeze = 18,
  kAdd = 30,
  kSub = 31,
  kMul = 32,
  kDiv = 33,
  kMaximum = 34,
  kMinimum = 35,
  kEqual = 40,
  kNotEqual = 41,
  kLess = 42,
  kLessEqual = 43,
  kGreater = 44,
  kGreaterEqual = 45,
  kLogicalAnd = 50,
  kLogicalOr = 51,
  kLogicalNot = 52,
  kWhere = 53,
  kMaskedFill = 54,
  kRelu = 60,
  kTanh = 61,
  kSigmoid = 62,
  kGelu = 63,
  kExp = 64,
  kNeg = 65,
  kAbs = 66,
  kSqrt = 67,
  kRsqrt = 68,
  kSoftmax = 80,
  kLayerNorm = 81,
  kEmbedding = 82,
  kLinear = 83,
  kMatmul = 84,
};

struct Constant {
  std::string key; // of the program's named data
  uint64_t nbytes;
};

struct ValueSpec {
  Place place;
  Type type;
  uint32_t index; // among inputs, outputs or constants
  uint64_t offset; // in the arena
  uint64_t capacity; // bytes at the upper bounds of the sizes
  std::vector<int64_t> bounds;
};

struct Int {
  bool is_value;
  int64_t number; // a literal, or a value's index
};

struct Instruction {
  Opcode opcode;
  uint32_t output;
  std::vector<uint32_t> inputs;
  std::vector<Int> ints;
  std::vector<double> floats;
};

struct Update {
  uint32_t state;
  uint32_t value;
};

struct Blob {
  uint32_t inputs;
  uint32_t outputs;
  uint64_t arena_bytes;
  std::vector<Constant> constants;
  std::vector<ValueSpec> values;
  std::vector<Instruction> instructions;
  std::vector<Update> updates;
};

size_t item_bytes(Type type);

// DelegateInvalidCompatibility for another format or version, InvalidProgram for anything malformed.
executorch::runtime::Error read_blob(const void* data, size_t size, Blob& blob);

} // namespace reference_backend
