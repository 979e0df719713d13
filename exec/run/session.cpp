#include "exec/run/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "exec/checkpoint/saver.h"
#include "exec/run/agreement.h"
#include "exec/run/emulated_links.h"
#include "exec/run/fault_injection.h"
#include "exec/run/processor.h"
#include "exec/run/rank_groups.h"
#include "exec/run/trainer.h"
#include "exec/run/worker.h"
#include "exec/transport/collectives.h"
#include "sim/cost/estimate/operators.h"
#include "sim/schedule/description.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/causality.h"
#include "traces/chrome_writer.h"
#include "traces/run_metadata.h"

namespace pipesim::exec {
namespace {

// Each rank's report of its peaks.
struct PeakReport {
  std::int64_t chunks = 0;
  RankMemory memory;
  std::int64_t taken_bytes = 0;
  CollectiveTimes tensor;
};

std::vector<std::string> layer_names(const Model& model) {
  std::vector<std::string> names;
  for (int i = 0; i < model.layers(); ++i) names.push_back(model.layer_name(i));
  return names;
}

// The description of a run before its first iteration; on every rank.
RecordedRun run_of(const TrainingJob& training, const Device& device, Transport& transport) {
  const Schedule& program = training.program;
  RecordedRun run;
  run.name = program.name;
  run.ranks = program.ranks();
  run.microbatches = program.microbatches;
  run.chunk_of_stage = program.placement.chunk_of_stage();
  RunDescription& about = run.about;
  about.source = Source::measured;
  about.schedule = program.name;
  about.rank_of_stage = program.placement.rank_of_stage();
  about.rank_of_second = program.placement.rank_of_second();
  about.program = rows_of(program);
  about.dependencies = dependencies_of(program);
  about.continuous = training.is_continuous();
  about.transport = transport.name();
  about.accumulate = training.accumulate;
  if (training.saves) about.saves = {training.saves->every, training.saves->beside};
  MeasuredFacts& facts = about.measured;
  facts.processors = count_processors(transport);
  facts.warmup_iterations = training.warmup_left();
  about.replicas = training.data_parallel;
  about.tensor_parallel = training.tensor_parallel;
  about.sequence_parallel = training.sequence_parallel;
  about.zero = training.zero;
  about.shards = training.shards();
  about.bucket_bytes = training.bucket_bytes.value_or(0);
  if (training.costs) {
    about.costs_json = to_json(*training.costs);
    about.device = "emulated, " + std::string(pace_name(training.pace)) + " pace";
    for (const std::string& fault : training.faults.texts()) about.device += ", " + fault;
    facts.pace = pace_name(training.pace);
    return run;
  }
  about.device = device.description();
  for (const std::string& fault : training.faults.texts()) about.device += ", " + fault;
  about.model_json = to_json(training.model);
  about.layout = training.layout;
  about.layers = layer_names(training.model);
  facts.micro_batch_size = training.micro_batch_size;
  facts.sequence_length = training.sequence_length;
  facts.recompute = recompute_name(training.recompute);
  facts.attention = attention_name(training.attention);
  facts.precision = precision_name(training.precision);
  return run;
}

// The clocks of the first replica, which a trace has.
std::vector<ClockRelation> pipeline_clocks(const Mesh& mesh,
                                           const std::vector<ClockRelation>& clocks) {
  std::vector<ClockRelation> own;
  const RankGroup pipeline = mesh.group_of(0, Axis::pipeline);
  for (std::int64_t i = 0; i < pipeline.count; ++i) {
    own.push_back(clocks[static_cast<std::size_t>(pipeline[i])]);
  }
  return own;
}

std::vector<RecordedClock> recorded(const std::vector<ClockRelation>& relations) {
  std::vector<RecordedClock> clocks;
  for (const ClockRelation& clock : relations) {
    clocks.push_back(
        {clock.offset_ns(), clock.drift_ppb(), clock.uncertainty_ns(), clock.shift_ns()});
  }
  return clocks;
}

// Iterations without their spans, times counted from `zero_ns`.
std::vector<RecordedIteration> iterations_of(const std::vector<IterationExtent>& extents,
                                             std::int64_t zero_ns, bool continuous) {
  std::vector<RecordedIteration> iterations;
  for (const IterationExtent& extent : extents) {
    RecordedIteration own;
    own.number = static_cast<std::int32_t>(iterations.size());
    own.start_ns = extent.start_ns - zero_ns;
    own.makespan_ns = extent.makespan_ns;
    own.follows = continuous && !iterations.empty() &&
                  own.start_ns == iterations.back().start_ns + iterations.back().makespan_ns;
    iterations.push_back(own);
  }
  return iterations;
}

// Checks that the transport has a rank for each of the mesh.
void check_ranks(const TrainingJob& training, const Transport& transport) {
  const std::int64_t ranks = training.mesh().ranks();
  if (ranks == transport.ranks()) return;
  const int replicas = training.data_parallel;
  const int shards = training.tensor_parallel;
  throw input_error(fmt::format(
      "{}{}{} {} {}, and transport {} has {}; start as many",
      replicas > 1 ? fmt::format("{} replicas of ", replicas) : "", training.program.name,
      shards > 1 ? fmt::format(" on {} tensor-parallel ranks each", shards) : "",
      replicas > 1 ? "need" : "needs", plural(ranks, "rank"), transport.name(), transport.ranks()));
}

void check_sums(const TrainingJob& training, const Transport& transport) {
  if (!training.library_sums || transport.has_library_sums()) return;
  throw input_error(
      fmt::format("--reduce library: transport {} has no sums of its own; start the ranks with "
                  "mpirun, or omit it",
                  transport.name()));
}

// The bytes of the largest stage's gradients on a rank.
std::int64_t largest_gradients(const TrainingJob& training) {
  std::int64_t largest = 0;
  for (int stage = 0; stage < training.program.stages(); ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    std::int64_t numbers = 0;
    if (training.costs) {
      const std::vector<std::int64_t>& own = training.costs->stages[at].parameters;
      numbers = std::accumulate(own.begin(), own.end(), std::int64_t{0});
    } else {
      const int first = training.first_layer(stage);
      for (int i = 0; i < training.layout[at]; ++i) {
        numbers += rank_parameters(training.model, first + i, training.tensor_parallel);
      }
    }
    largest = std::max(largest, numbers);
  }
  return largest * static_cast<std::int64_t>(sizeof(float));
}

// Each bucket takes room on the host.
void check_buckets(const TrainingJob& training) {
  constexpr std::int64_t most = 1'000'000;
  if (training.data_parallel == 1 || !training.bucket_bytes) return;
  const std::int64_t bytes = largest_gradients(training);
  const std::int64_t bucket = std::max<std::int64_t>(*training.bucket_bytes, sizeof(float));
  if (bytes / bucket <= most) return;
  throw input_error(fmt::format(
      "--bucket-bytes {}: the {} of a stage's gradients make more than {} buckets; give "
      "at least {}",
      *training.bucket_bytes, format_bytes(bytes), most, bytes / most + 1));
}

// Checks messages against the transport's limits.
void check_messages(const TrainingJob& training, const Transport& transport) {
  const Transport::Limits limits = transport.limits();
  const std::int64_t bytes = std::ranges::max(training.message_bytes());
  if (transport.ranks() > 1 && bytes > limits.message_bytes) {
    throw input_error(
        fmt::format("what a stage sends has {}, and transport {} takes messages of {}; use smaller "
                    "microbatches",
                    format_bytes(bytes), transport.name(), format_bytes(limits.message_bytes)));
  }
  const bool in_parts = training.bucket_bytes || training.zero >= 2;
  // The part that belongs to one replica, if they are reduced at once.
  const std::int64_t exchanged = largest_gradients(training) / training.data_parallel;
  if (training.data_parallel > 1 && !in_parts && exchanged > limits.message_bytes) {
    throw input_error(fmt::format(
        "what a replica reduces of a stage has {}, and transport {} takes messages of {}; give "
        "--bucket-bytes",
        format_bytes(exchanged), transport.name(), format_bytes(limits.message_bytes)));
  }
  const std::int64_t results =
      std::int64_t{2} * training.program.stages() * training.program.microbatches;
  if (results > limits.tag - first_free_tag) {
    throw input_error(fmt::format(
        "{} results per iteration, and transport {} tells {} messages apart; use fewer stages or "
        "microbatches",
        results, transport.name(), limits.tag));
  }
}

// Called by all ranks: shifts `relations`, equally on all, so that no message of the recorded
// iterations arrives before it was sent. Rank 0 gets the number of those for which that is
// impossible.
std::int64_t shift_clocks(Transport& transport, const Mesh& mesh, const Recorder& recorder,
                          const SharedClocks& clocks, std::vector<ClockRelation>& relations) {
  const auto rank = static_cast<std::size_t>(transport.rank());
  const auto for_each_transfer = [&](const auto& visit) {
    for (std::size_t k = 0; k < recorder.iterations().size(); ++k) {
      for (const MeasuredTransfer& transfer :
           gather_transfers(transport, mesh, recorder, k, relations[rank])) {
        visit(clocks[static_cast<std::size_t>(transfer.from)],
              clocks[static_cast<std::size_t>(transfer.to)], transfer.took_ns);
      }
    }
  };
  LeastTransfers least(transport.ranks());
  for_each_transfer([&](int from, int to, std::int64_t took) { least.add(from, to, took); });
  CausalShifts found = causal_shifts(least, min_transfer_ns);
  const bool contradict = broadcast_value(transport, found.allowance_ns) > 0;
  const auto bytes = bytes_of(found.shift_ns);
  const auto shifts = values_of<std::int64_t>(broadcast(transport, {bytes.begin(), bytes.end()}));
  for (std::size_t r = 0; r < relations.size(); ++r) {
    relations[r].set_shift(shifts[static_cast<std::size_t>(clocks[r])]);
  }
  std::int64_t impossible = 0;
  if (contradict) {
    for_each_transfer([&](int, int, std::int64_t took) { impossible += took < min_transfer_ns; });
  }
  return impossible;
}

// Called by all ranks; each pipeline's first rank gets its iterations and the spans of the median
// one into `result`, and rank 0 writes all of them if there is a trace.
void bring_together(const TrainingJob& training, RankGroups& groups, const Recorder& recorder,
                    OutputFile* trace, RunResult& result) {
  Transport& pipeline = groups.pipeline;
  const bool leads = pipeline.rank() == 0;
  const ClockRelation& clock = result.clocks[static_cast<std::size_t>(groups.whole.rank())];
  const std::vector<IterationExtent> extents =
      gather_extents(pipeline, recorder, clock, training.is_continuous());
  RecordedRun& run = result.run;
  // Times count from the first start in any pipeline.
  std::int64_t zero = leads ? extents.front().start_ns : std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t theirs : gather_value(groups.whole, zero)) zero = std::min(zero, theirs);
  zero = broadcast_value(groups.whole, zero);
  std::size_t median = 0;
  if (leads) {
    run.iterations = iterations_of(extents, zero, training.is_continuous());
    median = run.median_iteration();
  }
  result.median_place = median = broadcast_value(groups.whole, median);

  GroupTransport& sharing = training.shards() > 1 ? groups.sharers : groups.likes;
  const Leaders leaders{groups.pipelines, sharing};
  const LargestBytes largest = gather_largest(groups.whole, recorder);
  std::optional<ChromeTraceWriter> writer;
  if (trace != nullptr) {
    writer.emplace(run, metadata_json(run), *trace,
                   MeasuredRun{run.about.layers, largest.states, largest.working}, training.mesh());
  }
  for (std::size_t k = 0; k < recorder.iterations().size(); ++k) {
    if (k != median && !training.record_details) continue;
    const IterationRecord own = gather_iteration(pipeline, leaders, recorder, k, zero, clock);
    if (!leads) continue;
    int number = 0;
    for (const IterationRecord& one : gather_records(groups.pipelines, own)) {
      if (writer) writer->add(one.spans, one.layers, one.samples, number++, one.exchanges);
    }
    if (k != median) continue;
    run.spans.assign(own.spans.begin(), own.spans.end());
    run.iterations[k].end = run.spans.size();
    result.metrics = run.metrics(k);
  }
  if (writer) writer->finish();
}

// A rank's exchanges with tensor-parallel ranks in an iteration.
CollectiveTimes tensor_times(const IterationRecord& iteration) {
  CollectiveTimes times;
  for (const ExchangeSpan& exchange : iteration.exchanges) {
    times.total_ns += exchange.end_ns - exchange.start_ns;
    times.hidden_ns += exchange.end_ns - exchange.start_ns - exchange.exposed_ns;
  }
  return times;
}

// Each rank's report, and that of each pipeline's first rank on it; rank 0 gets all.
void report_ranks(RankGroups& groups, const Mesh& mesh, const Worker& worker, const Device& device,
                  RunResult& result) {
  const std::vector<Bytes> pipelines = gather(groups.whole, bytes_of(result.metrics.ranks));
  const std::vector<Bytes> collectives =
      gather(groups.whole, bytes_of(collective_times(result.run.spans, groups.pipeline.ranks())));
  const PeakReport own{worker.peak_chunks(), worker.peak_memory(), device.most_taken_bytes(),
                       tensor_times(worker.recorder().iterations()[result.median_place])};
  const std::vector<PeakReport> peaks = gather_value(groups.whole, own);
  if (groups.whole.rank() != 0) return;
  for (std::size_t r = 0; r < peaks.size(); ++r) {
    const Coordinates at = mesh.coordinates_of(static_cast<std::int64_t>(r));
    const auto leader =
        static_cast<std::size_t>(mesh.rank_at({.tensor = at.tensor, .data = at.data}));
    const auto metrics = values_of<RankMetrics>(pipelines[leader]);
    RankResult& rank = result.ranks.emplace_back();
    rank.at = at;
    rank.metrics = metrics[static_cast<std::size_t>(at.pipeline)];
    rank.metrics.peak_activation_chunks = peaks[r].chunks;
    rank.memory = peaks[r].memory;
    rank.taken_bytes = peaks[r].taken_bytes;
    rank.tensor = peaks[r].tensor;
    rank.collectives =
        values_of<CollectiveTimes>(collectives[leader])[static_cast<std::size_t>(at.pipeline)];
    if (at.data == 0 && at.tensor == 0) {
      result.metrics.ranks[static_cast<std::size_t>(at.pipeline)] = rank.metrics;
    }
  }
}

}  // namespace

std::vector<std::int64_t> RunResult::iteration_ns() const {
  std::vector<std::int64_t> times;
  for (const RecordedIteration& iteration : run.iterations) times.push_back(iteration.makespan_ns);
  return times;
}

RunResult run_session(const TrainingJob& training, Device& device, Transport& transport,
                      const OnIteration& on_iteration, OutputFile* trace, const Clock& clock,
                      const Checkpointing& checkpointing) {
  const bool first = transport.rank() == 0;
  // Defaults depend on the device.
  agree_on(transport, "the device", device.description());
  agree_on(transport, "the command line", training.fingerprint());
  const SharedClocks hosts = find_shared_clocks(transport, clock);
  agree(transport, [&] {
    check_ranks(training, transport);
    check_messages(training, transport);
    check_buckets(training);
    check_sums(training, transport);
    if (training.costs && training.pace == EmulationPace::anchored && !all_share_one(hosts)) {
      throw input_error(
          "ranks on several hosts share no clock to anchor actions to; use --pace wall");
    }
    if (training.costs && EmulatedLinks::exist(*training.costs) && !all_share_one(hosts)) {
      throw input_error(
          "ranks on several hosts share no clock to emulate links by; take latency_ns and "
          "bandwidth_bytes_per_s of p2p and replicas out of the costs");
    }
  });

  RunResult result;
  result.run = run_of(training, device, transport);
  Trainer* trainer = nullptr;
  std::optional<EmulatedLinks> links;
  if (training.costs && EmulatedLinks::exist(*training.costs)) {
    links.emplace(transport, training.mesh(), *training.costs, training.pace);
  }
  Transport& carrier = links ? *links : transport;
  RankGroups groups(carrier, training.mesh(), training.shards());
  GroupTransport& pipeline = groups.pipeline;
  Worker worker(
      training, device, pipeline, clock,
      [&](Pool& pool, Recorder& recorder, OverlappedCollectives& beside,
          const std::function<void()>& poll) -> std::unique_ptr<Workload> {
        if (training.costs) {
          return std::make_unique<Emulation>(training, groups, pool, recorder, beside);
        }
        auto own =
            std::make_unique<Trainer>(training, device, groups, pool, recorder, beside, poll);
        trainer = own.get();
        if (training.faults.empty()) return own;
        return std::make_unique<FaultyWorkload>(std::move(own), training.faults, pipeline.rank());
      });
  std::optional<Reference> reference;
  if (training.verify) {
    result.verification.emplace();
    if (first) reference.emplace(training, device);
  }
  if (trainer != nullptr) trainer->stop_where(checkpointing.is_to_stop);
  if (const std::optional<Resumed>& start = checkpointing.start) {
    result.resumed_at = start->state.iteration;
    result.warmup_losses = start->state.warmup_losses;
    result.losses = start->state.losses;
    if (training.first_iteration >= training.end()) return result;
    trainer->load(*start->checkpoint, start->state.passes);
    if (reference) reference->load(*start->checkpoint);
  }
  std::optional<Saver> saver;
  if (training.saves) {
    saver.emplace(*checkpointing.disk, device, transport, *training.saves);
    agree(transport, [&] {
      if (first) saver->prepare();
    });
    worker.between_actions([&] { saver->poll(); });
  }
  const std::vector<ClockReading> at_start = read_clocks(transport, clock, hosts);
  const auto note_written = [&] {
    if (!saver) return;
    for (const Saver::Written& one : saver->take_written()) {
      worker.note_written(static_cast<int>(one.iteration) - 1, one.bytes, one.start_ns, one.end_ns);
    }
  };
  for (int i = training.first_iteration; i < training.end(); ++i) {
    if (training.starts_together(i)) barrier(transport);
    const auto save_of = [&](const std::optional<Outcome>& outcome) -> Worker::Save {
      if (!training.costs && outcome) {
        (i < training.warmup ? result.warmup_losses : result.losses).push_back(outcome->loss);
      }
      const bool stops = outcome && outcome->stops;
      if (!saver || !(training.is_saved(i) || stops)) return {};
      return [&] {
        const TrainingState state =
            state_after(training, i + 1, result.warmup_losses, result.losses);
        return saver->save(manifest_of(training, state), trainer->saved_arrays(state.passes));
      };
    };
    const std::optional<Outcome> outcome = worker.run(i, save_of);
    if (saver) saver->poll();
    note_written();
    if (first) on_iteration(i, outcome);
    if (outcome && outcome->stops) {
      result.stopped_at = i + 1;
      break;
    }
    if (training.costs || !outcome || !training.verify) continue;
    compare_with_reference(training, transport, device, trainer->stages(), i, *outcome,
                           first ? &*reference : nullptr, first ? &*result.verification : nullptr);
  }
  if (saver) saver->finish();
  note_written();
  if (result.stopped_at) return result;
  result.clocks = relate_clocks(at_start, read_clocks(transport, clock, hosts), hosts);
  if (!all_share_one(hosts)) {
    result.run.about.measured.adjusted_transfers =
        shift_clocks(transport, training.mesh(), worker.recorder(), hosts, result.clocks);
    result.run.about.clocks = recorded(pipeline_clocks(training.mesh(), result.clocks));
  }
  bring_together(training, groups, worker.recorder(), trace, result);
  report_ranks(groups, training.mesh(), worker, device, result);
  return result;
}

}  // namespace pipesim::exec
