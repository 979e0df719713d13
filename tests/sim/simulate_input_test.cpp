// When calls of input programs run: closed forms, and a slow interpreter that shares nothing with
// the simulator but the vocabulary.
#include "sim/input_pipeline/predict/simulate_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "sim/input_pipeline/input_families.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;

// Looks at every host and every stream again and again, and goes on to the next instant at which
// something ends when nothing moves any more. Links are shared max-min fairly, in continuous time.
class SlowInterpreter {
 public:
  SlowInterpreter(const InputProgram& program, const InputCosts& costs)
      : program_(program), costs_(costs) {
    for (const InputCalls& calls : program.calls) {
      spans_.emplace_back(calls.size());
      states_.emplace_back(calls.size());
      hosts_.emplace_back();
    }
  }

  std::vector<std::vector<InputSpan>> run() {
    for (;;) {
      while (move()) {
      }
      std::int64_t next = -1;
      const auto consider = [&](std::int64_t time) {
        if (next < 0 || time < next) next = time;
      };
      for (const Host& host : hosts_) {
        if (host.is_calling) consider(host.until_ns);
      }
      each([&](std::size_t r, std::size_t i) {
        if (states_[r][i].phase == Phase::waits_out) consider(states_[r][i].until_ns);
      });
      const long double sent = next_sent();
      if (sent >= 0) consider(whole(sent));
      if (next < 0) return spans_;
      pass(next);
      now_ = next;
    }
  }

 private:
  enum class Phase { uncalled, issued, ready, sends, waits_out, done };
  struct State {
    Phase phase = Phase::uncalled;
    long double left = 0;  // bytes
    std::int64_t until_ns = 0;
  };
  struct Host {
    std::size_t next = 0;
    bool is_calling = false;
    std::int64_t until_ns = 0;
    std::int64_t free_ns = 0;  // since when it has been through with the call before
  };

  template <typename Work>
  void each(const Work& work) {
    for (std::size_t r = 0; r < states_.size(); ++r) {
      for (std::size_t i = 0; i < states_[r].size(); ++i) work(r, i);
    }
  }
  const InputCall& call(std::size_t r, std::size_t i) const { return program_.calls[r][i]; }
  const InputWork& work(std::size_t r, std::size_t i) const {
    return costs_.of(static_cast<int>(r), call(r, i).action.kind);
  }
  // The first whole nanosecond at which what ends in continuous time has ended.
  static std::int64_t whole(long double time) {
    return static_cast<std::int64_t>(std::ceil(time - 1e-8L));
  }

  bool may_start(std::size_t r, std::size_t i) const {
    for (const std::uint32_t awaited : call(r, i).after) {
      if (states_[r][awaited].phase != Phase::done) return false;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (call(r, j).stream == call(r, i).stream && states_[r][j].phase != Phase::done)
        return false;
    }
    return true;
  }

  bool move() {
    bool moved = false;
    for (std::size_t r = 0; r < hosts_.size(); ++r) moved = move_host(r) || moved;
    each([&](std::size_t r, std::size_t i) { moved = move_call(r, i) || moved; });
    return moved;
  }

  bool move_host(std::size_t r) {
    Host& host = hosts_[r];
    if (host.next == states_[r].size()) return false;
    const std::size_t i = host.next;
    const bool own = call(r, i).stream == InputStream::host;
    if (!host.is_calling) {
      if (own && !may_start(r, i)) return false;
      spans_[r][i].called_ns = host.free_ns;
      if (own) spans_[r][i].ready_ns = spans_[r][i].start_ns = now_;
      host.is_calling = true;
      host.until_ns = now_ + (own ? work(r, i).duration_ns : work(r, i).host_ns);
      return true;
    }
    if (host.until_ns > now_) return false;
    spans_[r][i].issued_ns = host.free_ns = now_;
    states_[r][i].phase = own ? Phase::done : Phase::issued;
    if (own) spans_[r][i].end_ns = now_;
    host.is_calling = false;
    ++host.next;
    return true;
  }

  bool move_call(std::size_t r, std::size_t i) {
    State& state = states_[r][i];
    InputSpan& span = spans_[r][i];
    const InputWork& own = work(r, i);
    switch (state.phase) {
      case Phase::issued:
        if (!may_start(r, i)) return false;
        span.ready_ns = now_;
        state.phase = Phase::ready;
        return true;
      case Phase::ready:
        if (is_meeting(call(r, i).action.kind) && !all_came(call(r, i).action)) return false;
        span.start_ns = now_;
        state.left = own.links.empty() ? 0 : static_cast<long double>(own.bytes);
        state.phase = Phase::sends;
        return true;
      case Phase::sends:
        if (state.left > 1e-9L) return false;
        state.until_ns = now_ + own.duration_ns;
        state.phase = Phase::waits_out;
        return true;
      case Phase::waits_out:
        if (state.until_ns > now_) return false;
        span.end_ns = now_;
        state.phase = Phase::done;
        return true;
      default: return false;
    }
  }

  bool all_came(const Action& action) const {
    for (std::size_t r = 0; r < states_.size(); ++r) {
      for (std::size_t i = 0; i < states_[r].size(); ++i) {
        if (call(r, i).action == action && states_[r][i].phase < Phase::ready) return false;
      }
    }
    return true;
  }

  using Flow = std::pair<std::size_t, std::size_t>;
  // Progressive filling: the link that gives its flows the least fixes them.
  std::map<Flow, long double> rates() {
    std::map<Flow, long double> fixed;
    std::set<Flow> open;
    each([&](std::size_t r, std::size_t i) {
      if (states_[r][i].phase == Phase::sends && states_[r][i].left > 1e-9L) open.insert({r, i});
    });
    while (!open.empty()) {
      long double least = -1;
      std::uint32_t tightest = 0;
      for (std::uint32_t link = 0; link < costs_.links.size(); ++link) {
        long double spare = static_cast<long double>(costs_.links[link].bytes_per_second) / 1e9L;
        std::int64_t count = 0;
        const auto crosses = [&](const Flow& flow) {
          return std::ranges::count(work(flow.first, flow.second).links, link) > 0;
        };
        for (const auto& [flow, rate] : fixed) {
          if (crosses(flow)) spare -= rate;
        }
        for (const Flow& flow : open) count += crosses(flow) ? 1 : 0;
        if (count == 0) continue;
        if (least < 0 || spare / static_cast<long double>(count) < least) {
          least = spare / static_cast<long double>(count);
          tightest = link;
        }
      }
      for (auto at = open.begin(); at != open.end();) {
        if (std::ranges::count(work(at->first, at->second).links, tightest) > 0) {
          fixed[*at] = least;
          at = open.erase(at);
        } else {
          ++at;
        }
      }
    }
    return fixed;
  }

  // When the next last byte leaves; less than 0 where none is on its way.
  long double next_sent() {
    long double first = -1;
    for (const auto& [flow, rate] : rates()) {
      const long double end = at_ + states_[flow.first][flow.second].left / rate;
      if (first < 0 || end < first) first = end;
    }
    return first;
  }

  // Bytes go on until then; those that have gone leave room to others at once.
  void pass(std::int64_t until) {
    for (;;) {
      const auto current = rates();
      long double next = static_cast<long double>(until);
      for (const auto& [flow, rate] : current) {
        next = std::min(next, at_ + states_[flow.first][flow.second].left / rate);
      }
      for (const auto& [flow, rate] : current) {
        long double& left = states_[flow.first][flow.second].left;
        left -= rate * (next - at_);
        if (left < 1e-7L) left = 0;
      }
      at_ = next;
      if (at_ >= static_cast<long double>(until) - 1e-12L) break;
    }
    at_ = static_cast<long double>(until);
  }

  const InputProgram& program_;
  const InputCosts& costs_;
  std::vector<std::vector<InputSpan>> spans_;
  std::vector<std::vector<State>> states_;
  std::vector<Host> hosts_;
  std::int64_t now_ = 0;
  long double at_ = 0;
};

// Ranks come to collectives in one order; what stands between them differs, and waits are any.
InputProgram random_input_program(std::mt19937_64& random) {
  InputProgram program{"random", static_cast<int>(pick(random, 1, 3)), 1, false, {}};
  const auto ranks = static_cast<int>(pick(random, 1, 4));
  std::vector<std::pair<Action, InputStream>> shared;
  std::vector<std::vector<Action>> others(static_cast<std::size_t>(ranks));
  for (const Kind kind : input_kinds) {
    for (std::int32_t batch = 0; batch < program.batches; ++batch) {
      const Action action = input_action(kind, batch);
      if (!is_meeting(action.kind)) {
        for (auto& own : others) {
          if (pick(random, 0, 2) > 0) own.push_back(action);
        }
      } else if (pick(random, 0, 2) > 0) {
        shared.emplace_back(action, static_cast<InputStream>(pick(random, 1, 8)));
      }
    }
  }
  std::ranges::shuffle(shared, random);
  for (auto& own : others) {
    std::ranges::shuffle(own, random);
    InputCalls calls;
    std::size_t next = 0;
    while (next < shared.size() || !own.empty()) {
      InputCall call;
      if (own.empty() || (next < shared.size() && pick(random, 0, 1) == 0)) {
        call = {shared[next].first, shared[next].second, {}};
        ++next;
      } else {
        call.action = own.back();
        call.stream = is_of_host(call.action.kind) ? InputStream::host
                                                   : static_cast<InputStream>(pick(random, 1, 8));
        own.pop_back();
      }
      for (std::int64_t waits = pick(random, 0, 3); waits > 0 && !calls.empty(); --waits) {
        call.after.push_back(static_cast<std::uint32_t>(
            pick(random, 0, static_cast<std::int64_t>(calls.size()) - 1)));
      }
      std::ranges::sort(call.after);
      call.after.erase(std::unique(call.after.begin(), call.after.end()), call.after.end());
      calls.push_back(call);
    }
    program.calls.push_back(calls);
  }
  return program;
}

// Rates and bytes of which shares come out at fractions with small denominators.
InputCosts random_costs(std::mt19937_64& random, int ranks) {
  InputCosts costs;
  for (std::int64_t link = pick(random, 0, 3); link > 0; --link) {
    costs.links.push_back({"link", 1'000'000'000 * (std::int64_t{1} << pick(random, 0, 2))});
  }
  const auto links = static_cast<std::int64_t>(costs.links.size());
  costs.work.resize(static_cast<std::size_t>(ranks));
  for (auto& kinds : costs.work) {
    for (InputWork& work : kinds) {
      if (pick(random, 0, 3) > 0) work.duration_ns = pick(random, 0, 40);
      if (pick(random, 0, 1) > 0) work.host_ns = pick(random, 0, 8);
      if (links == 0 || pick(random, 0, 1) > 0) continue;
      work.bytes = 12 * pick(random, 0, 20);
      work.links.push_back(static_cast<std::uint32_t>(pick(random, 0, links - 1)));
      const auto other = static_cast<std::uint32_t>(pick(random, 0, links - 1));
      if (other != work.links[0]) work.links.push_back(other);
      if (pick(random, 0, 3) == 0) work.links.clear();
    }
  }
  return costs;
}

std::string differences(const InputProgram& program, const std::vector<std::vector<InputSpan>>& got,
                        const std::vector<std::vector<InputSpan>>& want) {
  for (std::size_t r = 0; r < want.size(); ++r) {
    for (std::size_t i = 0; i < want[r].size(); ++i) {
      if (got[r][i] == want[r][i]) continue;
      const auto text = [](const InputSpan& span) {
        std::string all;
        for (const std::int64_t time :
             {span.called_ns, span.issued_ns, span.ready_ns, span.start_ns, span.end_ns}) {
          all += std::to_string(time) + " ";
        }
        return all;
      };
      return "rank " + std::to_string(r) + " " + to_text(program.calls[r][i].action) + ": " +
             text(got[r][i]) + "instead of " + text(want[r][i]);
    }
  }
  return "";
}

TEST(SimulateInput, AgreesWithASlowInterpreterToTheNanosecond) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 10'000; ++round) {
    const InputProgram program = random_input_program(random);
    const InputCosts costs = random_costs(random, program.ranks());
    const InputRun run = simulate_input(program, costs);
    ASSERT_EQ(differences(program, run.spans, SlowInterpreter(program, costs).run()), "") << round;
  }
}

TEST(SimulateInput, AgreesOnEveryFamily) {
  std::mt19937_64 random(11);
  for (const InputFamily& family : all_input_families()) {
    for (int round = 0; round < 10; ++round) {
      const auto ranks = static_cast<int>(pick(random, 1, 3));
      const InputProgram program =
          make_input_program({std::string(family.name), ranks, static_cast<int>(pick(random, 1, 6)),
                              static_cast<int>(pick(random, 1, 3))});
      const InputCosts costs = random_costs(random, ranks);
      const InputRun run = simulate_input(program, costs);
      ASSERT_EQ(differences(program, run.spans, SlowInterpreter(program, costs).run()), "")
          << family.name << ' ' << round;
    }
  }
}

// One rank, and times of which a steady iteration can be told on paper.
std::int64_t end_of(const InputRun& run, Kind kind, std::int32_t batch) {
  const InputPlaces places(run.program.calls[0], run.program.batches);
  return run.span(0, places.of(kind, batch)).end_ns;
}

TEST(SimulateInput, BaseAddsUpAndSparseDistHides) {
  InputCosts costs;
  costs.work.resize(2);
  for (int rank = 0; rank < 2; ++rank) {
    const auto takes = [&](Kind kind, std::int64_t duration) {
      costs.of(rank, kind).duration_ns = duration;
    };
    takes(Kind::COPY, 300);
    takes(Kind::SPLITS, 20);
    takes(Kind::IDS, 100);
    takes(Kind::LOOKUP, 50);
    takes(Kind::OUTPUT, 30);
    takes(Kind::BOTTOM, 70);
    takes(Kind::TOP, 200);
    takes(Kind::TOP_BACKWARD, 400);
    takes(Kind::OUTPUT_BACKWARD, 30);
    takes(Kind::UPDATE, 60);
    takes(Kind::BOTTOM_BACKWARD, 140);
    takes(Kind::REDUCE_TOP, 90);
    takes(Kind::REDUCE_BOTTOM, 40);
    takes(Kind::DENSE_STEP, 10);
  }
  constexpr int batches = 12;
  const auto steady = [&](const char* name) {
    const InputRun run = simulate_input(make_input_program({name, 2, batches}), costs);
    return end_of(run, Kind::DENSE_STEP, 8) - end_of(run, Kind::DENSE_STEP, 7);
  };
  constexpr std::int64_t compute = 70 + 50 + 30 + 200 + 400 + 30 + 60 + 140;
  // Sums of the bottom's gradients are behind all else. Those of the top's, 90, are on the way of
  // the gradients of rows, since one communicator carries both. The copy is called with the
  // backward still to run, and so is beside it.
  EXPECT_EQ(steady("sparse-dist"), compute + 90 + 40 + 10);
  // Splits are called behind the step, and the host waits for them before the next forward.
  EXPECT_EQ(steady("prefetch"), compute + 90 + 40 + 20);
  EXPECT_EQ(steady("base"), compute + 20 + 100 + 90 + 40 + 10);
  EXPECT_EQ(steady("lite"), compute + 20 + 100 + 90 + 40 + 10);
  // The lookup and its exchange are beside the bottom MLP, of which 70 stay, and beside the sums
  // and the step; the way back is beside the bottom's backward.
  EXPECT_EQ(steady("fused"), 70 + 200 + 400 + 140 + 40 + 10);
}

TEST(SimulateInput, CostsOfOtherRanksAreRefused) {
  InputCosts costs;
  costs.work.resize(3);
  EXPECT_EQ(testing::input_error_of([&] {
              simulate_input(make_input_program({"base", 2, 1}), costs);
            }),
            "costs are for 3 ranks, but the input pipeline has 2; give the same");
}

}  // namespace
}  // namespace pipesim
