// Any bytes as a model file: an Error, or a model that is written and read again
// unchanged, whose layers add up.
#include <cstdlib>
#include <string_view>

#include "sim/cost/model.h"
#include "traces/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Model model = parse_model(text, "fuzz.json");
    const std::string written = to_json(model);
    if (to_json(parse_model(written, "again")) != written) std::abort();
    if (model.parameters() < 1 || model.layer_name(model.layers() - 1) != "head") std::abort();
  } catch (const Error&) {
  }
  return 0;
}
