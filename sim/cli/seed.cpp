#include "sim/cli/seed.h"

#include <fmt/format.h>

#include <charconv>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {

std::uint64_t parse_seed(std::string_view text, std::string_view where) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data(), end, seed);
  if (failed != std::errc() || at != end) {
    throw input_error(fmt::format("{}: {} is not a whole number", where, quote(text)));
  }
  return seed;
}

}  // namespace pipesim::cli
