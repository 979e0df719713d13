// The differences between two runs, grouped so that each may have one cause.
//
// Values that belong together are one difference: the durations of one kind on one
// stage, transfers from one rank to another, the gaps of a rank; an outlying microbatch
// is separate. A run of several iterations shows how much its values vary:
// the compared iteration's deviation from the usual is noise, and so is a difference
// no larger than the variation. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/compare/gap.h"
#include "sim/compare/operations.h"
#include "sim/compare/replay.h"

namespace pipesim {

struct Difference {
  // How much a value of an operation exceeds the prediction.
  struct Part {
    OperationId operation;
    Term term;
    std::int64_t more_ns;
  };

  bool is_noise = false;  // all of a rank's differences, in every term
  Term term{};
  std::int32_t rank = -1;
  std::int32_t to_rank = -1;  // of transfers
  std::int32_t stage = -1;    // -1: all of the rank, or of several stages
  Kind kind = Kind::IDLE;
  std::int32_t backward_stage = -1;  // of overlapped cells, whose forward is named above
  std::optional<std::int32_t> microbatch;
  std::vector<Part> parts;
  std::array<std::int64_t, 2> usual_ns{};  // the median of what is usual, of either run

  // Of all parts, by size.
  std::int64_t size_ns() const;
};

// The values of each run's iterations, as many as were looked at, without what others took of
// the processor; of the compared one alone where less than three are, or the run is a
// prediction. The compared one comes first.
using History = std::array<std::vector<Values>, 2>;
inline constexpr std::size_t min_iterations = 3;  // from which on they tell what is usual

// Sums, by operation and value, to the difference of `values`, those of the compared
// iterations; of what both have. `exact`: neither run varies.
std::vector<Difference> differences_between(const Operations& operations,
                                            const std::array<Values, 2>& values,
                                            const History& history, bool exact);

}  // namespace pipesim
