#include "traces/metrics_json.h"

namespace pipesim {

Json bubble_json(const Bubble& bubble) {
  return {{"warmup", bubble.warmup_ns},
          {"steady", bubble.steady_ns},
          {"drain", bubble.drain_ns},
          {"p2p", bubble.p2p_ns}};
}

Json critical_path_json(const CriticalPath& path) {
  return {{"compute_ns", path.compute_ns}, {"p2p_ns", path.p2p_ns}, {"other_ns", path.other_ns}};
}

Json memory_bytes_json(const RankMemory& memory) {
  const WorkingBytes& working = memory.peak.bytes;
  return {{"weights", memory.states.weights},
          {"gradients", memory.states.gradients},
          {"optimizer", memory.states.optimizer},
          {"activations", working.activations + working.residue},
          {"buffers", working.send_buffers + working.receive_buffers}};
}

Json warnings_json(const Warnings& warnings) {
  Json list = Json::array();
  for (const Warnings::Kind& kind : warnings.kinds()) {
    list.push_back({{"what", kind.what}, {"first", kind.first_place}, {"count", kind.count}});
  }
  return list;
}

}  // namespace pipesim
