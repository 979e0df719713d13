// The waits of ranks for their own collectives, computed from the spans of an iteration.
//
// An F, I, W or B waits for the UNSHARD of its stage that came last, if it is the
// first to need it, until the first part of that is there; REDUCE_TIED, GRAD_NORM and
// OPTIMIZER for all collectives of their rank, and so does the end of an iteration, represented by
// an empty cell. Those that follow each other without a pause are one wait, since they
// hold each other up. Plain values; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "traces/action.h"

namespace pipesim {

class CollectiveWaits {
 public:
  // As for an input: since when it is in flight, and when it can be used.
  struct Wait {
    std::int64_t since_ns = 0;
    std::int64_t arrival_ns = 0;
    Action collective = {};  // the last of them
  };

  bool empty() const { return ranks_.empty(); }

  // A collective, after those of its rank that started before. `first_part_ns`: when
  // an UNSHARD's first part arrived.
  void add(const Action& collective, std::int32_t rank, std::int64_t start_ns, std::int64_t end_ns,
           std::int64_t first_part_ns) {
    if (collective.kind == Kind::RESHARD) return;
    Rank& of_rank = at(rank);
    std::optional<Wait>& own = of_rank.running;
    if (!own || start_ns > own->arrival_ns) own = Wait{start_ns, start_ns, collective};
    own->since_ns = std::min(own->since_ns, start_ns);
    if (end_ns >= own->arrival_ns) own->collective = collective;
    own->arrival_ns = std::max(own->arrival_ns, end_ns);
    if (collective.kind == Kind::UNSHARD) {
      const Wait gathered{own->since_ns, first_part_ns, collective};
      const auto known = of_rank.gather_of(collective.stage);
      if (known == of_rank.gathers.end()) {
        of_rank.gathers.push_back(gathered);
      } else {
        *known = gathered;
      }
    }
  }

  // What an action waits for, if anything; call once for each action of a rank.
  std::optional<Wait> take(const Action& action, std::int32_t rank) {
    if (action.kind == Kind::OPTIMIZER || action.kind == Kind::SAVE || action.kind == Kind::IDLE ||
        is_blocking_collective(action.kind)) {
      return at(rank).running;
    }
    if (!is_compute(action.kind)) return std::nullopt;
    Rank& of_rank = at(rank);
    const auto gather = of_rank.gather_of(action.stage);
    if (gather == of_rank.gathers.end()) return std::nullopt;
    const Wait taken = *gather;
    of_rank.gathers.erase(gather);
    return taken;
  }

 private:
  struct Rank {
    std::optional<Wait> running;  // the collectives that run, or ran last
    std::vector<Wait> gathers;    // one a stage, until an action needs it

    std::vector<Wait>::iterator gather_of(std::int32_t stage) {
      return std::ranges::find_if(gathers,
                                  [&](const Wait& wait) { return wait.collective.stage == stage; });
    }
  };

  Rank& at(std::int32_t rank) {
    const auto place = static_cast<std::size_t>(rank);
    if (place >= ranks_.size()) ranks_.resize(place + 1);
    return ranks_[place];
  }

  std::vector<Rank> ranks_;
};

}  // namespace pipesim
