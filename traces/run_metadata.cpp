#include "traces/run_metadata.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "traces/base/json.h"

namespace pipesim {
namespace {

void add_measured(const RecordedRun& run, Json& json) {
  const RunDescription& about = run.about;
  const MeasuredFacts& facts = about.measured;
  json["device"] = about.device;
  json["transport"] = about.transport;
  json["machine"] = {{"kind", "measured"}, {"processors", facts.processors}};
  if (!about.clocks.empty()) {
    json["clocks"] = Json::array();
    for (const RecordedClock& clock : about.clocks) {
      json["clocks"].push_back({{"offset_ns", clock.offset_ns},
                                {"drift_ppb", clock.drift_ppb},
                                {"uncertainty_ns", clock.uncertainty_ns},
                                {"shift_ns", clock.shift_ns}});
    }
    json["adjusted_transfers"] = facts.adjusted_transfers;
  }
  if (about.replicas > 1) {
    json["data_parallel"] = about.replicas;
    json["zero"] = about.zero;
    if (about.zero > 0) json["shard_over"] = about.shards;
    if (about.bucket_bytes > 0) json["bucket_bytes"] = about.bucket_bytes;
  }
  if (about.tensor_parallel > 1) {
    json["tensor_parallel"] = about.tensor_parallel;
    json["sequence_parallel"] = about.sequence_parallel;
  }
  if (!about.costs_json.empty()) {
    json["pace"] = facts.pace;
    return;
  }
  json["model"] = Json::verbatim(about.model_json);
  json["layout"] = about.layout;
  json["layers"] = about.layers;
  json["micro_batch_size"] = facts.micro_batch_size;
  json["sequence_length"] = facts.sequence_length;
  json["recompute"] = facts.recompute;
  json["attention"] = facts.attention;
  json["precision"] = facts.precision;
}

}  // namespace

std::string metadata_json(const RecordedRun& run) {
  const RunDescription& about = run.about;
  const bool is_measured = about.source == Source::measured;
  std::vector<std::int64_t> iteration_ns;
  for (const RecordedIteration& iteration : run.iterations) {
    iteration_ns.push_back(iteration.makespan_ns);
  }
  Json json;
  json["format"] = "pipesim-trace";
  json["version"] = 1;
  json["source"] = name_of(about.source);
  json["schedule"] = about.schedule;
  json["stages"] = run.ranks;
  json["virtual_stages"] = run.chunk_of_stage.empty() ? 0
                                                      : (std::ranges::max(run.chunk_of_stage) + 1) /
                                                            (about.rank_of_second.empty() ? 1 : 2);
  json["microbatches"] = run.microbatches;
  json["rank_of_stage"] = about.rank_of_stage;
  if (!about.rank_of_second.empty()) json["rank_of_second"] = about.rank_of_second;
  json["iterations"] = iteration_ns.size();
  if (about.accumulate > 1) json["accumulate"] = about.accumulate;
  if (about.saves.any()) {
    json["checkpoint_every"] = about.saves.every;
    json["async_checkpoint"] = about.saves.beside;
  }
  if (is_measured) json["warmup_iterations"] = about.measured.warmup_iterations;
  if (about.continuous || is_measured) json["continuous"] = about.continuous;
  if (is_measured) {
    json["makespan_ns"] = iteration_ns[run.median_iteration()];
    json["iteration_ns"] = iteration_ns;
    add_measured(run, json);
  } else {
    json["makespan_ns"] = iteration_ns.front();
    json["p2p"] = about.p2p;
    if (!about.costs_from.empty()) json["costs_from"] = about.costs_from;
    json["eager_limit_bytes"] = about.eager_limit_bytes;
    json["machine"] = {{"kind", "simulated"}};
  }
  json["program"] = about.program;
  if (!about.dependencies.empty()) json["dependencies"] = about.dependencies;
  if (!about.costs_json.empty()) json["costs"] = Json::verbatim(about.costs_json);
  return json.dump();
}

}  // namespace pipesim
