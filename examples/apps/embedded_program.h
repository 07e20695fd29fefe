// An ExecuTorch program that is part of the binary, and its methods, each with the memory that it needs.

#pragma once

#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/core/data_loader.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace examples {

// Gives the runtime views of bytes in memory, which must outlive it.
class BytesLoader final : public executorch::runtime::DataLoader {
 public:
  BytesLoader(const void* data, size_t size) : data_(static_cast<const uint8_t*>(data)), size_(size) {}

  executorch::runtime::Result<executorch::runtime::FreeableBuffer> load(
      size_t offset, size_t size, const SegmentInfo& segment) const override;
  executorch::runtime::Result<size_t> size() const override { return size_; }

 private:
  const uint8_t* data_;
  size_t size_;
};

// Takes memory from the heap as it is asked, and gives all of it back at reset().
class HeapAllocator final : public executorch::runtime::MemoryAllocator {
 public:
  HeapAllocator() : MemoryAllocator(0, nullptr) {}

  void* allocate(size_t size, size_t alignment = kDefaultAlignment) override;
  void reset() override { blocks_.clear(); }

 private:
  std::vector<std::unique_ptr<uint8_t[]>> blocks_;
};

// A method, ready to run. Errors of the runtime are thrown as std::runtime_error, here and below.
class LoadedMethod {
 public:
  LoadedMethod(const executorch::runtime::Program& program, const char* name);

  // Runs the method. The outputs stay valid until the next call, and the inputs need not.
  void execute(const std::vector<executorch::extension::TensorPtr>& inputs);

  executorch::aten::Tensor output(size_t index);

  // The number of elements of the input `index` at its largest.
  size_t input_size(size_t index) const;
  // The largest size of a dimension of an input.
  size_t input_size(size_t index, size_t dimension) const;

 private:
  std::string name_;
  executorch::runtime::MethodMeta meta_;
  std::vector<std::vector<uint8_t>> arenas_;
  std::vector<executorch::runtime::Span<uint8_t>> arena_spans_;
  executorch::runtime::HierarchicalAllocator planned_;
  HeapAllocator lasting_;
  HeapAllocator temporary_;
  executorch::runtime::MemoryManager memory_;
  std::optional<executorch::runtime::Method> method_;  // after the memory that it lives in
};

// The program in `size` bytes at `data`.
class EmbeddedProgram {
 public:
  EmbeddedProgram(const void* data, size_t size);

  std::unique_ptr<LoadedMethod> load(const char* method) const;

 private:
  BytesLoader loader_;
  executorch::runtime::Program program_;
};

}  // namespace examples
