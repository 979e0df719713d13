// A predicted and a measured run side by side: how far they are apart, and why.
//
// The iteration with the median makespan represents each run; the others of
// the measured run show how much times vary. Every number here is defined in
// traces/METRICS.md, "Comparing a prediction with a measurement". Plain values,
// which depend only on the arguments; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/compare/clock_shifts.h"
#include "sim/compare/collectives.h"
#include "sim/compare/differences.h"
#include "sim/compare/gap.h"
#include "sim/compare/operations.h"
#include "sim/compare/quantiles.h"
#include "sim/compare/replay.h"
#include "sim/compare/saves.h"
#include "sim/compare/wire_times.h"
#include "traces/metrics.h"
#include "traces/recorded_run.h"

namespace pipesim {

// For an operation in both runs: how much later it ends than predicted, by cause.
// The four sum to that.
struct Lateness {
  std::int64_t own_ns = 0;            // it takes longer
  std::int64_t launch_ns = 0;         // it starts later once it could
  std::int64_t communication_ns = 0;  // the input that it waits for travels longer, or it waits
                                      // longer for exchanges with replicas
  std::int64_t inherited_ns = 0;      // what it waits for ends later

  std::int64_t total_ns() const { return own_ns + launch_ns + communication_ns + inherited_ns; }
};

// What is worth fixing, most important first.
struct RootCause {
  Term term{};
  std::int32_t rank = -1;               // -1: no rank alone
  std::optional<std::int32_t> to_rank;  // of transfers
  std::optional<std::int32_t> stage;    // nothing where it is about several
  std::optional<Kind> kind;             // of a transfer: SEND_F or SEND_B
  // For overlapped cells: the other stage, that of the backward; `stage` and `kind`
  // are the forward's.
  std::optional<std::int32_t> backward_stage;
  std::optional<std::int32_t> microbatch;  // where one makes out nearly all of it
  std::int64_t effect_ns = 0;              // its share of what the makespans differ by
  std::int64_t error_ns = 0;               // of that, by sampling
  std::int64_t alone_ns = 0;               // on the predicted makespan, were this alone as measured
  std::string why;
  std::vector<OperationId> operations;  // those that it is about
};

// The part of the makespans' difference due to variation from iteration to iteration, or from
// microbatch to microbatch where only one iteration is known.
struct Noise {
  std::int64_t effect_ns = 0;       // of all ranks
  std::vector<std::int64_t> ranks;  // of each
  // Of the measured run: for which part of the time that ranks computed others had their
  // processors.
  double preempted_fraction = 0;
};

// All operations of one kind on one stage, or all overlapped cells whose forward is
// that stage's.
struct StageKind {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  Kind kind{};  // of cells F
  bool is_cell = false;
  Quantiles predicted;  // durations
  Quantiles measured;   // over all iterations
  Lateness sum;         // over the microbatches of the iteration
};

// |measured median - predicted| / predicted
struct DurationErrors {
  double mean_abs = 0;
  double p50 = 0;
  double p90 = 0;
};

// Where the two critical paths diverge: the last operation they have in common
// from the start on, and what comes next in each.
struct Divergence {
  std::optional<Action> last_common;
  std::array<std::optional<Action>, 2> next;
};

struct SideResult {
  std::int64_t makespan_ns = 0;  // by the clocks as they are
  // All else has clocks put right: of the iteration in the trace's time, and
  std::int64_t start_ns = 0;
  std::vector<RankMetrics> ranks;
  double global_bubble = 0;
  WireTimes wire;
  ReplayTimes played;
  CriticalPath critical_path;
  std::vector<MemoryPeak> peaks;  // see memory_peaks()
};

struct Comparison {
  std::array<Source, 2> sources{Source::predicted, Source::measured};
  std::string costs_from;  // the prediction's, as its trace says
  // Why no action of one is the other's: then only makespans, ranks and totals are compared
  // (rank_comparison.h). Empty otherwise.
  std::string unpaired;
  Operations operations;  // clocks put right
  MatchCounts counts;
  std::array<SideResult, 2> sides;
  Gap gap;
  std::vector<Lateness> lateness;  // by operation
  // Operations that would have to move for the measured order to be the planned
  // one, as few as possible, and how many stay.
  std::vector<OperationId> swapped;
  std::int64_t in_order = 0;
  // Over the F, I, W and B, or an input pipeline's actions, that both have and that were predicted
  // to take time.
  std::optional<DurationErrors> duration_errors;
  std::vector<StageKind> stage_kinds;
  std::vector<RootCause> root_causes;
  Noise noise;
  CollectiveComparison collectives;
  std::vector<SaveRow> saves;  // of ranks, where any run saved
  Quantiles iterations;        // makespans of the measured run
  std::vector<ClockShift> clocks;
  std::optional<Divergence> divergence;  // nothing where both paths are the same
};

// The name of either side, at most nine letters: by its source, or, of two of one source,
// "first" and "second".
std::string_view side_name(const Comparison& comparison, Side side);
// And in a sentence: "prediction", "measurement", "profile", "first run", "second run".
std::string_view side_noun(const Comparison& comparison, Side side);

// The fullest sample of each rank over all iterations, and what the rank had started last by then;
// empty where bytes are unknown.
std::vector<MemoryPeak> memory_peaks(const RecordedRun& run);

// Throws where the two have no action in common, with what each holds, where their stages differ
// (rank_comparison.h), and for two input programs.
Comparison compare(const RecordedRun& predicted, const RecordedRun& measured);

// ---- Parts of compare()

// Each side's own order and what it took, and the orders of what both have.
struct Replayed {
  std::array<Order, 2> orders;
  std::array<Values, 2> values;
  CommonOrders common;
};
// Finds root causes and noise.
void find_root_causes(const Replayed& replayed, std::vector<Difference> differences,
                      Comparison& comparison);

}  // namespace pipesim
