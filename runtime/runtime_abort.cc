// What ExecuTorch's headers call on a failed check. The official wheel's library has it, but hides it.

#include <cstdlib>

namespace executorch::runtime {
[[noreturn]] __attribute__((visibility("hidden"))) void runtime_abort() { std::abort(); }
}  // namespace executorch::runtime
