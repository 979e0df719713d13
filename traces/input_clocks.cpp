#include "traces/input_clocks.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "traces/causality.h"

namespace pipesim {
namespace {

// A rank's part of a collective.
struct Part {
  std::int32_t rank;
  InputSpan* span;
};
using Collectives = std::map<std::pair<std::int32_t, Kind>, std::vector<Part>>;

Collectives collectives_of(InputRun& run) {
  Collectives collectives;
  for (int rank = 0; rank < run.program.ranks(); ++rank) {
    const InputCalls& calls = run.program.calls[static_cast<std::size_t>(rank)];
    for (std::size_t place = 0; place < calls.size(); ++place) {
      const Action& action = calls[place].action;
      if (!is_meeting(action.kind)) continue;
      collectives[{action.microbatch, action.kind}].push_back(
          {rank, &run.spans[static_cast<std::size_t>(rank)][place]});
    }
  }
  return collectives;
}

void shift_by(InputSpan& span, std::int64_t ns) {
  for (std::int64_t* time :
       {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
    *time += ns;
  }
}

// From the last rank to be ready to each that ended before, by clocks with these shifts. Returns
// whether one ended more than `allowance_ns` before.
bool add_early_ends(const Collectives& collectives, const CausalShifts& by, LeastTransfers& least) {
  const auto shift = [&](const Part& part) {
    return by.shift_ns[static_cast<std::size_t>(part.rank)];
  };
  bool any = false;
  for (const auto& [action, parts] : collectives) {
    const Part& last = *std::ranges::max_element(
        parts, {}, [&](const Part& part) { return part.span->ready_ns + shift(part); });
    const std::int64_t ready_ns = last.span->ready_ns + shift(last);
    for (const Part& part : parts) {
      if (part.span->end_ns + shift(part) >= ready_ns - by.allowance_ns) continue;
      least.add(last.rank, part.rank, part.span->end_ns - last.span->ready_ns);
      any = true;
    }
  }
  return any;
}

}  // namespace

void start_collectives_together(InputRun& run) {
  for (const auto& [action, parts] : collectives_of(run)) {
    std::int64_t ready_ns = std::numeric_limits<std::int64_t>::min();
    for (const Part& part : parts) ready_ns = std::max(ready_ns, part.span->ready_ns);
    for (const Part& part : parts) part.span->start_ns = std::min(ready_ns, part.span->end_ns);
  }
}

void put_clocks_right(InputRun& run, std::string_view place) {
  const Collectives collectives = collectives_of(run);
  LeastTransfers least(run.program.ranks());
  CausalShifts shifts{std::vector<std::int64_t>(static_cast<std::size_t>(run.program.ranks())), 0};
  // A pair of ranks counts once a collective is early between them, by the clocks so far.
  while (add_early_ends(collectives, shifts, least)) shifts = causal_shifts(least);
  const std::vector<std::int64_t> right = righting_shifts(least, 0, place, run.warnings);
  if (right.empty()) return;
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  for (std::size_t rank = 0; rank < right.size(); ++rank) {
    for (InputSpan& span : run.spans[rank]) shift_by(span, right[rank]);
    if (!run.spans[rank].empty()) first_ns = std::min(first_ns, run.spans[rank][0].called_ns);
  }
  for (std::vector<InputSpan>& spans : run.spans) {
    for (InputSpan& span : spans) shift_by(span, -first_ns);
  }
  start_collectives_together(run);
}

}  // namespace pipesim
