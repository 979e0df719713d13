#include "traces/input_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace pipesim {
namespace {

// A lower bound on the actions of each stream that have ended when something begins.
using StreamCounts = std::array<std::uint32_t, input_stream_count>;

std::size_t index_of(InputStream stream) { return static_cast<std::size_t>(stream); }

void join(StreamCounts& counts, const StreamCounts& others) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = std::max(counts[i], others[i]);
}

// The actions known to have ended when each call of a rank begins, from the order of streams,
// waits, and the host's waits.
class Ordering {
 public:
  explicit Ordering(const InputCalls& calls) : calls_(calls) {
    before_.reserve(calls.size());
    number_.reserve(calls.size());
    StreamCounts host{};
    std::array<StreamCounts, input_stream_count> last{};  // by stream, after its last call
    for (const InputCall& call : calls) {
      const std::size_t stream = index_of(call.stream);
      StreamCounts before = host;
      join(before, last[stream]);
      for (const std::uint32_t place : call.after) join(before, behind(place));
      before_.push_back(before);
      number_.push_back(++called_[stream]);
      last[stream] = before;
      last[stream][stream] = called_[stream];
      if (call.stream == InputStream::host) host = last[stream];
    }
  }

  // Whether one call has ended whenever another begins.
  bool precedes(std::uint32_t first, std::uint32_t second) const {
    return before_[second][index_of(calls_[first].stream)] >= number_[first];
  }

 private:
  StreamCounts behind(std::uint32_t place) const {
    StreamCounts counts = before_[place];
    counts[index_of(calls_[place].stream)] = number_[place];
    return counts;
  }

  const InputCalls& calls_;
  std::vector<StreamCounts> before_;
  std::vector<std::uint32_t> number_;  // on its stream, from 1
  StreamCounts called_{};
};

bool is_of_step(Kind kind) {
  return kind == Kind::REDUCE_TOP || kind == Kind::REDUCE_BOTTOM || kind == Kind::DENSE_STEP;
}
bool is_optional(Kind kind) {
  return kind == Kind::PREPARE || kind == Kind::PREFETCH || kind == Kind::ZERO_GRAD;
}

// The rules for one rank's list.
class RankCheck {
 public:
  RankCheck(const InputProgram& program, int rank)
      : program_(program), calls_(program.calls[static_cast<std::size_t>(rank)]), rank_(rank) {}

  std::optional<InputFault> run() {
    // Checked before allocating a table of batches, since a file may claim many.
    if (std::cmp_less(calls_.size(), program_.batches)) return find_untaken();
    if (auto fault = find_misplaced()) return fault;
    places_ = InputPlaces(calls_, program_.batches);
    if (auto fault = find_missing()) return fault;
    ordering_.emplace(calls_);
    for (std::uint32_t place = 0; place < calls_.size(); ++place) {
      if (auto fault = find_race(place)) return fault;
    }
    return std::nullopt;
  }

 private:
  InputFault fault(std::size_t place, std::string rule) const {
    return {rank_, place, std::move(rule)};
  }

  // The first batch without a NEXT, if there are more batches than calls.
  std::optional<InputFault> find_untaken() const {
    std::vector<bool> is_taken(calls_.size() + 1);
    for (const InputCall& call : calls_) {
      const Action& action = call.action;
      const auto batch = static_cast<std::size_t>(action.microbatch);
      if (action.kind == Kind::NEXT && batch < is_taken.size()) is_taken[batch] = true;
    }
    const auto first = std::ranges::find(is_taken, false) - is_taken.begin();
    return fault(calls_.size(), fmt::format("NEXT{} is missing", first));
  }

  std::optional<InputFault> find_misplaced() const {
    std::vector<bool> seen(static_cast<std::size_t>(input_kind_count) *
                           static_cast<std::size_t>(program_.batches));
    for (std::size_t place = 0; place < calls_.size(); ++place) {
      const InputCall& call = calls_[place];
      const Action& action = call.action;
      if (action.microbatch < 0 || action.microbatch >= program_.batches) {
        return fault(place, fmt::format("{} is for batch {}, but batches are 0 to {}",
                                        to_text(action), action.microbatch, program_.batches - 1));
      }
      if (call.after.size() > InputCall::max_awaited) {
        return fault(place,
                     fmt::format("{} waits for {} calls, more than {}; leave out those that "
                                 "others of them come after",
                                 to_text(action), call.after.size(), InputCall::max_awaited));
      }
      if (is_of_host(action.kind) != (call.stream == InputStream::host)) {
        return fault(place,
                     fmt::format("{} is on stream {}, but {}", to_text(action),
                                 input_stream_name(call.stream),
                                 is_of_host(action.kind) ? "the host does it: host"
                                                         : "the host does NEXT and READ alone"));
      }
      const auto at = input_index(action.kind) * static_cast<std::size_t>(program_.batches) +
                      static_cast<std::size_t>(action.microbatch);
      if (seen[at]) return fault(place, fmt::format("{} is given twice", to_text(action)));
      seen[at] = true;
      for (const std::uint32_t awaited : call.after) {
        if (awaited >= place) {
          return fault(place,
                       fmt::format("{} waits for what the host calls later", to_text(action)));
        }
      }
    }
    return std::nullopt;
  }

  std::optional<InputFault> find_missing() const {
    for (std::int32_t batch = 0; batch < program_.batches; ++batch) {
      const bool steps = program_.steps_after(batch);
      for (const Kind kind : input_kinds) {
        const std::uint32_t place = places_.of(kind, batch);
        const bool is_there = place != InputPlaces::none;
        if (is_optional(kind)) continue;
        if (is_of_step(kind) && !steps) {
          if (is_there) {
            return fault(place, fmt::format("{} is there, but no step ends with batch {}",
                                            to_text(input_action(kind, batch)), batch));
          }
          continue;
        }
        if (!is_there) {
          return fault(calls_.size(),
                       fmt::format("{} is missing", to_text(input_action(kind, batch))));
        }
      }
    }
    return std::nullopt;
  }

  bool precedes(std::uint32_t first, std::uint32_t second) const {
    return ordering_->precedes(first, second);
  }
  // Checks that a call comes after another one, if that exists.
  std::optional<InputFault> expect(std::uint32_t place, Kind kind, std::int32_t batch) const {
    const std::uint32_t first = places_.of(kind, batch);
    if (first == InputPlaces::none || precedes(first, place)) return std::nullopt;
    const Action& action = calls_[place].action;
    return fault(place, fmt::format("{} may start before {} has ended: no stream and no `after` "
                                    "puts it after that",
                                    to_text(action), to_text(input_action(kind, batch))));
  }

  std::optional<InputFault> find_race(std::uint32_t place) const {
    const Kind kind = calls_[place].action.kind;
    const std::int32_t batch = calls_[place].action.microbatch;
    for (const Kind need : needs_of(kind)) {
      if (auto fault = expect(place, need, batch)) return fault;
    }
    const std::int32_t first = batch - batch % program_.accumulate;  // the first of its step
    switch (kind) {
      case Kind::LOOKUP: return expect(place, Kind::UPDATE, batch - (program_.is_stale ? 2 : 1));
      case Kind::UPDATE:
        if (program_.is_stale) {
          if (auto fault = expect(place, Kind::LOOKUP, batch + 1)) return fault;
        }
        return expect(place, Kind::UPDATE, batch - 1);
      case Kind::BOTTOM:
      case Kind::TOP: return expect(place, Kind::DENSE_STEP, first - 1);
      case Kind::TOP_BACKWARD:
        if (auto fault = find_uncleared(place, first)) return fault;
        return expect(place, Kind::TOP_BACKWARD, batch - 1);
      case Kind::BOTTOM_BACKWARD: return expect(place, Kind::BOTTOM_BACKWARD, batch - 1);
      case Kind::ZERO_GRAD: return find_early_clearing(place, first);
      default: return std::nullopt;
    }
  }

  // Checks that gradients are cleared between a step and the first backward of the next one.
  std::optional<InputFault> find_uncleared(std::uint32_t place, std::int32_t first) const {
    const std::int32_t batch = calls_[place].action.microbatch;
    if (batch != first || first == 0) return std::nullopt;
    const std::uint32_t step = places_.of(Kind::DENSE_STEP, first - 1);
    for (std::int32_t of = first - program_.accumulate; of <= batch; ++of) {
      const std::uint32_t clears = places_.of(Kind::ZERO_GRAD, of);
      if (clears == InputPlaces::none) continue;
      if (precedes(step, clears) && precedes(clears, place)) return std::nullopt;
    }
    return fault(place, fmt::format("{} adds to gradients that no ZERO_GRAD clears after {}",
                                    to_text(calls_[place].action), to_text(calls_[step].action)));
  }

  std::optional<InputFault> find_early_clearing(std::uint32_t place, std::int32_t first) const {
    const std::uint32_t backward = places_.of(Kind::TOP_BACKWARD, first);
    const std::uint32_t earlier = places_.of(Kind::DENSE_STEP, first - 1);
    if ((earlier == InputPlaces::none || precedes(earlier, place)) && precedes(place, backward)) {
      return std::nullopt;
    }
    const std::int32_t last = std::min(first + program_.accumulate, program_.batches) - 1;
    const std::uint32_t next = places_.of(Kind::TOP_BACKWARD, last + 1);
    if (precedes(places_.of(Kind::DENSE_STEP, last), place) &&
        (next == InputPlaces::none || precedes(place, next))) {
      return std::nullopt;
    }
    return fault(place, fmt::format("{} may clear gradients that {} is yet to use",
                                    to_text(calls_[place].action),
                                    to_text(input_action(Kind::DENSE_STEP, last))));
  }

  const InputProgram& program_;
  const InputCalls& calls_;
  int rank_;
  InputPlaces places_;
  std::optional<Ordering> ordering_;
};

// Checks that ranks reach the collectives of each stream in rank 0's order.
std::optional<InputFault> find_other_order(const InputProgram& program) {
  using Order = std::array<std::vector<std::uint32_t>, input_stream_count>;  // places
  const auto order_of = [&](int rank) {
    Order order;
    const InputCalls& calls = program.calls[static_cast<std::size_t>(rank)];
    for (std::uint32_t place = 0; place < calls.size(); ++place) {
      if (is_meeting(calls[place].action.kind)) {
        order[index_of(calls[place].stream)].push_back(place);
      }
    }
    return order;
  };
  const Order first = order_of(0);
  for (int rank = 1; rank < program.ranks(); ++rank) {
    const InputCalls& calls = program.calls[static_cast<std::size_t>(rank)];
    if (calls == program.calls[0]) continue;
    const Order own = order_of(rank);
    for (std::size_t stream = 0; stream < own.size(); ++stream) {
      const std::size_t most = std::max(own[stream].size(), first[stream].size());
      for (std::size_t i = 0; i < most; ++i) {
        const auto name = [&](const Order& order, const InputCalls& list) {
          return i < order[stream].size() ? to_text(list[order[stream][i]].action) : "none";
        };
        const std::string here = name(own, calls), there = name(first, program.calls[0]);
        if (here == there) continue;
        return InputFault{
            rank, i < own[stream].size() ? own[stream][i] : calls.size(),
            fmt::format("collective {} of stream {} is {}, but {} on rank 0: ranks "
                        "would wait for each other forever",
                        i + 1, input_stream_name(static_cast<InputStream>(stream)), here, there)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::int64_t InputProgram::size() const {
  std::int64_t count = 0;
  for (const InputCalls& list : calls) count += static_cast<std::int64_t>(list.size());
  return count;
}

InputPlaces::InputPlaces(const InputCalls& calls, int batches)
    : batches_(batches),
      places_(static_cast<std::size_t>(input_kind_count) * static_cast<std::size_t>(batches),
              none) {
  for (std::uint32_t place = 0; place < calls.size(); ++place) {
    const Action& action = calls[place].action;
    places_[input_index(action.kind) * static_cast<std::size_t>(batches) +
            static_cast<std::size_t>(action.microbatch)] = place;
  }
}

std::vector<Kind> needs_of(Kind kind) {
  using enum Kind;
  switch (kind) {
    case NEXT:
    case ZERO_GRAD: return {};
    case COPY: return {NEXT};
    case PREPARE: return {COPY};
    case SPLITS: return {COPY, PREPARE};
    case READ: return {SPLITS};
    case IDS: return {READ};
    case PREFETCH: return {IDS};
    case LOOKUP: return {IDS, PREFETCH};
    case OUTPUT: return {LOOKUP};
    case BOTTOM: return {COPY};
    case TOP: return {BOTTOM, OUTPUT};
    case TOP_BACKWARD: return {TOP};
    case OUTPUT_BACKWARD: return {TOP_BACKWARD};
    case UPDATE: return {OUTPUT_BACKWARD};
    case BOTTOM_BACKWARD: return {TOP_BACKWARD};
    case REDUCE_TOP: return {TOP_BACKWARD};
    case REDUCE_BOTTOM: return {BOTTOM_BACKWARD};
    case DENSE_STEP: return {REDUCE_TOP, REDUCE_BOTTOM};
    default: return {};
  }
}

std::optional<InputFault> find_fault(const InputProgram& program) {
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank > 0 && program.calls[at] == program.calls[at - 1]) continue;
    if (auto fault = RankCheck(program, rank).run()) return fault;
  }
  if (program.ranks() == 0) return std::nullopt;
  if (auto fault = find_other_order(program)) return fault;
  const bool are_alike = std::ranges::all_of(
      program.calls, [&](const auto& list) { return list == program.calls[0]; });
  // Ranks with the same calls wait for each other, and for earlier calls: there is no cycle.
  return are_alike ? std::nullopt : find_deadlock(program);
}

}  // namespace pipesim
