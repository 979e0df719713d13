// A program of an input pipeline as data: for each rank what its host calls, in order.
//
// A call of the host's own kinds is done there and then: it begins once what it waits for has
// ended, and the host goes on after its end. Any other is put on a stream and the host goes on
// at once; there it runs after the earlier ones of its stream, after what it waits for and, of a
// collective, once all ranks have come to it. Whoever interprets a program, simulator or executor,
// never asks which one it is. Plain values; const use is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/input_pipeline/input_action.h"

namespace pipesim {

struct InputCall {
  InputAction action;
  InputStream stream = InputStream::compute;
  // What it waits for beside the earlier calls of its stream: places in the same rank's list,
  // before its own, ascending.
  std::vector<std::uint32_t> after;

  bool operator==(const InputCall&) const = default;
};

using InputCalls = std::vector<InputCall>;

// Ranks that costs can be given for, and clusters estimated.
inline constexpr int most_input_ranks = 1 << 12;

struct InputProgram {
  std::string name;
  int batches = 0;     // of each rank
  int accumulate = 1;  // batches to a step of the dense part
  // Whether rows are looked up before the update of the batch before: one batch stale.
  bool is_stale = false;
  std::vector<InputCalls> calls;  // by rank, at most most_input_ranks

  int ranks() const { return static_cast<int>(calls.size()); }
  std::int64_t size() const;  // calls of all ranks
  // Whether dense gradients are summed over ranks and a step ends after this batch.
  bool steps_after(std::int32_t batch) const {
    return (batch + 1) % accumulate == 0 || batch + 1 == batches;
  }
};

// A fault in a program: what rule is broken, and where.
struct InputFault {
  int rank = 0;
  std::size_t place = 0;  // in calls[rank]
  std::string rule;
};

// Checks that each batch has what it takes, once: all kinds but PREPARE, PREFETCH and ZERO_GRAD,
// which it may have, and REDUCE_TOP, REDUCE_BOTTOM and OPTIMIZER, which those have after which a
// step ends; that host's kinds stand on the host and others do not; that streams, waits and the
// host's blocking put before an action what it reads, and what reads or writes what it overwrites
// (else it would be a race); that ranks come to the collectives of each stream in the same order;
// and that they don't wait for each other in a circle. Returns the first fault.
std::optional<InputFault> find_fault(const InputProgram& program);

// The kinds that make what an action of this kind reads, of the same batch and rank; PREPARE and
// PREFETCH where the batch has them. traces/FORMAT.md has the whole table.
std::vector<InputKind> needs_of(InputKind kind);

// The place in a rank's list of what each kind does with each batch.
class InputPlaces {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  InputPlaces() = default;
  // Calls have batches below that number.
  InputPlaces(const InputCalls& calls, int batches);
  // None where there is none, or no such batch.
  std::uint32_t of(InputKind kind, std::int32_t batch) const {
    if (batch < 0 || batch >= batches_) return none;
    return places_[static_cast<std::size_t>(kind) * static_cast<std::size_t>(batches_) +
                   static_cast<std::size_t>(batch)];
  }

 private:
  int batches_ = 0;
  std::vector<std::uint32_t> places_;  // [kind][batch]
};

// Where ranks that do a program stand still, each waiting for what another has not come to:
// "rank 0's READ1 waits for its SPLITS1, ...". Nothing where all of it gets done. Expects waits
// to be earlier calls.
std::optional<InputFault> find_deadlock(const InputProgram& program);

// Whether a text begins as such a program does.
bool is_input_program_text(std::string_view text);
// Reads and checks (find_fault) a program; `file` is its name in errors and the program's name. An
// error names file, line and the rule broken. The grammar stands in traces/FORMAT.md.
InputProgram parse_input_program(std::string_view text, const std::string& file);
InputProgram read_input_program(const std::string& path);
// Ranks with the same calls are written once.
std::string to_text(const InputProgram& program);

}  // namespace pipesim
