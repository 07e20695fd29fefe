// What ExecuTorch's headers call on a failed check. The official wheel has it in a library that
// programs do not name when they link, and so cannot take it from.

#include <cstdlib>

namespace executorch::runtime {
[[noreturn]] void runtime_abort() { std::abort(); }
}  // namespace executorch::runtime
