#include "sim/cli/fit_traces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "sim/calibrate/calibration.h"
#include "sim/request/cost_source.h"
#include "sim/schedule/description.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/tables.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

// Throws if the trace contradicts the row.
class SameRun {
 public:
  explicit SameRun(const std::string& path) : path_(path) {}

  void require(bool is_same, const std::string& traced, const std::string& asked) const {
    if (is_same) return;
    throw input_error(
        fmt::format("trace: {} has {}, but the row has {}; give the trace of this run, or correct "
                    "the row",
                    path_, traced, asked));
  }
  void require_count(std::int64_t traced, std::int64_t asked, std::string_view name) const {
    require(traced == asked, plural(traced, name), plural(asked, name));
  }

 private:
  const std::string& path_;
};

std::string list_text(const std::vector<int>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

// Each rank's compute actions, in order; empty if any cell has several actions, which may be
// recorded as one or as several.
std::vector<std::vector<Action>> computed_by(const ActionLists& lists) {
  std::vector<std::vector<Action>> all(static_cast<std::size_t>(lists.ranks()));
  for (int rank = 0; rank < lists.ranks(); ++rank) {
    for (const Action& action : lists[rank]) {
      if (action.joined) return {};
      if (is_compute(action.kind)) all[static_cast<std::size_t>(rank)].push_back(action);
    }
  }
  return all;
}

// Of the median iteration.
std::vector<std::vector<Action>> computed_in(const RecordedRun& run) {
  std::vector<std::vector<Action>> all(static_cast<std::size_t>(run.ranks));
  for (const Span& span : run.spans_of(run.iterations[run.median_iteration()])) {
    if (!is_compute(span.action.kind)) continue;
    all[static_cast<std::size_t>(span.rank)].push_back(span.action);
  }
  return all;
}

void require_same(const RecordedRun& run, const std::string& path,
                  const PredictionRequest& request) {
  const SameRun same(path);
  const Schedule& schedule = request.schedule.schedule;
  const RunDescription& about = run.about;
  same.require_count(run.ranks, schedule.ranks(), "pipeline rank");
  same.require_count(run.microbatches, schedule.microbatches, "microbatch");
  const std::vector<int> rank_of_stage = schedule.placement.rank_of_stage();
  same.require(about.rank_of_stage == rank_of_stage,
               "virtual stages on ranks " + list_text(about.rank_of_stage),
               "them on ranks " + list_text(rank_of_stage));
  if (!about.layout.empty()) {
    const std::vector<int> layout = CostSource(request.costs).layout_of(schedule);
    same.require(about.layout == layout, "layers split as " + list_text(about.layout),
                 list_text(layout));
  }
  const auto order = computed_by(schedule.actions);
  same.require(order.empty() || computed_in(run) == order, "another order of actions",
               schedule.name);
  const auto& asked = std::get<TrainingRequest>(request.costs.costs);
  if (!about.model_json.empty()) {
    Model model = parse_model(about.model_json, path);
    const std::string name = std::exchange(model.name, asked.model.name);
    same.require(model == asked.model, "model " + printable(name), printable(asked.model.name));
  }
  if (about.source != Source::measured) return;  // others don't have it
  const Training& training = asked.training;
  same.require_count(about.replicas, asked.replicas(schedule.ranks()), "replica");
  same.require_count(about.tensor_parallel, training.tensor_parallel, "tensor-parallel rank");
  const MeasuredFacts& facts = about.measured;
  if (!facts.precision.empty()) {
    same.require(facts.precision == precision_name(training.precision), facts.precision,
                 std::string(precision_name(training.precision)));
  }
  if (facts.micro_batch_size > 0) {
    same.require(facts.micro_batch_size == training.micro_batch_size,
                 fmt::format("a micro-batch size of {}", facts.micro_batch_size),
                 fmt::format("{}", training.micro_batch_size));
  }
  if (facts.sequence_length > 0) {
    same.require(facts.sequence_length == training.sequence_length,
                 fmt::format("sequences of {}", plural(facts.sequence_length, "token")),
                 fmt::format("{}", training.sequence_length));
  }
}

RecordedRun read_trace(const std::string& path, const ReadOptions& options) {
  try {
    return read_run({path}, options);
  } catch (const Error& error) {
    throw Error(error.cause(),
                fmt::format("trace: {}; give what pipeexec or a profiler recorded of this run, its "
                            "path from the folder of the rows",
                            error.what()));
  }
}

}  // namespace

TracedRun read_traced_run(const std::string& path, const PredictionRequest& request) {
  ReadOptions options;
  options.samples = false;
  // Identifies a profile's actions if it does not name them.
  options.profile.program = rows_of(request.schedule.schedule);
  options.profile.program_flag = "trace: the row's schedule";
  const RecordedRun run = read_trace(path, options);
  require_same(run, path, request);
  const Calibration calibration = calibrate(std::span(&run, 1));
  const Placement& placement = request.schedule.schedule.placement;
  TracedRun traced;
  traced.iteration_ns = run.iterations[run.median_iteration()].makespan_ns;
  traced.iterations = static_cast<std::int64_t>(run.iterations.size());
  traced.kinds = kind_times(calibration.costs.resolve(placement, std::nullopt), placement);
  traced.source = run.about.source;
  traced.warnings = taken_line(run) + run.warnings.text();
  return traced;
}

}  // namespace pipesim::cli
