// Any bytes as a configuration of another program: an Error, or flags whose model, if there is one,
// is written and read again unchanged.
#include <cstdlib>
#include <string_view>

#include "sim/import/imported.h"
#include "traces/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Imported imported = import_training(text, "fuzz", {.devices = 64, .vocabulary = 1000});
    for (const Imported::Flag& flag : imported.flags) {
      if (!flag.name.starts_with("--")) std::abort();
    }
    if (imported.model && parse_model(to_json(*imported.model), "again") != *imported.model) {
      std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
