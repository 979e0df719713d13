// A run of an input pipeline, predicted or measured: when each call of each rank happened.
//
// Simulator and executor both produce one; metrics, trace, comparison and viewer take it.
// Times are nanoseconds from when the first host began its first call. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/input_program.h"
#include "traces/warnings.h"

namespace pipesim {

// Limit so that sums fit in 64 bits: of the times of all calls, of all ranks' makespans, and of
// each part of a rank's memory.
inline constexpr std::int64_t max_input_ns = std::int64_t{1} << 62;  // 146 years
inline constexpr std::int64_t max_input_bytes = std::int64_t{1} << 60;

// One call.
struct InputSpan {
  std::int64_t called_ns = 0;  // when the host began to call it
  std::int64_t issued_ns = 0;  // when it was on its stream, and the host continued
  std::int64_t ready_ns = 0;   // when nothing on its own rank held it back any more
  std::int64_t start_ns = 0;   // that, or for a collective, when the last rank was ready
  std::int64_t end_ns = 0;

  bool operator==(const InputSpan&) const = default;
};

// A rank's memory by use, at its peak, in bytes.
struct InputMemory {
  std::int64_t tables = 0;
  std::int64_t optimizer = 0;  // of tables and of the dense part
  std::int64_t dense = 0;      // its parameters and gradients
  std::int64_t batches = 0;    // those in flight
  std::int64_t buffers = 0;    // of exchanges and of the dense part's activations

  std::int64_t total() const { return tables + optimizer + dense + batches + buffers; }
  bool operator==(const InputMemory&) const = default;
};

struct InputRun {
  bool is_measured = false;
  std::string model;              // or empty
  std::string cluster;            // for a prediction from a model, or empty
  std::string device, transport;  // for a measured one
  std::int64_t batch_size = 0;    // samples of a rank; 0 if not known
  InputProgram program;
  std::vector<std::vector<InputSpan>> spans;  // by rank, one per call, in the program's order
  std::vector<InputMemory> memory;            // by rank; empty if not known
  std::vector<double> losses;                 // for a measured one, one per batch
  // For a prediction: as JSON, so that it can be repeated; or empty. A trace preserves its meaning,
  // but not its white space.
  std::string costs;
  Warnings warnings;  // of a run that was read

  const InputSpan& span(int rank, std::size_t place) const {
    return spans[static_cast<std::size_t>(rank)][place];
  }
};

// Nanoseconds by kind.
using InputTimes = std::array<std::int64_t, kind_count>;

// What a rank's compute stream did, or waited for. The parts sum to the makespan.
//
// At each instant the compute stream runs something or waits. What it runs is busy time, except
// exchanges on it, which are exposed. A wait is explained by walking back from the action that
// ends it, on the same rank: from it to what released it last, over the time that took, to
// what released that, back to when the wait began. The time of each action on
// the way is exposed by its kind; how long a collective was ready until other ranks arrived is
// skew; how long the host took to issue calls is the host's. METRICS.md has the details.
struct InputMetrics {
  struct Rank {
    std::int64_t busy_ns = 0;
    InputTimes busy_by_kind{};
    InputTimes exposed{};       // by kind
    std::int64_t host_ns = 0;   // exposed: the host had not issued it yet
    std::int64_t skew_ns = 0;   // exposed: other ranks were still computing, or behind
    std::int64_t drain_ns = 0;  // after its last action
    // Before its first action; part of the above, without what moves data.
    std::int64_t warmup_ns = 0;
    std::int64_t other_ns = 0;  // unexplained; 0 for a prediction
    InputTimes total{};         // time that actions of a kind took, hidden or not
    int batches_in_flight = 0;  // the most: from the start of COPY to the end of its last use

    // The part of a kind's time that is neither busy nor exposed.
    std::int64_t hidden_ns(Kind kind) const {
      const auto i = static_cast<std::size_t>(kind);
      return total[i] - busy_by_kind[i] - exposed[i];
    }
  };

  std::int64_t makespan_ns = 0;
  // The mean distance between the ends of successive batches, over the middle half of them: a
  // batch ends with its last action on any rank. Of one batch the makespan.
  std::int64_t steady_iteration_ns = 0;
  double samples_per_second = 0;  // of all ranks, steady; 0 if batch sizes are not known
  std::vector<Rank> ranks;
};

// Until the last end, and the last call.
std::int64_t makespan_of(const InputRun& run);

// Part of a wait of a rank's compute stream, explained as above.
struct InputWait {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string_view what;     // a kind's name, "host", "other ranks", "unexplained" or "drain"
  std::optional<Kind> kind;  // whose time it is, if it is one's
};
// All of a rank's, in the order of time.
std::vector<InputWait> waits_of(const InputRun& run, int rank);

// Throws an input error, which begins with `where`, if times are beyond max_input_ns. Expects
// spans that do not end before they start.
void check_sums(const InputRun& run, const std::string& where);

// Takes time in proportion to the calls, and to sort batches. Expects a span for each call
// that check_sums() passes; tolerates measured ones that start some time after their release, or
// overlap.
InputMetrics measure(const InputRun& run);

}  // namespace pipesim
