#include "exec/run/session.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "exec/run/agreement.h"
#include "exec/run/trainer.h"
#include "exec/run/worker.h"
#include "exec/transport/collectives.h"
#include "sim/schedule/csv.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/chrome_writer.h"

namespace pipesim::exec {
namespace {

// How many processors the ranks together may run on; on rank 0.
int count_processors(Transport& transport) {
  cpu_set_t own;
  CPU_ZERO(&own);
  ::sched_getaffinity(0, sizeof own, &own);  // of the calling thread
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& theirs : gather_value(transport, own)) CPU_OR(&all, &all, &theirs);
  return CPU_COUNT(&all);
}

// What each rank tells of its peaks.
struct PeakReport {
  std::int64_t chunks = 0;
  RankMemory memory;
};

std::vector<std::string> layer_names(const Model& model) {
  std::vector<std::string> names;
  for (int i = 0; i < model.layers(); ++i) names.push_back(model.layer_name(i));
  return names;
}

std::string metadata(const Training& training, const RunResult& result) {
  using Json = nlohmann::ordered_json;
  const Schedule& program = training.program;
  Json json;
  json["format"] = "pipesim-trace";
  json["version"] = 1;
  json["source"] = "measured";
  json["schedule"] = program.name;
  json["stages"] = program.ranks();
  json["virtual_stages"] = program.placement.chunks();
  json["microbatches"] = program.microbatches;
  json["rank_of_stage"] = program.placement.rank_of_stage();
  json["iterations"] = training.iterations;
  json["warmup_iterations"] = training.warmup;
  json["makespan_ns"] = result.median_ns();
  json["iteration_ns"] = result.iteration_ns;
  json["device"] = result.device;
  json["transport"] = result.transport;
  json["machine"] = {{"kind", "measured"}, {"processors", result.processors}};
  if (training.costs) {
    json["costs"] = Json::parse(to_json(*training.costs));
    json["pace"] = pace_name(training.pace);
  } else {
    json["model"] = Json::parse(to_json(training.model));
    json["layout"] = training.layout;
    json["layers"] = layer_names(training.model);
    json["micro_batch_size"] = training.micro_batch_size;
    json["sequence_length"] = training.sequence_length;
    json["recompute"] = training.recompute ? "full" : "none";
  }
  Json rows = Json::array();
  for (int rank = 0; rank < program.ranks(); ++rank) rows.push_back(csv_row(program.actions[rank]));
  json["program"] = std::move(rows);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What travels must fit into what a transport takes.
void check_messages(const Training& training, const Transport& transport) {
  const Transport::Limits limits = transport.limits();
  const std::int64_t bytes = std::ranges::max(training.message_bytes());
  if (transport.ranks() > 1 && bytes > limits.message_bytes) {
    throw input_error(
        fmt::format("what a stage sends has {}, and transport {} takes messages of {}; use smaller "
                    "microbatches",
                    format_bytes(bytes), transport.name(), format_bytes(limits.message_bytes)));
  }
  const std::int64_t results =
      std::int64_t{2} * training.program.stages() * training.program.microbatches;
  if (results > limits.tag - first_free_tag) {
    throw input_error(fmt::format(
        "{} results an iteration, and transport {} tells {} messages apart; use fewer stages or "
        "microbatches",
        results, transport.name(), limits.tag));
  }
}

// All ranks take part; rank 0 gets the spans of the median iteration into
// `result`, and writes all of them where there is a trace.
void bring_together(const Training& training, Transport& transport, const Recorder& recorder,
                    OutputFile* trace, RunResult& result) {
  const bool first = transport.rank() == 0;
  const std::vector<Extent> extents = gather_extents(transport, recorder);
  for (const Extent& extent : extents) result.iteration_ns.push_back(extent.makespan_ns());
  if (first) result.median = median_of(result.iteration_ns);
  result.median = broadcast_value(transport, result.median);

  const LargestBytes largest = gather_largest(transport, recorder);
  std::optional<ChromeTraceWriter> writer;
  if (trace != nullptr) {
    TimelineFrame frame;
    frame.ranks = training.program.ranks();
    frame.microbatches = training.program.microbatches;
    frame.chunk_of_stage = training.program.placement.chunk_of_stage();
    writer.emplace(frame, metadata(training, result), *trace,
                   MeasuredRun{layer_names(training.model), largest.states, largest.working});
  }
  const std::int64_t zero = first ? extents.front().start_ns : 0;
  for (std::size_t k = 0; k < recorder.iterations().size(); ++k) {
    if (k != result.median && !training.record_details) continue;
    MeasuredIteration iteration = gather_iteration(transport, recorder, k, zero);
    if (writer) writer->add(iteration.spans, iteration.layers, iteration.samples);
    if (!first || k != result.median) continue;
    const std::int64_t shift = extents[k].start_ns - zero;
    for (Span& span : iteration.spans) {
      for (std::int64_t* time : {&span.start_ns, &span.end_ns}) *time -= shift;
      if (span.input_arrival_ns == 0) continue;
      for (std::int64_t* time : {&span.input_sent_ns, &span.input_arrival_ns}) *time -= shift;
    }
    result.spans = std::move(iteration.spans);
    result.metrics =
        measure(result.spans, training.program.placement, training.program.microbatches);
  }
  if (writer) writer->finish();
}

}  // namespace

RunResult run_session(const Training& training, Device& device, Transport& transport,
                      const OnIteration& on_iteration, OutputFile* trace) {
  const bool first = transport.rank() == 0;
  agree_on(transport, "the command line", training.fingerprint());
  agree_on(transport, "the device", device.description());
  agree_on_one_clock(transport);
  agree(transport, [&] { check_messages(training, transport); });

  RunResult result;
  result.device = training.costs ? "emulated, " + std::string(pace_name(training.pace)) + " pace"
                                 : device.description();
  result.transport = transport.name();
  result.processors = count_processors(transport);
  const Trainer* trainer = nullptr;
  Worker worker(
      training, device, transport, Clock(),
      [&](Pool& pool, Recorder& recorder,
          const std::function<void()>& poll) -> std::unique_ptr<Workload> {
        if (training.costs) {
          return std::make_unique<Emulation>(training.program, *training.costs, training.pace,
                                             transport.rank(), pool, recorder);
        }
        auto own = std::make_unique<Trainer>(training, device, transport, pool, recorder, poll);
        trainer = own.get();
        return own;
      });
  std::optional<Reference> reference;
  if (training.verify) {
    result.verification.emplace();
    if (first) reference.emplace(training, device);
  }
  for (int i = 0; i < training.warmup + training.iterations; ++i) {
    const Outcome outcome = worker.run(i);
    if (first) on_iteration(i, outcome);
    if (training.costs) continue;
    (i < training.warmup ? result.warmup_losses : result.losses).push_back(outcome.loss);
    if (!training.verify) continue;
    compare_with_reference(training, transport, device, trainer->stages(), i, outcome,
                           first ? &*reference : nullptr, first ? &*result.verification : nullptr);
  }
  bring_together(training, transport, worker.recorder(), trace, result);

  const PeakReport own{worker.peak_chunks(), worker.peak_memory()};
  std::size_t rank = 0;
  for (const PeakReport& report : gather_value(transport, own)) {
    result.metrics.ranks[rank++].peak_activation_chunks = report.chunks;
    result.memory.push_back(report.memory);
  }
  return result;
}

}  // namespace pipesim::exec
