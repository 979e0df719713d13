#include "sim/cli/commands.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/cost/hardware/device.h"
#include "sim/cost/hardware/software.h"
#include "sim/cost/model.h"
#include "sim/engine/p2p.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/recommendation_model.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/receives.h"

namespace pipesim::cli {

std::vector<KnownNames> known_names() {
  std::vector<std::string> schedules;
  for (const Family& family : all_families()) schedules.emplace_back(family.name);
  std::vector<std::string> models;
  for (const Model& model : known_models()) models.push_back(model.name);
  std::vector<std::string> recommendation_models;
  for (const auto& model : known_recommendation_models()) {
    recommendation_models.push_back(model.name);
  }
  std::vector<std::string> all_models = models;
  all_models.insert(all_models.end(), recommendation_models.begin(), recommendation_models.end());
  std::vector<std::string> input_pipelines;
  for (const InputFamily& family : all_input_families()) input_pipelines.emplace_back(family.name);
  std::vector<std::string> precisions;
  for (int i = 0; i < precision_count; ++i) {
    precisions.emplace_back(precision_name(static_cast<Precision>(i)));
  }
  std::vector<std::string> p2p;
  for (const P2p mode : {P2p::async, P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
    p2p.emplace_back(p2p_name(mode));
  }
  std::vector<std::string> transports;
  for (const SendMode mode : all_send_modes()) transports.emplace_back(send_mode_name(mode));
  std::vector<std::string> receives;
  for (const Receives where : all_receives()) receives.emplace_back(receives_name(where));
  return {{"--schedule", schedules},
          {"print schedule", schedules},
          {"check schedule", schedules},
          {"lower schedule", schedules},
          {"convert schedule", schedules},
          {"streams schedule", schedules},
          {"receives schedule", schedules},
          {"--model", models},
          {"pipesim --model", recommendation_models},
          {"models name", all_models},
          {"--cluster", known_clusters()},
          {"clusters name", known_clusters()},
          {"--software", known_software()},
          {"software name", known_software()},
          {"devices name", known_devices()},
          {"--precision", precisions},
          {"--attention", {"fused", "unfused"}},
          {"--recompute", {"selective", "attention", "norms", "activation", "products"}},
          {"--p2p", p2p},
          {"--transport", transports},
          {"--receives", receives},
          {"--input-pipeline", input_pipelines},
          {"--table-optimizer", {"sgd", "adagrad"}},
          {"plan --objective", {"time", "memory", "devices"}},
          {"partition --objective", {"iteration", "bottleneck"}}};
}

}  // namespace pipesim::cli
