// An input pipeline's program as data: each rank's host calls, in order.
//
// A call of the host's own kinds runs synchronously: it begins once what it waits for has
// ended, and the host continues after its end. Any other is put on a stream and the host continues
// at once; it runs after the earlier ones of its stream, after what it waits for and, if it is a
// collective, once all ranks have reached it. Interpreters of a program, simulator or executor,
// never ask which one it is. Plain values; const use is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/input_action.h"

namespace pipesim {

struct InputCall {
  static constexpr std::size_t max_awaited = 64;

  Action action;
  InputStream stream = InputStream::compute;
  // What it waits for besides the earlier calls of its stream: indices in the same rank's list,
  // before its own, ascending, at most max_awaited.
  std::vector<std::uint32_t> after;

  bool operator==(const InputCall&) const = default;
};

using InputCalls = std::vector<InputCall>;

// Limits of a program, and of the costs given for one.
inline constexpr int max_input_ranks = 1 << 12;

struct InputProgram {
  std::string name;
  int batches = 0;     // per rank
  int accumulate = 1;  // batches per step of the dense part
  // Whether rows are looked up before the previous batch's update: one batch stale.
  bool is_stale = false;
  std::vector<InputCalls> calls;  // by rank, at most max_input_ranks

  int ranks() const { return static_cast<int>(calls.size()); }
  std::int64_t size() const;  // calls of all ranks
  // Whether dense gradients are summed over ranks and a step ends after this batch.
  bool steps_after(std::int32_t batch) const {
    return (batch + 1) % accumulate == 0 || batch + 1 == batches;
  }
};

// A fault in a program: the broken rule, and where.
struct InputFault {
  int rank = 0;
  std::size_t place = 0;  // in calls[rank]
  std::string rule;
};

// Checks that each batch has every kind once: all but PREPARE, PREFETCH and ZERO_GRAD,
// which are optional, and REDUCE_TOP, REDUCE_BOTTOM and OPTIMIZER, which only batches that end
// a step have; that host kinds, and only those, are on the host; that streams, waits and the
// host's blocking order an action after what it reads, and after what reads or writes what it
// overwrites (else it would be a race); that ranks reach the collectives of each stream in the same
// order; and that they don't wait for each other in a cycle. Returns the first fault.
std::optional<InputFault> find_fault(const InputProgram& program);

// The kinds that produce what an action of this kind reads, for the same batch and rank; PREPARE
// and PREFETCH if the batch has them. traces/FORMAT.md has the whole table.
std::vector<Kind> needs_of(Kind kind);

// The index in a rank's list of each kind's action for each batch.
class InputPlaces {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  InputPlaces() = default;
  // Calls have batches below that number.
  InputPlaces(const InputCalls& calls, int batches);
  // None if there is none, or no such batch.
  std::uint32_t of(Kind kind, std::int32_t batch) const {
    if (batch < 0 || batch >= batches_) return none;
    return places_[input_index(kind) * static_cast<std::size_t>(batches_) +
                   static_cast<std::size_t>(batch)];
  }

 private:
  int batches_ = 0;
  std::vector<std::uint32_t> places_;  // [kind][batch]
};

// Where ranks that run a program deadlock, each waiting for what another has not reached:
// "rank 0's READ1 waits for its SPLITS1, ...". Nothing if all of it completes. Expects waits
// to be earlier calls.
std::optional<InputFault> find_deadlock(const InputProgram& program);

// Reads and checks (find_fault) a program; `file` is its name in errors and the program's name. An
// error names file, line and the rule broken. The grammar is in traces/FORMAT.md.
InputProgram parse_input_program(std::string_view text, const std::string& file);
InputProgram read_input_program(const std::string& path);
// Ranks with the same calls are written once.
std::string to_text(const InputProgram& program);

}  // namespace pipesim
