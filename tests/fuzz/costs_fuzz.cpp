// Any bytes as a costs.json: an Error, or costs that are written and read
// again unchanged and can be laid out.
#include <cstdlib>
#include <string_view>

#include "sim/cost/costs.h"
#include "traces/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const CostsFile file = parse_costs(text, "fuzz.json");
    if (to_json(parse_costs(to_json(file), "whole")) != to_json(file)) std::abort();
    const int stages = static_cast<int>(file.layers.empty() ? file.costs.stages.size() : 1);
    const Placement placement = Placement::loop(stages, 1);
    const Costs costs = file.resolve(placement, std::nullopt);
    const std::string written = to_json(costs);
    if (to_json(parse_costs(written, "again").resolve(placement, std::nullopt)) != written) {
      std::abort();
    }
    costs.check(placement, 1000, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
