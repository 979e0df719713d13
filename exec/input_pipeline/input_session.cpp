#include "exec/input_pipeline/input_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "exec/checkpoint/saver.h"
#include "exec/device/devices.h"
#include "exec/input_pipeline/input_worker.h"
#include "exec/input_pipeline/lane_exchange.h"
#include "exec/input_pipeline/recommendation_rank.h"
#include "exec/run/agreement.h"
#include "exec/run/clock_sync.h"
#include "exec/run/newest_checkpoint.h"
#include "exec/run/processor.h"
#include "exec/transport/collectives.h"
#include "traces/base/error.h"
#include "traces/input_clocks.h"

namespace pipesim::exec {
namespace {

// Called before anything of the job's size is built. The same on every rank.
void check_job(const InputJob& job, const InputProcess& process, const Transport& transport,
               const SharedClocks& hosts) {
  if (job.costs) {
    if (!all_share_one(hosts)) {
      throw input_error(
          "ranks on several hosts share no clock to emulate exchanges by; start them on one host");
    }
    if (!process.has_all_ranks()) check_links_apart(*job.costs);
    return;
  }
  // Ranks on this host.
  const auto own = hosts[static_cast<std::size_t>(transport.rank())];
  const auto last = std::ranges::find(hosts.rbegin(), hosts.rend(), own).base();
  const int end = static_cast<int>(last - hosts.begin());
  const int processes = process.has_all_ranks() ? 1 : end - own;
  check_training_memory(*job.training, own, end, job.verify ? processes : 0);
}

// The spans of all ranks, on rank 0, by its clock, from the first call of any.
std::vector<std::vector<InputSpan>> gather_spans(Transport& transport, std::vector<InputSpan> own,
                                                 const ClockRelation& clock) {
  for (InputSpan& span : own) {
    for (std::int64_t* time :
         {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
      *time = clock.to_first(*time);
    }
  }
  std::vector<std::vector<InputSpan>> spans;
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  for (const Bytes& bytes : gather(transport, bytes_of(own))) {
    spans.push_back(values_of<InputSpan>(bytes));
    if (!spans.back().empty()) first_ns = std::min(first_ns, spans.back().front().called_ns);
  }
  for (std::vector<InputSpan>& of_rank : spans) {
    for (InputSpan& span : of_rank) {
      for (std::int64_t* time :
           {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
        *time -= first_ns;
      }
    }
  }
  return spans;
}

// One per batch, on rank 0: the mean over ranks, summed in their order.
std::vector<double> mean_losses(Transport& transport, const std::vector<double>& own) {
  std::vector<double> means(own.size());
  for (const Bytes& bytes : gather(transport, bytes_of(own))) {
    const auto theirs = values_of<double>(bytes);
    for (std::size_t batch = 0; batch < means.size(); ++batch) means[batch] += theirs[batch];
  }
  for (double& mean : means) mean /= transport.ranks();
  return means;
}

// The difference from one rank's training, on the lowest rank that has any; empty if none.
std::string compare(const InputProcess::Trained& trained, const RecommendationWorkload& workload,
                    const std::vector<double>& losses, std::size_t done, Transport& transport) {
  std::string own = trained.reference.first_difference(workload);
  for (std::size_t batch = 0; batch < losses.size() && own.empty(); ++batch) {
    const double expected =
        trained.losses[done + batch][static_cast<std::size_t>(transport.rank())];
    if (losses[batch] != expected) {
      own = fmt::format("the loss of batch {} is {}, of one rank {}", done + batch, losses[batch],
                        expected);
    }
  }
  std::string first;
  int rank = 0;
  for (const Bytes& bytes : gather(transport, std::as_bytes(std::span(own)))) {
    const std::string theirs(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (first.empty() && !theirs.empty()) first = fmt::format("rank {}: {}", rank, theirs);
    ++rank;
  }
  return first;
}

// Called by all ranks: whether any is to stop.
bool stops(Transport& transport, const std::function<bool()>& is_to_stop) {
  int any = 0;
  for (const int own : gather_value(transport, is_to_stop && is_to_stop() ? 1 : 0)) any += own;
  return broadcast_value(transport, any) > 0;
}

// Called by all ranks: where to resume, and from what; rank 0 reports skipped checkpoints.
struct InputStart {
  InputState state;
  std::shared_ptr<const CheckpointReader> checkpoint;
};
InputStart find_start(const InputJob& job, Transport& transport,
                      const std::function<void(const std::string&)>& warn) {
  const CheckpointFolders folders{job.resume, job.saves ? job.saves->folder : ""};
  InputStart start;
  std::optional<std::int64_t> done;
  if (!job.resume.empty()) {
    InputState state;
    const auto check = [&](const FoundCheckpoint& found) { state = state_of(found, job); };
    if (const auto newest = find_newest_checkpoint(folders, transport, check, warn)) {
      start = {state, newest->reader};
      done = state.done(job.program.batches);
    }
  }
  check_saved_folder(folders, transport, done);
  return start;
}

}  // namespace

std::string InputJob::fingerprint() const {
  std::string text =
      fmt::format("{} {} {} {}\n{}", epochs, evaluate, verify, program.name, to_text(program));
  if (saves) {
    text += fmt::format("{} {} {} {}", saves->folder, saves->every, saves->keep, saves->beside);
  }
  text += resume;
  if (costs) return text + to_json(*costs);
  const RecommendationTraining& own = *training;
  return text + to_json(own.model) + to_json(own.plan, own.model, own.ranks) +
         fmt::format("{} {} {} {} {} {} {}", own.batch_size, own.seed, own.learning_rate,
                     static_cast<int>(own.table_optimizer), own.table_learning_rate, own.epsilon,
                     source->samples().value_or(-1));
}

std::vector<InputJob::Segment> InputJob::segments(const InputState& start) const {
  std::vector<Segment> all;
  for (int epoch = start.epoch; epoch < epochs; ++epoch) {
    const int whole = program.batches;
    for (int first = epoch == start.epoch ? start.batch : 0; first < whole;) {
      int end = whole;
      if (saves && cut) end = std::min(whole, (first / saves->every + 1) * saves->every);
      all.push_back({epoch, first, end - first, end == whole});
      first = end;
    }
  }
  return all;
}

InputProcess::InputProcess(const InputJob& job, bool has_all_ranks)
    : job_(job), has_all_ranks_(has_all_ranks), network_(job.costs.value_or(InputCosts())) {}

const InputProcess::Trained& InputProcess::reference() {
  const std::lock_guard lock(mutex_);
  if (trained_) return *trained_;
  Trained trained{InputReference(*job_.training), {}};
  for (const auto& [epoch, first, batches, ends_epoch] : job_.segments({})) {
    for (auto& losses :
         trained.reference.train(*job_.source, first, batches, job_.program.is_stale)) {
      trained.losses.push_back(std::move(losses));
    }
  }
  return trained_.emplace(std::move(trained));
}

InputResult run_input_session(const InputJob& job, InputProcess& process, Transport& transport,
                              const OnEpoch& on_epoch, const Clock& clock,
                              const InputCheckpointing& checkpointing) {
  agree_on(transport, "the command line", job.fingerprint());
  const SharedClocks hosts = find_shared_clocks(transport, clock);
  InputResult result;
  InputRun& run = result.run;
  run.is_measured = true;
  run.transport = transport.name();
  run.program = job.program;
  std::unique_ptr<InputWorkload> workload;
  RecommendationWorkload* trainer = nullptr;
  agree(transport, [&] {
    check_job(job, process, transport, hosts);
    if (job.costs) {
      workload = std::make_unique<EmulatedInput>(*job.costs, transport.rank(), process.network());
      run.device = emulated_device;
      run.batch_size = job.costs->batch_size;
    } else {
      auto own =
          std::make_unique<RecommendationWorkload>(*job.training, *job.source, transport.rank());
      trainer = own.get();
      workload = std::move(own);
      run.device = make_device("cpu")->description();
      run.model = job.training->model.name;
      run.batch_size = job.training->batch_size;
    }
  });
  agree_on(transport, "the device", run.device);
  result.processors = count_processors(transport);

  InputStart start;
  std::optional<Saver> saver;
  if (trainer != nullptr) {
    start = find_start(job, transport, checkpointing.warn);
    result.losses = start.state.losses;
    result.evaluations = start.state.evaluations;
    if (start.checkpoint) {
      result.resumed_at = start.state.done(job.program.batches);
      agree(transport, [&] { trainer->load(*start.checkpoint); });
    }
    if (job.saves) {
      saver.emplace(machine_disk(), trainer->device(), transport, *job.saves);
      agree(transport, [&] {
        if (transport.rank() == 0) saver->prepare();
      });
    }
  }
  const std::vector<InputJob::Segment> segments = job.segments(start.state);

  // One-time work, such as generating code for GEMMs of these shapes, is not measured.
  if (trainer != nullptr && !segments.empty()) {
    exchange_apart(transport, "before the first batch", [&](InputExchange& exchange) {
      trainer->evaluate(*job.source, 0, 1, exchange);
    });
  }
  const std::vector<ClockReading> at_start = read_clocks(transport, clock, hosts);
  std::vector<InputSpan> spans;
  std::vector<double> losses;
  for (const InputJob::Segment& segment : segments) {
    run.program = segment.batches == job.program.batches ? job.program : job.cut(segment.batches);
    if (trainer != nullptr) trainer->start(segment.first, segment.batches);
    spans = InputWorker(run.program, transport, *workload, clock).run();
    if (trainer == nullptr) continue;
    losses.insert(losses.end(), trainer->losses().begin(), trainer->losses().end());
    run.losses = mean_losses(transport, trainer->losses());
    result.losses.insert(result.losses.end(), run.losses.begin(), run.losses.end());
    if (segment.ends_epoch && job.evaluate > 0) {
      exchange_apart(transport, "the evaluation", [&](InputExchange& exchange) {
        result.evaluations.push_back(
            trainer->evaluate(*job.source, job.program.batches, job.evaluate, exchange));
      });
    }
    if (segment.ends_epoch && transport.rank() == 0) on_epoch(segment.epoch, run.losses.back());
    const std::int64_t from = std::int64_t{segment.epoch} * job.program.batches + segment.first;
    const auto tell = [&] {
      if (transport.rank() == 0 && checkpointing.on_batches) {
        checkpointing.on_batches(from, from + segment.batches);
      }
    };
    if (!saver) {
      tell();
      continue;
    }
    const InputState state{segment.epoch + (segment.ends_epoch ? 1 : 0),
                           segment.ends_epoch ? 0 : segment.first + segment.batches, result.losses,
                           result.evaluations};
    saver->save(manifest_of(job, state), trainer->saved_arrays());
    tell();
    if (stops(transport, checkpointing.is_to_stop)) {
      saver->finish();
      result.stopped_at = state.done(job.program.batches);
      return result;
    }
  }
  if (saver) saver->finish();
  if (segments.empty()) return result;
  const std::vector<ClockRelation> clocks =
      relate_clocks(at_start, read_clocks(transport, clock, hosts), hosts);
  run.spans =
      gather_spans(transport, std::move(spans), clocks[static_cast<std::size_t>(transport.rank())]);
  if (!run.spans.empty()) start_collectives_together(run);
  if (trainer != nullptr) {
    run.memory = gather_value(transport, trainer->memory());
  } else if (transport.rank() == 0 && !job.costs->holdings.empty()) {
    run.memory = memory_of(run, *job.costs);
  }
  if (job.verify) {
    const InputProcess::Trained* trained = nullptr;
    agree(transport, [&] { trained = &process.reference(); });
    const auto done = static_cast<std::size_t>(result.resumed_at.value_or(0));
    result.difference = compare(*trained, *trainer, losses, done, transport);
  }
  return result;
}

}  // namespace pipesim::exec
