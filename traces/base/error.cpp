#include "traces/base/error.h"

#include <fmt/format.h>

#include <new>

#include "traces/base/memory.h"

namespace pipesim {

Error as_error(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  // A size that no memory could have is a length_error.
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr ||
      dynamic_cast<const std::length_error*>(&thrown) != nullptr) {
    return input_error(out_of_memory);
  }
  return work_error(fmt::format("a fault of this program; please report it: {}", thrown.what()));
}

}  // namespace pipesim
