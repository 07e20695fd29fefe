// Mutates a blob many times, and reads and executes what comes out, under sanitizers.
//
//   fuzz BLOB CONSTANTS ROUNDS SEED     CONSTANTS: per constant of the blob, its bytes
//
// Prints how many mutants were refused when read, when set up, when executed, and how many ran.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include "blob.h"
#include "frame.h"

using executorch::aten::DimOrderType;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::StridesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Result;
using executorch::runtime::Span;
using reference_backend::Blob;
using reference_backend::Frame;
using reference_backend::Place;
using reference_backend::Type;
using reference_backend::ValueSpec;

// The wheel's library leaves this to its host.
[[noreturn]] void executorch::runtime::runtime_abort() {
  std::abort();
}

namespace {

// Every key of the original blob, with the bytes that it had.
class DataMap final : public NamedDataMap {
 public:
  std::vector<std::pair<std::string, std::string>> entries;

  Result<FreeableBuffer> get_data(std::string_view key) const override {
    for (const auto& [name, bytes] : entries) {
      if (name == key) {
        return FreeableBuffer(bytes.data(), bytes.size(), nullptr);
      }
    }
    return Error::NotFound;
  }
  Result<const executorch::runtime::TensorLayout> get_tensor_layout(std::string_view) const override {
    return Error::NotFound;
  }
  Error load_data_into(std::string_view, void*, size_t) const override {
    return Error::NotFound;
  }
  Result<uint32_t> get_num_keys() const override {
    return static_cast<uint32_t>(entries.size());
  }
  Result<const char*> get_key(uint32_t index) const override {
    return entries[index].first.c_str();
  }
};

// A tensor as the runtime would make it, of the upper bounds of a value of the original blob. Its
// memory is on the heap and exactly large enough, so that the sanitizer sees any step beyond it.
struct Argument {
  std::vector<SizesType> sizes;
  std::vector<StridesType> strides;
  std::vector<DimOrderType> order;
  std::vector<uint8_t> data;
  std::unique_ptr<TensorImpl> impl;

  explicit Argument(const ValueSpec& spec) : sizes(spec.bounds.begin(), spec.bounds.end()), data(spec.capacity) {
    strides.resize(sizes.size());
    SizesType step = 1;
    for (size_t i = sizes.size(); i-- > 0; step *= sizes[i]) {
      strides[i] = step;
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      order.push_back(static_cast<DimOrderType>(i));
    }
    impl = std::make_unique<TensorImpl>(
        static_cast<ScalarType>(spec.type), sizes.size(), sizes.data(), data.data(), order.data(), strides.data(),
        executorch::aten::TensorShapeDynamism::DYNAMIC_BOUND);
  }
};

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void mutate(std::string& bytes, std::mt19937_64& random) {
  static constexpr uint64_t kNumbers[] = {0, 1, 2, 3, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff,
                                          uint64_t{1} << 31, uint64_t{1} << 47, INT64_MAX, ~uint64_t{0}};
  for (uint64_t count = 1 + random() % 4; count > 0 && !bytes.empty(); --count) {
    const size_t at = random() % bytes.size();
    switch (random() % 8) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, 1 + random() % 9, static_cast<char>(random()));
        break;
      case 2: {
        const uint64_t number = kNumbers[random() % std::size(kNumbers)] - random() % 2;
        const size_t width = size_t{1} << random() % 4;
        std::memcpy(&bytes[at], &number, std::min(width, bytes.size() - at));
        break;
      }
      case 3:
        bytes[at] ^= static_cast<char>(1 << random() % 8);
        break;
      default: // most fields are small numbers: others of them make the most of the mutants valid
        bytes[at] = static_cast<char>(random() % 16);
    }
  }
}

} // namespace

int main(int, char** argv) {
  const std::string original = contents(argv[1]);
  const std::string constants = contents(argv[2]);
  Blob blob;
  if (reference_backend::read_blob(original.data(), original.size(), blob) != Error::Ok) {
    return 2;
  }
  DataMap data_map;
  size_t offset = 0;
  for (const auto& constant : blob.constants) {
    data_map.entries.emplace_back(constant.key, constants.substr(offset, constant.nbytes));
    offset += constant.nbytes;
  }
  std::mt19937_64 random(std::stoull(argv[4]));
  int unread = 0, unset = 0, failed = 0, ran = 0;
  for (long round = std::atol(argv[3]); round >= 0; --round) { // the last round has the original
    std::vector<Argument> arguments;
    std::vector<EValue> values(blob.inputs + blob.outputs);
    arguments.reserve(blob.values.size());
    for (const ValueSpec& spec : blob.values) {
      if ((spec.place == Place::kInput || spec.place == Place::kOutput) && spec.type != Type::kNumber) {
        arguments.emplace_back(spec);
        values[(spec.place == Place::kInput ? 0 : blob.inputs) + spec.index] = Tensor(arguments.back().impl.get());
      }
    }
    std::vector<EValue*> pointers;
    for (EValue& value : values) {
      pointers.push_back(&value);
    }
    std::string mutant = original;
    if (round > 0) {
      mutate(mutant, random);
    }
    Blob read;
    Frame frame;
    if (reference_backend::read_blob(mutant.data(), mutant.size(), read) != Error::Ok) {
      ++unread;
    } else if (frame.init(std::move(read), &data_map) != Error::Ok) {
      ++unset;
    } else if (
        frame.execute({pointers.data(), pointers.size()}) != Error::Ok ||
        frame.execute({pointers.data(), pointers.size()}) != Error::Ok) {
      ++failed;
    } else {
      ++ran;
    }
  }
  std::printf("%d unread %d unset %d failed %d ran\n", unread, unset, failed, ran);
  return ran > 0 ? 0 : 3;
}
