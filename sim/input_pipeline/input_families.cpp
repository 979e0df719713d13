#include "sim/input_pipeline/input_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using enum Kind;

// The streams of a batch's forward and backward.
struct InputStreams {
  InputStream dist = InputStream::data_dist;
  InputStream lookup = InputStream::compute;
  InputStream output = InputStream::compute;
  // Gradients of rows are sent back on the lookup's stream: autograd runs a backward on the stream
  // of its forward.
  InputStream output_backward = InputStream::compute;
};

// Records calls in the host's order. Calls for missing batches are skipped, as in a pipeline whose
// iterator is exhausted.
class HostOrder {
 public:
  HostOrder(int batches, int accumulate, InputStreams streams)
      : batches_(batches), accumulate_(accumulate), streams_(streams) {}

  InputCalls take() { return std::move(calls_); }
  int batches() const { return batches_; }
  bool has(std::int32_t batch) const { return batch >= 0 && batch < batches_; }

  // Takes a batch, and copies it.
  void next(std::int32_t batch) { call(NEXT, batch, InputStream::host); }
  void copy(std::int32_t batch) { call(COPY, batch, InputStream::memcpy); }
  void enqueue(std::int32_t batch) {
    next(batch);
    copy(batch);
  }
  void prepare(std::int32_t batch) {
    call(PREPARE, batch, InputStream::prepare, {COPY});
    is_prepared_ = true;
  }
  void start_dist(std::int32_t batch) {
    call(SPLITS, batch, streams_.dist, {is_prepared_ ? PREPARE : COPY});
  }
  void finish_dist(std::int32_t batch) {
    call(READ, batch, InputStream::host, {SPLITS});
    call(IDS, batch, streams_.dist);
  }
  void prefetch(std::int32_t batch) { call(PREFETCH, batch, InputStream::prefetch, {IDS}); }
  void zero_grad(std::int32_t batch) {
    if (batch % accumulate_ == 0) call(ZERO_GRAD, batch, InputStream::compute);
  }
  // The same after a step.
  void zero_grad_behind(std::int32_t batch) {
    if (steps_after(batch)) call(ZERO_GRAD, batch, InputStream::compute);
  }

  // The compute stream waits for a batch that `stream` has last worked on, by `kind`.
  void bottom(std::int32_t batch, Kind kind) { call(BOTTOM, batch, InputStream::compute, {kind}); }
  void lookup(std::int32_t batch, Kind behind = IDS) {
    call(LOOKUP, batch, streams_.lookup, {behind});
    call(OUTPUT, batch, streams_.output, {LOOKUP});
  }
  void top(std::int32_t batch) { call(TOP, batch, InputStream::compute, {OUTPUT}); }

  void backward(std::int32_t batch) {
    dense_backward_top(batch);
    rows_backward(batch);
    dense_backward_bottom(batch);
  }
  void dense_backward_top(std::int32_t batch) {
    call(TOP_BACKWARD, batch, InputStream::compute);
    if (steps_after(batch)) {
      call(REDUCE_TOP, batch, InputStream::reduction, {TOP_BACKWARD});
    }
  }
  void rows_backward(std::int32_t batch) {
    call(OUTPUT_BACKWARD, batch, streams_.output_backward, {TOP_BACKWARD});
    call(UPDATE, batch, streams_.lookup, {OUTPUT_BACKWARD});
  }
  void dense_backward_bottom(std::int32_t batch) {
    call(BOTTOM_BACKWARD, batch, InputStream::compute);
    if (steps_after(batch)) {
      call(REDUCE_BOTTOM, batch, InputStream::reduction, {BOTTOM_BACKWARD});
    }
  }
  void step(std::int32_t batch) {
    if (!steps_after(batch)) return;
    call(DENSE_STEP, batch, InputStream::compute, {REDUCE_TOP, REDUCE_BOTTOM});
  }
  bool steps_after(std::int32_t batch) const {
    return (batch + 1) % accumulate_ == 0 || batch + 1 == batches_;
  }

 private:
  void call(Kind kind, std::int32_t batch, InputStream stream,
            std::initializer_list<Kind> after = {}) {
    if (!has(batch)) return;
    InputCall made{input_action(kind, batch), stream, {}};
    for (const Kind awaited : after) {
      const std::uint32_t place = find(input_action(awaited, batch));
      if (calls_[place].stream != stream) made.after.push_back(place);
    }
    if (is_meeting(kind)) {
      if (last_collective_ && calls_[*last_collective_].stream != stream) {
        made.after.push_back(*last_collective_);
      }
      last_collective_ = static_cast<std::uint32_t>(calls_.size());
    }
    std::ranges::sort(made.after);
    made.after.erase(std::unique(made.after.begin(), made.after.end()), made.after.end());
    calls_.push_back(std::move(made));
  }
  // Waits are for recent calls.
  std::uint32_t find(const Action& action) const {
    std::size_t place = calls_.size();
    while (!(calls_[--place].action == action)) {
    }
    return static_cast<std::uint32_t>(place);
  }

  int batches_;
  int accumulate_;
  InputStreams streams_;
  bool is_prepared_ = false;
  std::optional<std::uint32_t> last_collective_;  // its index
  InputCalls calls_;
};

// TrainPipelineBase: the next batch is taken before the forward and copied after the backward; ids
// are exchanged within the forward, on the compute stream.
void call_base(HostOrder& host) {
  host.enqueue(0);
  for (std::int32_t batch = 0; batch < host.batches(); ++batch) {
    host.next(batch + 1);
    host.zero_grad(batch);
    host.bottom(batch, COPY);
    host.start_dist(batch);
    host.finish_dist(batch);
    host.lookup(batch);
    host.top(batch);
    host.backward(batch);
    host.copy(batch + 1);
    host.step(batch);
  }
}

// TrainPipelineSparseDist: splits are exchanged during the forward of the previous batch, ids
// during its backward. TrainPipelineFusedSparseDist looks rows up on a separate stream, from the
// start of an iteration.
void call_sparse_dist(HostOrder& host, bool looks_up_first) {
  host.enqueue(0);
  host.start_dist(0);
  host.finish_dist(0);
  host.enqueue(1);
  for (std::int32_t batch = 0; batch < host.batches(); ++batch) {
    if (looks_up_first) host.lookup(batch);
    host.zero_grad(batch);
    if (host.has(batch + 1)) host.start_dist(batch + 1);
    host.enqueue(batch + 2);
    host.bottom(batch, IDS);
    if (!looks_up_first) host.lookup(batch);
    host.top(batch);
    if (host.has(batch + 1)) host.finish_dist(batch + 1);
    host.backward(batch);
    host.step(batch);
  }
}

// TrainPipelineSparseDistLite: one batch in flight; only its copy is ahead.
void call_lite(HostOrder& host) {
  host.enqueue(0);
  for (std::int32_t batch = 0; batch < host.batches(); ++batch) {
    host.zero_grad(batch);
    host.start_dist(batch);
    host.finish_dist(batch);
    host.bottom(batch, COPY);
    host.lookup(batch);
    host.top(batch);
    host.backward(batch);
    host.enqueue(batch + 1);
    host.step(batch);
  }
}

// TrainPipelineSemiSync from its first batch on: rows of the next batch are looked up before the
// backward of this one, and sent back during it.
void call_semi_sync(HostOrder& host) {
  host.enqueue(0);
  host.start_dist(0);
  host.finish_dist(0);
  host.lookup(0);
  host.enqueue(1);
  if (host.has(1)) {
    host.start_dist(1);
    host.finish_dist(1);
  }
  host.enqueue(2);
  for (std::int32_t batch = 0; batch < host.batches(); ++batch) {
    if (host.has(batch + 2)) host.start_dist(batch + 2);
    host.bottom(batch, IDS);
    host.top(batch);
    host.enqueue(batch + 3);
    if (host.has(batch + 1)) host.lookup(batch + 1);
    if (host.has(batch + 2)) host.finish_dist(batch + 2);
    host.dense_backward_top(batch);
    host.dense_backward_bottom(batch);
    host.rows_backward(batch);
    host.step(batch);
    host.zero_grad_behind(batch);
  }
}

// PrefetchTrainPipelineSparseDist: rows are copied into a cache during the backward of the previous
// batch.
void call_prefetch(HostOrder& host) {
  host.enqueue(0);
  host.start_dist(0);
  host.finish_dist(0);
  host.prefetch(0);
  host.enqueue(1);
  if (host.has(1)) host.start_dist(1);
  for (std::int32_t batch = 0; batch < host.batches(); ++batch) {
    host.zero_grad(batch);
    host.enqueue(batch + 2);
    if (host.has(batch + 1)) host.finish_dist(batch + 1);
    host.bottom(batch, PREFETCH);
    host.lookup(batch, PREFETCH);
    host.top(batch);
    if (host.has(batch + 1)) host.prefetch(batch + 1);
    host.backward(batch);
    host.step(batch);
    if (host.has(batch + 2)) host.start_dist(batch + 2);
  }
}

// StagedTrainPipeline: as many batches ahead as there are stages. A call of progress() runs each
// stage on the newest batch that has reached it, the first stage on the newest of all; then the
// caller trains on the output of the last one.
void call_staged(HostOrder& host, const std::vector<InputStage>& stages) {
  const auto run = [&](std::size_t stage, std::int32_t batch) {
    if (!host.has(batch)) return;
    switch (stages[stage]) {
      case InputStage::copy: return host.enqueue(batch);
      case InputStage::prepare: return host.prepare(batch);
      case InputStage::dist: host.start_dist(batch); host.finish_dist(batch);
    }
  };
  const auto count = static_cast<std::int32_t>(stages.size());
  for (std::int32_t offset = 0; offset < count; ++offset) {
    for (std::int32_t stage = 0; stage < count - offset; ++stage) {
      run(static_cast<std::size_t>(stage), offset);
    }
  }
  for (std::int32_t batch = 0; batch < host.batches(); ++batch) {
    for (std::int32_t stage = 0; stage < count; ++stage) {
      run(static_cast<std::size_t>(stage), batch + count - stage);
    }
    host.zero_grad(batch);
    host.bottom(batch, IDS);
    host.lookup(batch);
    host.top(batch);
    host.backward(batch);
    host.step(batch);
  }
}

void check(const InputProgramRequest& request) {
  // 10^8 calls are some gigabytes.
  constexpr std::int64_t max_batches = 4'000'000;
  if (request.ranks < 1 || request.batches < 1 || request.accumulate < 1) {
    throw input_error("an input pipeline has at least one rank, one batch and one batch per step");
  }
  if (request.ranks > max_input_ranks) {
    throw input_error(fmt::format("an input pipeline has {} at most, not {}",
                                  plural(max_input_ranks, "rank"), format_count(request.ranks)));
  }
  if (std::int64_t{request.ranks} * request.batches > max_batches) {
    throw input_error(
        fmt::format("{} of {} are {} calls, more than this holds in memory; {} in all are the most",
                    plural(request.batches, "batch", "batches"), plural(request.ranks, "rank"),
                    format_count(std::int64_t{request.ranks} * request.batches * input_kind_count),
                    plural(max_batches, "batch", "batches")));
  }
  constexpr double call_bytes = sizeof(InputCall) + 32;  // with what it waits for
  const double calls = static_cast<double>(request.ranks) * request.batches * input_kind_count;
  check_memory(fmt::format("{} of {}", plural(request.batches, "batch", "batches"),
                           plural(request.ranks, "rank")),
               calls * call_bytes);
}

}  // namespace

std::vector<std::string> input_family_names() {
  std::vector<std::string> names;
  for (const InputFamily& family : all_input_families()) names.emplace_back(family.name);
  return names;
}

const std::vector<InputFamily>& all_input_families() {
  static const std::vector<InputFamily> families{
      {"base", "TrainPipelineBase", "copies the next batch after the backward"},
      {"sparse-dist", "TrainPipelineSparseDist",
       "copies and exchanges ids ahead, during forward and backward"},
      {"lite", "TrainPipelineSparseDistLite", "copies ahead only: little memory"},
      {"fused", "TrainPipelineFusedSparseDist",
       "sparse-dist with the lookup during the optimizer's step"},
      {"semi-sync", "TrainPipelineSemiSync",
       "looks up before the previous batch's update: rows are one step stale"},
      {"prefetch", "PrefetchTrainPipelineSparseDist",
       "prefetches rows into a cache during the backward"},
      {"staged", "StagedTrainPipeline", "the given stages, one batch further ahead each"},
  };
  return families;
}

std::vector<InputStage> parse_input_stages(std::string_view text, std::string_view where) {
  std::vector<InputStage> stages;
  for (const std::string_view name : split(text, ',')) {
    const std::string_view stage = strip(name);
    if (stage == "copy") {
      stages.push_back(InputStage::copy);
    } else if (stage == "prepare") {
      stages.push_back(InputStage::prepare);
    } else if (stage == "dist") {
      stages.push_back(InputStage::dist);
    } else {
      throw input_error(
          fmt::format("{}: {}", where, unknown_name("stage", stage, {"copy", "prepare", "dist"})));
    }
  }
  const auto count = [&](InputStage stage) { return std::ranges::count(stages, stage); };
  if (stages.front() != InputStage::copy || stages.back() != InputStage::dist ||
      count(InputStage::copy) != 1 || count(InputStage::dist) != 1 ||
      count(InputStage::prepare) > 1) {
    throw input_error(fmt::format(
        "{}: stages begin with copy and end with dist, each once: copy,dist or copy,prepare,dist",
        where));
  }
  return stages;
}

InputProgram make_input_program(const InputProgramRequest& request) {
  check(request);
  InputStreams streams;
  if (request.name == "base" || request.name == "lite") {
    streams.dist = InputStream::compute;
  } else if (request.name == "fused") {
    streams.lookup = streams.output = streams.output_backward = InputStream::lookup;
  } else if (request.name == "semi-sync") {
    streams.output = InputStream::output;
  }
  HostOrder host(request.batches, request.accumulate, streams);
  if (request.name == "base") {
    call_base(host);
  } else if (request.name == "sparse-dist") {
    call_sparse_dist(host, false);
  } else if (request.name == "fused") {
    call_sparse_dist(host, true);
  } else if (request.name == "lite") {
    call_lite(host);
  } else if (request.name == "semi-sync") {
    call_semi_sync(host);
  } else if (request.name == "prefetch") {
    call_prefetch(host);
  } else if (request.name == "staged") {
    call_staged(host, request.stages);
  } else {
    throw input_error(unknown_name("input pipeline", request.name, input_family_names()) +
                      "; or a file of a program, with a dot or a slash in its name");
  }
  InputProgram program{
      request.name, request.batches, request.accumulate, request.name == "semi-sync", {}};
  const InputCalls calls = host.take();
  program.calls.assign(static_cast<std::size_t>(request.ranks), calls);
  return program;
}

bool names_input_program_file(std::string_view name) {
  return name.find_first_of("./") != std::string_view::npos;
}

InputProgram choose_input_program(const InputProgramRequest& request) {
  if (!names_input_program_file(request.name)) {
    if (request.accumulate > request.batches && request.batches > 0) {
      throw input_error(fmt::format("--accumulate {}: there are {}; give at most as many",
                                    request.accumulate,
                                    plural(request.batches, "batch", "batches")));
    }
    return make_input_program(request);
  }
  InputProgram program = read_input_program(request.name);
  const auto expect = [&](int asked, int there, std::string_view one, std::string_view many) {
    if (asked == 0 || asked == there) return;
    throw input_error(fmt::format("{}: it is a program of {}, not of {}", request.name,
                                  plural(there, one, many), format_count(asked)));
  };
  expect(request.ranks, program.ranks(), "rank", "ranks");
  expect(request.batches, program.batches, "batch", "batches");
  return program;
}

}  // namespace pipesim
