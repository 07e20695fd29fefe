#include "apps/embedded_program.h"

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdio>
#include <iostream>
#include <stdexcept>

namespace examples {

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;

namespace {

void check(Error error, const std::string& what) {
  if (error != Error::Ok) {
    throw std::runtime_error("cannot " + what + ": " + executorch::runtime::to_string(error));
  }
}

template <typename T>
T take(Result<T> result, const std::string& what) {
  check(result.error(), what);
  return std::move(result.get());
}

std::vector<std::vector<uint8_t>> make_arenas(const MethodMeta& meta, const std::string& name) {
  std::vector<std::vector<uint8_t>> arenas;
  for (size_t index = 0; index < meta.num_memory_planned_buffers(); ++index) {
    arenas.emplace_back(take(meta.memory_planned_buffer_size(index), "plan the memory of method " + name));
  }
  return arenas;
}

std::vector<Span<uint8_t>> spans(std::vector<std::vector<uint8_t>>& arenas) {
  std::vector<Span<uint8_t>> result;
  for (auto& arena : arenas) {
    result.emplace_back(arena.data(), arena.size());
  }
  return result;
}

// The official runtime of this machine is built to print all its messages; here, only what went wrong is of interest.
void print_error(
    et_timestamp_t, et_pal_log_level_t level, const char* file, const char*, size_t line, const char* message, size_t) {
  if (level == et_pal_log_level_t::kError || level == et_pal_log_level_t::kFatal) {
    std::fprintf(stderr, "%s:%zu: %s\n", file, line, message);
  }
}

void print_errors_only() {
  static const bool done = [] {
    std::cerr.setstate(std::ios::failbit);  // on which the wheel's own printer would say that it is replaced
    const bool registered =
        executorch::runtime::register_pal(executorch::runtime::PalImpl::create(print_error, __FILE__));
    std::cerr.clear();
    return registered;
  }();
  (void)done;
}

Program load_program(BytesLoader& loader) {
  print_errors_only();
  executorch::runtime::runtime_init();
  return take(Program::load(&loader, Program::Verification::InternalConsistency), "load the program");
}

}  // namespace

Result<FreeableBuffer> BytesLoader::load(size_t offset, size_t size, const SegmentInfo&) const {
  if (offset > size_ || size > size_ - offset) {
    return Error::InvalidArgument;
  }
  return FreeableBuffer(data_ + offset, size, /*free_fn=*/nullptr);
}

void* HeapAllocator::allocate(size_t size, size_t alignment) {
  if (!isPowerOf2(alignment)) {
    return nullptr;
  }
  blocks_.push_back(std::make_unique<uint8_t[]>(size + alignment - 1));
  return alignPointer(blocks_.back().get(), alignment);
}

LoadedMethod::LoadedMethod(const Program& program, const char* name)
    : name_(name),
      meta_(take(program.method_meta(name), "find method " + name_)),
      arenas_(make_arenas(meta_, name_)),
      arena_spans_(spans(arenas_)),
      planned_({arena_spans_.data(), arena_spans_.size()}),
      memory_(&lasting_, &planned_, &temporary_) {
  method_.emplace(take(program.load_method(name, &memory_), "load method " + name_));
}

void LoadedMethod::execute(const std::vector<executorch::extension::TensorPtr>& inputs) {
  for (size_t index = 0; index < inputs.size(); ++index) {
    check(method_->set_input(EValue(*inputs[index]), index), "set input " + std::to_string(index) + " of " + name_);
  }
  check(method_->execute(), "run method " + name_);
}

executorch::aten::Tensor LoadedMethod::output(size_t index) {
  const EValue& value = method_->get_output(index);
  if (!value.isTensor()) {
    throw std::runtime_error("output " + std::to_string(index) + " of " + name_ + " is not a tensor");
  }
  return value.toTensor();
}

size_t LoadedMethod::input_size(size_t index) const {
  size_t elements = 1;
  for (int32_t size : take(meta_.input_tensor_meta(index), "read an input's shape").sizes()) {
    elements *= static_cast<size_t>(size);
  }
  return elements;
}

size_t LoadedMethod::input_size(size_t index, size_t dimension) const {
  return static_cast<size_t>(take(meta_.input_tensor_meta(index), "read an input's shape").sizes()[dimension]);
}

EmbeddedProgram::EmbeddedProgram(const void* data, size_t size)
    : loader_(data, size), program_(load_program(loader_)) {}

std::unique_ptr<LoadedMethod> EmbeddedProgram::load(const char* method) const {
  return std::make_unique<LoadedMethod>(program_, method);
}

}  // namespace examples
