// Any bytes as a graph of PipeDream: an Error, or layers that one stage can hold,
// each of which sends no more than all before it put out.
#include <cstdlib>
#include <string_view>

#include "sim/cost/pipedream_graph.h"
#include "traces/base/error.h"

namespace {

void check(const pipesim::PipedreamGraph& graph) {
  using namespace pipesim;
  const std::vector<StageCosts>& layers = graph.costs.layers;
  if (layers.empty() || layers.size() != graph.layers.size()) std::abort();
  if (layers.back().output_bytes != 0) std::abort();
  std::int64_t made = 0;
  for (const StageCosts& layer : layers) {
    made += layer.activation_bytes;
    if (layer.output_bytes < 0 || layer.output_bytes > made) std::abort();
  }
  try {
    const Placement placement = Placement::loop(1, 1);
    graph.costs.resolve(placement, std::nullopt).check(placement, 1, "fuzz");
    if (parse_costs(to_json(graph.costs), "again").layers != layers) std::abort();
  } catch (const Error&) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check(pipesim::parse_pipedream_graph(text, "fuzz.txt", 2));
  } catch (const pipesim::Error&) {
  }
  return 0;
}
