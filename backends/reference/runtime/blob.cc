#include "blob.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace reference_backend {
namespace {

using executorch::runtime::Error;

constexpr char kMagic[4] = {'R', 'X', 'B', 'E'};
constexpr uint16_t kVersion = 1;
constexpr uint64_t kLargest = uint64_t{1} << 48; // bytes; keeps sums of sizes and offsets from overflowing

// Takes numbers off the front of the bytes. After a failure every number is 0 and `failed` stays set.
class Reader {
 public:
  Reader(const void* data, size_t size) : at_(static_cast<const uint8_t*>(data)), left_(size) {}

  template <typename T>
  T take() {
    T number{};
    if (const uint8_t* bytes = take_bytes(sizeof(T))) {
      std::memcpy(&number, bytes, sizeof(T));
    }
    return number;
  }

  const uint8_t* take_bytes(size_t size) {
    if (size > left_) {
      failed_ = true;
      left_ = 0;
      return nullptr;
    }
    const uint8_t* taken = at_;
    at_ += size;
    left_ -= size;
    return taken;
  }

  // Whether `count` items of at least `item` bytes can follow: checked before memory is taken for them.
  bool has(uint64_t count, size_t item) {
    failed_ = failed_ || count > left_ / item;
    return !failed_;
  }

  bool failed() const {
    return failed_;
  }

  bool at_end() const {
    return left_ == 0;
  }

 private:
  const uint8_t* at_;
  size_t left_;
  bool failed_ = false;
};

bool is_type(uint8_t number) {
  switch (static_cast<Type>(number)) {
    case Type::kInt64:
    case Type::kFloat32:
    case Type::kBool:
    case Type::kNumber:
      return true;
  }
  return false;
}

bool read_constants(Reader& reader, uint32_t count, Blob& blob) {
  if (!reader.has(count, sizeof(uint64_t) + sizeof(uint16_t))) {
    return false;
  }
  blob.constants.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto nbytes = reader.take<uint64_t>();
    const auto length = reader.take<uint16_t>();
    const uint8_t* key = reader.take_bytes(length);
    if (reader.failed() || nbytes > kLargest) {
      return false;
    }
    blob.constants.push_back({std::string(reinterpret_cast<const char*>(key), length), nbytes});
  }
  return true;
}

bool read_value(Reader& reader, Blob& blob) {
  const auto place = reader.take<uint8_t>();
  const auto type = reader.take<uint8_t>();
  const auto rank = reader.take<uint16_t>();
  ValueSpec value;
  value.index = reader.take<uint32_t>();
  value.offset = reader.take<uint64_t>();
  if (reader.failed() || place > static_cast<uint8_t>(Place::kState) || !is_type(type) || rank > kMaxRank) {
    return false;
  }
  value.place = static_cast<Place>(place);
  value.type = static_cast<Type>(type);
  value.capacity = item_bytes(value.type);
  for (uint16_t i = 0; i < rank; ++i) {
    const auto bound = reader.take<int64_t>();
    if (reader.failed() || bound < 0 || (bound > 0 && value.capacity > kLargest / static_cast<uint64_t>(bound))) {
      return false;
    }
    value.bounds.push_back(bound);
    value.capacity *= static_cast<uint64_t>(bound);
  }
  switch (value.place) {
    case Place::kInput:
      if (value.index >= blob.inputs) {
        return false;
      }
      break;
    case Place::kOutput:
      if (value.index >= blob.outputs) {
        return false;
      }
      break;
    case Place::kArena:
      if (value.offset > blob.arena_bytes || value.capacity > blob.arena_bytes - value.offset ||
          value.offset % std::max<size_t>(item_bytes(value.type), 1) != 0) {
        return false;
      }
      break;
    case Place::kConstant:
    case Place::kState:
      if (value.type == Type::kNumber || value.index >= blob.constants.size() ||
          value.capacity != blob.constants[value.index].nbytes) {
        return false;
      }
      break;
  }
  blob.values.push_back(std::move(value));
  return true;
}

// Kernels write while they read: an output never lies on its instruction's inputs.
bool overlap(const ValueSpec& a, const ValueSpec& b) {
  return &a == &b ||
      (a.place == Place::kArena && b.place == Place::kArena && a.offset < b.offset + b.capacity &&
       b.offset < a.offset + a.capacity);
}

bool read_instruction(Reader& reader, Blob& blob) {
  Instruction instruction;
  instruction.opcode = static_cast<Opcode>(reader.take<uint16_t>()); // an unknown one has no kernel
  const auto inputs = reader.take<uint16_t>();
  const auto ints = reader.take<uint16_t>();
  const auto floats = reader.take<uint16_t>();
  instruction.output = reader.take<uint32_t>();
  const size_t values = blob.values.size();
  if (reader.failed() || instruction.output >= values) {
    return false;
  }
  const Place place = blob.values[instruction.output].place;
  if (place != Place::kArena && place != Place::kOutput) {
    return false;
  }
  for (uint16_t i = 0; i < inputs; ++i) {
    const auto input = reader.take<uint32_t>();
    if (input >= values || blob.values[input].type == Type::kNumber ||
        overlap(blob.values[input], blob.values[instruction.output])) {
      return false;
    }
    instruction.inputs.push_back(input);
  }
  for (uint16_t i = 0; i < ints; ++i) {
    const auto is_value = reader.take<uint8_t>();
    const auto number = reader.take<int64_t>();
    if (is_value > 1 ||
        (is_value == 1 &&
         (number < 0 || static_cast<uint64_t>(number) >= values || blob.values[number].type != Type::kNumber))) {
      return false;
    }
    instruction.ints.push_back({is_value == 1, number});
  }
  for (uint16_t i = 0; i < floats; ++i) {
    instruction.floats.push_back(reader.take<double>());
  }
  if (reader.failed()) {
    return false;
  }
  blob.instructions.push_back(std::move(instruction));
  return true;
}

bool read_update(Reader& reader, Blob& blob) {
  const Update update{reader.take<uint32_t>(), reader.take<uint32_t>()};
  const size_t values = blob.values.size();
  if (reader.failed() || update.state >= values || update.value >= values) {
    return false;
  }
  const ValueSpec& state = blob.values[update.state];
  const ValueSpec& value = blob.values[update.value];
  if (state.place != Place::kState || value.type != state.type) {
    return false;
  }
  blob.updates.push_back(update);
  return true;
}

} // namespace

size_t item_bytes(Type type) {
  switch (type) {
    case Type::kInt64:
      return 8;
    case Type::kFloat32:
      return 4;
    case Type::kBool:
      return 1;
    case Type::kNumber:
      return 0;
  }
  return 0;
}

Error read_blob(const void* data, size_t size, Blob& blob) {
  Reader reader(data, size);
  const uint8_t* magic = reader.take_bytes(sizeof(kMagic));
  const auto version = reader.take<uint16_t>();
  const auto zero = reader.take<uint16_t>();
  if (reader.failed() || std::memcmp(magic, kMagic, sizeof(kMagic)) != 0 || version != kVersion || zero != 0) {
    return Error::DelegateInvalidCompatibility;
  }
  blob.arena_bytes = reader.take<uint64_t>();
  blob.inputs = reader.take<uint32_t>();
  blob.outputs = reader.take<uint32_t>();
  const auto constants = reader.take<uint32_t>();
  const auto values = reader.take<uint32_t>();
  const auto instructions = reader.take<uint32_t>();
  const auto updates = reader.take<uint32_t>();
  bool good = !reader.failed() && blob.arena_bytes <= kLargest && read_constants(reader, constants, blob);
  for (uint32_t i = 0; good && i < values; ++i) {
    good = read_value(reader, blob);
  }
  for (uint32_t i = 0; good && i < instructions; ++i) {
    good = read_instruction(reader, blob);
  }
  for (uint32_t i = 0; good && i < updates; ++i) {
    good = read_update(reader, blob);
  }
  return good && !reader.failed() && reader.at_end() ? Error::Ok : Error::InvalidProgram;
}

} // namespace reference_backend
