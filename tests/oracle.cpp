#include "tests/oracle.h"

#include <algorithm>
#include <set>

namespace pipesim::oracle {
namespace {

using Key = std::tuple<int, Kind, int>;

struct Arrival {
  std::int64_t sent = 0;
  std::int64_t at = 0;
  bool remote = false;
  int from_rank = 0;
  std::size_t from_step = 0;  // how many steps the sender had done
};

// What a rank did at once: a cell, or closing work.
struct Step {
  Interval when;
  Arrival input;
  bool compute = true;
};

std::int64_t ceil_div(std::int64_t bytes, std::int64_t rate) {
  const long double exact = static_cast<long double>(bytes) * 1e9L / static_cast<long double>(rate);
  auto whole = static_cast<std::int64_t>(exact);
  while (static_cast<long double>(whole) < exact) ++whole;
  return whole;
}

class Interpreter {
 public:
  Interpreter(const Schedule& schedule, const Costs& costs) : schedule_(schedule), costs_(costs) {}

  std::optional<Result> run() {
    const auto ranks = static_cast<std::size_t>(schedule_.ranks());
    std::vector<std::size_t> next(ranks);
    std::vector<std::int64_t> now(ranks);
    history_.resize(ranks);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto list = schedule_.actions[static_cast<int>(r)];
        if (next[r] == list.size()) continue;
        std::vector<Action> cell{list[next[r]]};
        while (cell.back().joined) cell.push_back(list[next[r] + cell.size()]);
        if (is_send(cell[0].kind)) {
          for (const Action& send : cell) {
            deliver(send.stage, send.kind, send.microbatch, now[r]);
          }
        } else if (is_compute(cell[0].kind)) {
          std::int64_t start = now[r];
          std::int64_t length = 0;
          std::optional<Arrival> last;
          bool ready = true;
          for (const Action& action : cell) {
            length += duration(action);
            if (!needs_input(action)) continue;
            const auto found =
                arrivals_.find({action.stage, input_kind(action), action.microbatch});
            if (found == arrivals_.end()) {
              ready = false;
              break;
            }
            start = std::max(start, found->second.at);
            if (!last || found->second.at > last->at) last = found->second;
          }
          if (!ready) continue;
          if (cell.size() == 2) {
            const auto& overlap = costs_of(cell[0]).overlap_ns;
            if (overlap) length = *overlap;
          }
          for (const Action& action : cell) {
            result_.times[{action.stage, action.kind, action.microbatch}] = {start, start + length};
          }
          history_[r].push_back({{start, start + length}, last.value_or(Arrival{}), true});
          now[r] = start + length;
          for (const Action& action : cell) finish(action, now[r]);
        }
        next[r] += cell.size();
        moved = true;
      }
    }
    const auto close = [&](const std::vector<std::int64_t>& times) {
      for (std::size_t r = 0; r < ranks && !times.empty(); ++r) {
        history_[r].push_back({{now[r], now[r] + times[r]}, {}, false});
        now[r] += times[r];
      }
    };
    // All of a group begin when the last is there.
    const auto meet = [&](const std::optional<GroupCosts>& costs, const std::set<int>& group) {
      if (!costs) return;
      const auto at = [&](int r) { return now[static_cast<std::size_t>(r)]; };
      const int last = *std::ranges::max_element(group, {}, at);
      const std::int64_t start = at(last);
      const std::size_t steps = history_[static_cast<std::size_t>(last)].size();
      for (const int r : group) {
        const std::int64_t end = start + (group.size() == 1 ? 0 : costs->latency_ns);
        history_[static_cast<std::size_t>(r)].push_back(
            {{start, end}, {start, start, false, last, steps}, false});
        now[static_cast<std::size_t>(r)] = end;
      }
    };
    for (std::size_t r = 0; r < ranks; ++r) {
      if (next[r] < schedule_.actions[static_cast<int>(r)].size()) return std::nullopt;
    }
    std::set<int> all;
    for (int r = 0; r < schedule_.ranks(); ++r) all.insert(r);
    const std::vector<int>& homes = schedule_.placement.rank_of_stage();
    close(costs_.reduce_gradients_ns);
    // Copies add tied gradients up with all others.
    if (schedule_.placement.copies() == 1) {
      meet(costs_.tied_gradients, {homes.front(), homes.back()});
    }
    meet(costs_.gradient_norm, all);
    close(costs_.optimizer_ns);
    result_.makespan = *std::ranges::max_element(now);
    for (std::size_t r = 0; r < ranks; ++r) summarise(static_cast<int>(r), history_[r]);
    trace_back();
    return result_;
  }

 private:
  // The second half of the microbatches goes through second copies, where there are any.
  int copy_of(int microbatch) const {
    return schedule_.placement.copies() == 2 && microbatch >= schedule_.microbatches / 2 ? 1 : 0;
  }
  int home(int stage, int microbatch) const {
    const Placement& placement = schedule_.placement;
    const bool second = copy_of(microbatch) == 1;
    const auto at = static_cast<std::size_t>(stage);
    return second ? placement.rank_of_second()[at] : placement.rank_of_stage()[at];
  }
  const StageCosts& costs_of(const Action& a) const {
    const int stages = schedule_.stages();
    const bool own = std::ssize(costs_.stages) > stages && copy_of(a.microbatch) == 1;
    return costs_.stages[static_cast<std::size_t>(own ? stages + a.stage : a.stage)];
  }

  bool needs_input(const Action& a) const {
    if (a.kind == Kind::F) return a.stage > 0;
    return is_backward(a.kind) && a.stage + 1 < schedule_.stages();
  }
  static Kind input_kind(const Action& a) { return a.kind == Kind::F ? Kind::F : Kind::B; }

  std::int64_t duration(const Action& a) const {
    const StageCosts& stage = costs_of(a);
    if (a.kind == Kind::F) return stage.forward_ns + stage.forward_messages_ns;
    if (a.kind == Kind::W) return stage.backward_weight_ns;
    const std::int64_t input = stage.backward_input_ns + stage.backward_messages_ns;
    return a.kind == Kind::I ? input : input + stage.backward_weight_ns;
  }

  void finish(const Action& a, std::int64_t end) {
    const int to = a.kind == Kind::F ? a.stage + 1 : a.stage - 1;
    if (a.kind == Kind::W || to < 0 || to == schedule_.stages()) return;
    const bool local = home(to, a.microbatch) == home(a.stage, a.microbatch);
    if (local) {
      arrivals_[{to, input_kind(a), a.microbatch}] = {end, end, false, 0, 0};
    } else if (!schedule_.has_transfers()) {
      deliver(a.stage, a.kind == Kind::F ? Kind::SEND_F : Kind::SEND_B, a.microbatch, end);
    }
  }

  void deliver(int stage, Kind send, int microbatch, std::int64_t sent) {
    const int to = send == Kind::SEND_F ? stage + 1 : stage - 1;
    const Link& link = costs_.link(home(stage, microbatch), home(to, microbatch));
    const std::int64_t bytes =
        costs_.stages[static_cast<std::size_t>(std::min(stage, to))].output_bytes;
    std::int64_t at = sent + link.latency_ns;
    if (link.bytes_per_second) at += ceil_div(bytes, *link.bytes_per_second);
    const int rank = home(stage, microbatch);
    arrivals_[{to, send == Kind::SEND_F ? Kind::F : Kind::B, microbatch}] = {
        sent, at, true, rank, history_[static_cast<std::size_t>(rank)].size()};
  }

  // From the last end back to 0: along the rank where it was busy until then,
  // along the input where the rank waited for it.
  void trace_back() {
    std::size_t rank = 0;
    for (std::size_t r = 1; r < history_.size(); ++r) {
      if (result_.ranks[r].last_end > result_.ranks[rank].last_end) rank = r;
    }
    std::size_t step = history_[rank].size();
    while (step > 0) {
      const Step& at = history_[rank][step - 1];
      (at.compute ? result_.path_compute : result_.path_other) += at.when.end - at.when.start;
      const std::int64_t before = step > 1 ? history_[rank][step - 2].when.end : 0;
      if (at.when.start == before) {
        step -= 1;
      } else {
        result_.path_p2p += at.input.at - at.input.sent;
        rank = static_cast<std::size_t>(at.input.from_rank);
        step = at.input.from_step;
      }
    }
  }

  void summarise(int rank, const std::vector<Step>& history) {
    Rank out;
    std::int64_t first_backward = result_.makespan;
    std::int64_t last_forward = 0;
    std::map<std::int64_t, std::vector<std::pair<int, std::int64_t>>> ups, downs;
    for (const auto& [key, when] : result_.times) {
      const auto& [stage, kind, microbatch] = key;
      if (home(stage, microbatch) != rank) continue;
      const StageCosts& costs = costs_.stages[static_cast<std::size_t>(stage)];
      if (is_backward(kind)) first_backward = std::min(first_backward, when.start);
      if (kind == Kind::F) last_forward = std::max(last_forward, when.end);
      if (kind == Kind::F) ups[when.start].push_back({1, costs.activation_bytes});
      if (kind == Kind::B) downs[when.end].push_back({-1, -costs.activation_bytes});
      if (kind == Kind::I) {
        downs[when.end].push_back({-1, costs.weight_residue_bytes - costs.activation_bytes});
      }
      if (kind == Kind::W) downs[when.end].push_back({0, -costs.weight_residue_bytes});
    }
    out.first_start = history.front().when.start;
    out.last_end = history.back().when.end;
    std::int64_t idle_from = 0;
    const auto classify = [&](std::int64_t from, std::int64_t to, const Arrival& input) {
      // Nanoseconds of one idle interval share a class but for those in flight.
      const std::int64_t flying_from = input.remote ? std::clamp(input.sent, from, to) : from;
      const std::int64_t flying_to = input.remote ? std::clamp(input.at, from, to) : from;
      const std::int64_t flying = flying_to - flying_from;
      out.p2p += flying;
      const std::int64_t rest = to - from - flying;
      if (to <= first_backward) {
        out.warmup += rest;
      } else if (from >= last_forward) {
        out.drain += rest;
      } else {
        out.steady += rest;
      }
    };
    for (const auto& [when, input, compute] : history) {
      if (when.start > idle_from) classify(idle_from, when.start, input);
      out.busy += when.end - when.start;
      idle_from = when.end;
    }
    if (result_.makespan > idle_from) classify(idle_from, result_.makespan, {});
    // Releases come before acquisitions of the same instant.
    std::int64_t chunks = 0, bytes = 0;
    std::map<std::int64_t, int> instants;
    for (const auto& [at, list] : ups) instants[at];
    for (const auto& [at, list] : downs) instants[at];
    for (const auto& [at, unused] : instants) {
      for (const auto& [c, b] : downs[at]) {
        chunks += c;
        bytes += b;
        out.peak_bytes = std::max(out.peak_bytes, bytes);
      }
      for (const auto& [c, b] : ups[at]) {
        chunks += c;
        bytes += b;
      }
      out.peak_chunks = std::max(out.peak_chunks, chunks);
      out.peak_bytes = std::max(out.peak_bytes, bytes);
    }
    result_.ranks.push_back(out);
  }

  const Schedule& schedule_;
  const Costs& costs_;
  Result result_;
  std::map<Key, Arrival> arrivals_;
  std::vector<std::vector<Step>> history_;  // by rank
};

}  // namespace

double Result::global_bubble() const {
  std::int64_t busy = 0;
  for (const Rank& rank : ranks) busy += rank.busy;
  const auto available = makespan * static_cast<std::int64_t>(ranks.size());
  return static_cast<double>(available - busy) / static_cast<double>(available);
}

double Result::span_bubble() const {
  const auto widest =
      std::max_element(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) {
        return a.last_end - a.first_start < b.last_end - b.first_start;
      });
  const std::int64_t span = widest->last_end - widest->first_start;
  return static_cast<double>(span - widest->busy) / static_cast<double>(span);
}

std::optional<Result> run(const Schedule& schedule, const Costs& costs) {
  return Interpreter(schedule, costs).run();
}

}  // namespace pipesim::oracle
