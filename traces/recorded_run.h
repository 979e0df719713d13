// A run as recorded in trace files: ours, predicted or measured, or a profiler's.
//
// The simulator returns one, traces are written from and read as one, and comparison, calibration
// and viewer work on one, whatever recorded it. Plain values; reading is const and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/large_vector.h"
#include "traces/input_run.h"
#include "traces/memory_samples.h"
#include "traces/metrics.h"
#include "traces/saves.h"
#include "traces/timeline.h"
#include "traces/warnings.h"

namespace pipesim {

enum class Source : std::uint8_t {
  predicted,
  measured,
  profiled,  // by PyTorch's profiler
};
// "predicted", "measured", "profiled".
std::string_view name_of(Source source);

// How a span's action was identified.
enum class Identified : std::uint8_t {
  exact,      // its event says so, as ours do
  annotated,  // a range around it, or around what launched it, says so
  inferred,   // it is the n-th of its kind, and so is the action in a schedule
};

// One rank's clock in a trace; see metadata.pipesim.clocks in FORMAT.md.
struct RecordedClock {
  std::int64_t offset_ns = 0;
  std::int64_t drift_ppb = 0;
  std::int64_t uncertainty_ns = 0;
  std::int64_t shift_ns = 0;
};

// Further facts of a measurement of ours, for readers and other tools.
struct MeasuredFacts {
  int processors = 0;  // that the ranks could run on
  int warmup_iterations = 0;
  std::int64_t adjusted_transfers = 0;  // that no shift of clocks could put right
  std::string pace;                     // of an emulated device
  std::int64_t micro_batch_size = 0;    // of a training, and so on
  std::int64_t sequence_length = 0;
  std::string recompute, attention, precision;
};

// How the run was made, as far as the files say.
struct RunDescription {
  Source source = Source::measured;
  std::string schedule;            // its name, or empty
  std::vector<int> rank_of_stage;  // of each virtual stage
  // The rank of its second copy, through which the second half of an iteration's microbatches goes;
  // empty if stages have one copy.
  std::vector<int> rank_of_second;
  std::vector<std::string> program;       // one CSV row per rank; empty if unknown
  std::vector<std::string> dependencies;  // each as "0F3 after 1B0"
  bool continuous = false;                // ranks did not wait for each other between iterations
  std::string costs_json;                 // of a prediction, or of an emulated device; or empty
  std::string p2p;                        // of a prediction
  // Where a prediction's costs are from: "calibration", "model", "file" or "flags"; or empty.
  std::string costs_from;
  std::int64_t eager_limit_bytes = 0;
  std::string device, transport;      // of a measurement
  std::string model_json;             // a pipesim-model; or empty
  std::vector<std::string> layers;    // their names
  std::vector<int> layout;            // layers per virtual stage; or empty
  std::vector<RecordedClock> clocks;  // one per rank, or empty: all share one
  // For a measured training with replicas of the pipeline, or tensor-parallel ranks: their number,
  // which of all pipelines this is, from 0, what replicas split (ZeRO 1 to 3), over how many, and
  // the bytes of their buckets, 0 for a single one.
  int replicas = 1;
  int tensor_parallel = 1;
  bool sequence_parallel = false;
  int replica = 0;
  int zero = 0;
  int shards = 1;
  std::int64_t bucket_bytes = 0;
  int accumulate = 1;  // iterations per step
  Saves saves;
  MeasuredFacts measured;

  int pipelines() const { return replicas * tensor_parallel; }
  // This one's: "replica 2", with tensor-parallel ranks "replica 2, tensor rank 1".
  std::string pipeline_name() const;
};

// One iteration, the spans [begin, end) of the run.
struct RecordedIteration {
  std::int32_t number = 0;  // as the trace counts them
  std::size_t begin = 0;
  std::size_t end = 0;
  // When it begins: the first start of an action that is not a transfer; for one that `follows`
  // another without a barrier, the last end in the iteration before, in which case ranks may have
  // started earlier. The makespan is the time from this to its own last end.
  std::int64_t start_ns = 0;
  std::int64_t makespan_ns = 0;
  bool follows = false;
};

struct RecordedRun : TimelineFrame {
  std::string name;  // of its file or files, for messages
  RunDescription about;
  // In order; the spans of each sorted by (start, rank), the actions of a joined
  // cell next to each other. Times as in the trace.
  std::vector<RecordedIteration> iterations;
  LargeVector<Span> spans;
  std::vector<LayerSpan> layers;              // sorted by (start, rank)
  MemorySamples samples;                      // sorted by time; bytes only if the trace has them
  Identified identified = Identified::exact;  // the weakest of all spans
  // In a profile: kernels and ranges that could not be assigned to an action, and are therefore in
  // no span.
  std::int64_t unmatched = 0;
  Warnings warnings;
  // Of an input pipeline: its program and calls, whose actions the spans are. It has one iteration,
  // batches are its microbatches, and each rank is a stage of its own. Null of a pipeline.
  std::shared_ptr<const InputRun> inputs;

  // The rank of an action with a microbatch: that of its stage, in the microbatch's copy.
  std::int32_t home_of(const Action& action) const;
  // Whether an action's stage lives on that rank, in the copy of its microbatch if it has one.
  bool is_on(const Action& action, std::int32_t rank) const;

  // The iteration with the median makespan, the lower of two in the middle; if a step takes several
  // iterations, among those that end with a step.
  std::size_t median_iteration() const;
  // Of one iteration, see METRICS.md.
  Metrics metrics(std::size_t iteration) const;

  std::span<const Span> spans_of(const RecordedIteration& iteration) const {
    return {spans.data() + iteration.begin, iteration.end - iteration.begin};
  }
};

// The run of an input pipeline as one like all others.
RecordedRun as_recorded(InputRun inputs, const std::string& name);
// Its metrics: METRICS.md, "Input pipelines", says what a bubble is there. Without a critical path.
Metrics input_bubbles(const InputRun& inputs);

// Measured: the share of the ranks' compute time in which other processes used their processors.
// From `disturbed` on, the run should be measured again.
inline constexpr double disturbed = 0.02;
double preempted_fraction(std::span<const Span> spans);

// For the spans of one iteration; both 0 if all are transfers.
struct IterationExtent {
  std::int64_t start_ns = 0;
  std::int64_t makespan_ns = 0;

  std::int64_t end_ns() const { return start_ns + makespan_ns; }
};
IterationExtent extent_of(std::span<const Span> spans);
// Fills in the iterations of a run whose spans are sorted by (iteration, start, rank).
void find_iterations(RecordedRun& run);
// The same if ranks continued from the iteration before without waiting for all: starts at its end.
// Nothing if this one ends before that, because clocks disagree.
std::optional<IterationExtent> extent_behind(const IterationExtent& before,
                                             const IterationExtent& own);

}  // namespace pipesim
