// What `pipesim plan` prints.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/answer.h"
#include "sim/plan/nearest.h"
#include "traces/base/json.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// What so many devices come to.
struct PlanOfDevices {
  int devices = 0;
  PlanCounts counts;
  std::int64_t layouts = 0;         // of the space
  std::optional<PlanOutcome> best;  // absent where nothing fits
  bool is_certain = true;           // that it fits
  double mfu = 0;                   // of that
  std::string layout, command;      // in words
  Json choices;                     // plan_layout_json()
};

enum class PlanObjective { time, memory, devices };

// All that there is to say; refers to what its caller holds.
struct PlanView {
  const PlanSpace& space;
  const PlanAnswer& answer;
  std::int64_t memory_cap_bytes;
  std::int64_t certain_bytes;  // the largest peak that fits with its whole band
  PlanObjective objective;
  const std::vector<PlanOfDevices>& by_devices;  // where several are asked for
  // Of the command that predicts a layout, before the layout's own: "--model gpt3-175b", ...
  const std::vector<std::string>& flags;
  std::optional<Finalist> riskier = {};  // faster than the best, but may not fit
  std::optional<NearbyBatch> nearby = {};
  // Of the best, where user buffers are assumed to hide exchanges: its time without them.
  std::optional<std::int64_t> without_overlap_ns = {};
  const Json* from = nullptr;  // the script that it starts from, if there is one
};

// The best, and the command that predicts it.
std::string plan_summary(const PlanView& view, const Terminal& terminal);
std::string plan_report(const PlanView& view, const Terminal& terminal);
std::string plan_json(const PlanView& view);
// Everything that was evaluated, a line each.
std::string plan_csv(const PlanView& view);

// A layout's choices as fields; `layers` by virtual stage, if they are not dealt out as usual.
Json plan_layout_json(const PlanSpace& space, const PlanPoint& point, const LayersOfStages& layers);

// The command that predicts a layout, on one line. `flags`: as a view has them.
std::string plan_command(const std::vector<std::string>& flags, const PlanSpace& space,
                         const PlanPoint& point, const LayersOfStages& layers);

// "1f1b, 8 stages, 4 tensor-parallel ranks, 16 replicas, micro-batch size 1"; "no pipeline, 4 ..."
// of one stage.
std::string plan_layout_words(const PlanSpace& space, const PlanPoint& point);

}  // namespace pipesim::cli
