// What ExecuTorch's runtime sees of the reference backend. Linking this file in registers it.

#include <memory>
#include <new>
#include <utility>

#include <executorch/runtime/backend/interface.h>

#include "blob.h"
#include "frame.h"

namespace reference_backend {
namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

class ReferenceBackend final : public BackendInterface {
 public:
  bool is_available() const override {
    return true;
  }

  Result<DelegateHandle*> init(
      BackendInitContext& context,
      FreeableBuffer* processed,
      ArrayRef<CompileSpec> /*compile_specs*/) const override {
    Blob blob;
    Error error = read_blob(processed->data(), processed->size(), blob);
    processed->Free();
    if (error != Error::Ok) {
      return error;
    }
    std::unique_ptr<Frame> frame(new (std::nothrow) Frame());
    if (!frame) {
      return Error::MemoryAllocationFailed;
    }
    error = frame->init(std::move(blob), context.get_named_data_map());
    if (error != Error::Ok) {
      return error;
    }
    return static_cast<DelegateHandle*>(frame.release());
  }

  Error execute(BackendExecutionContext& /*context*/, DelegateHandle* handle, Span<EValue*> args) const override {
    return static_cast<Frame*>(handle)->execute(args);
  }

  void destroy(DelegateHandle* handle) const override {
    delete static_cast<Frame*>(handle);
  }
};

ReferenceBackend backend;
const Error registered = executorch::runtime::register_backend(Backend{"ReferenceBackend", &backend});

} // namespace
} // namespace reference_backend
