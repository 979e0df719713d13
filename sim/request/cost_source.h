// The request for a prediction's costs, and from it the costs of any schedule.
//
// One request, validated once; made by the command line from flags, by the viewer's
// playground from numbers, or by any caller. Errors use the command line's terms.
// Plain values; reading is const and thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/advice/candidates.h"
#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/flags/schedule_choice.h"
#include "sim/request/cost_changes.h"
#include "sim/request/training_request.h"

namespace pipesim {

// Costs given as numbers. A list has one value for all virtual stages, or one for each; if it is
// empty, the default applies (usual_stage_costs).
// Where no time is given, the ranks' shares of the model take the usual times, and chunks parts of
// them; what is given is of a chunk.
struct GivenCosts {
  using Values = std::vector<std::int64_t>;

  bool has_times() const {
    return !forward_ns.empty() || !backward_ns.empty() || !backward_input_ns.empty() ||
           !backward_weight_ns.empty();
  }

  Values forward_ns;
  Values backward_ns;  // a full backward, halved into I and W; excludes the next two
  Values backward_input_ns, backward_weight_ns;
  Values overlapped_ns;  // of a forward with a backward in one cell; empty: their sum
  Values activation_bytes, output_bytes;
  Link p2p;
  std::int64_t compute_slowdown_ppm = 0;
};

// The cost of a checkpoint, if costs don't have it, or to override it.
struct SaveRequest {
  std::optional<std::int64_t> bytes;             // that each rank writes
  std::optional<std::int64_t> bytes_per_second;  // of the storage
  std::optional<std::int64_t> copy_bytes_per_second;
};

struct CostRequest {
  std::variant<GivenCosts, CostsFile, TrainingRequest> costs;
  std::string name = "the costs given";    // their name in messages
  std::optional<std::vector<int>> layout;  // layers per virtual stage
  std::optional<P2p> p2p;                  // default async, or as a program's file has it
  std::int64_t eager_limit_bytes = 0;
  std::vector<TimeChange> changes;  // of what the costs say, such as a slow rank
  // The replicas and what they shard, if a file gives their exchanges.
  std::optional<Training> replicas = {};
  std::optional<SaveRequest> save = {};  // if there are checkpoints

  Transfers transfers() const;
  // What simulate() may need besides the schedule, whose file may put transfers on streams.
  BytesNeeded bytes_needed(bool on_streams = false) const;
};

// Costs before the number of stages is known.
class CostSource {
 public:
  // Throws if the request contradicts itself.
  explicit CostSource(CostRequest request);

  // Checked for the schedule's placement and number of microbatches.
  Costs resolve(const Schedule& schedule) const { return resolve(schedule, request_.layout); }
  Costs resolve(const Schedule& schedule, const std::optional<std::vector<int>>& layout) const;
  // For the same model, whatever the schedule's number of stages: costs by stage are those of
  // `given`, divided anew (sim/cost/recut.h). Checked, too.
  Costs resolve_as(const Placement& given, const Schedule& schedule) const;
  // How many stages costs by stage distinguish; 0 if all are the same, or costs are by layer.
  int stages_told() const;
  // One per layer, if by_layer().
  std::vector<StageCosts> layers(const Schedule& schedule) const;
  // How many each virtual stage holds; empty if costs are by stage.
  std::vector<int> layout_of(const Schedule& schedule) const;
  // As asked for.
  const std::optional<std::vector<int>>& layout() const { return request_.layout; }
  // The schedule with what a model's replicas exchange while ranks compute.
  Schedule complete(Schedule schedule) const;
  // Whether costs are by layer, with layers assigned to stages.
  bool by_layer() const { return model() != nullptr || (file() && !file()->layers.empty()); }
  // "calibration", of a file; "file", "model" or "flags" otherwise.
  std::string_view origin() const;
  // The variation of single actions, if calibrated costs have it.
  Variation measured_variation() const;
  // The composition of the costs, if a model gives them.
  std::optional<CostModel> cost_model(int pipeline_ranks) const;
  // The replicas, and what they shard, if more than one.
  std::optional<Training> replicas(int pipeline_ranks) const;
  // How the schedule uses it.
  PipelineShape shape_of(const Schedule& schedule) const;
  Transfers transfers() const { return request_.transfers(); }
  // The same, but the file of a schedule may put them on their own streams.
  Transfers transfers_of(const ScheduleChoice& choice) const;
  // As of the request.
  BytesNeeded bytes_needed(bool on_streams = false) const {
    return request_.bytes_needed(on_streams);
  }

 private:
  CostsFile by_stage(const Placement& placement) const;
  Costs finish(Costs costs, const Schedule& schedule,
               const std::optional<std::vector<int>>& layout) const;
  void set_save(const Schedule& schedule, const std::optional<std::vector<int>>& layout,
                Costs& costs) const;
  const CostsFile* file() const { return std::get_if<CostsFile>(&request_.costs); }
  const TrainingRequest* model() const { return std::get_if<TrainingRequest>(&request_.costs); }
  const GivenCosts* given() const { return std::get_if<GivenCosts>(&request_.costs); }

  CostRequest request_;
};

// Tries candidates with these costs, all for the same model: costs by stage are those of `given`.
Trial trial_with(const CostSource& source, const Placement& given);

}  // namespace pipesim
