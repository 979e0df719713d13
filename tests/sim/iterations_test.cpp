// Iterations that follow each other without a barrier, against an interpreter of their own,
// the transfers' oracle on lists that are repeated by hand, and closed forms.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/flags/schedule_choice.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/shard.h"
#include "sim/schedule/unroll.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"
#include "tests/replicas.h"
#include "tests/transfer_oracle.h"
#include "traces/print/picture.h"

namespace pipesim {
namespace {

using testing::costs_of;

// (iteration, rank, stage, kind, microbatch or number) -> start and end.
using TimesByIteration =
    std::map<std::tuple<int, int, int, Kind, int>, std::pair<std::int64_t, std::int64_t>>;

struct Outcome {
  TimesByIteration times;
  std::vector<std::int64_t> ends_ns;
};

// Sweeps over ranks until all have done all: arrivals are known by iteration, and after its
// list a rank does its closing work and begins again.
Outcome interpret(const Schedule& schedule, const Costs& costs, int iterations, int passes = 1) {
  struct Rank {
    std::int64_t now = 0;
    int iteration = 0;
    std::size_t next = 0;
    int met = 0;  // of REDUCE_TIED and GRAD_NORM
  };
  Outcome outcome;
  outcome.ends_ns.resize(static_cast<std::size_t>(iterations));
  std::vector<Rank> ranks(static_cast<std::size_t>(schedule.ranks()));
  std::map<std::tuple<int, int, bool, int>, std::int64_t> arrivals;
  std::map<std::pair<int, Kind>, std::map<int, std::int64_t>> came;  // when each rank
  const std::vector<int>& homes = schedule.placement.rank_of_stage();
  const int last_stage = schedule.stages() - 1;
  const auto duration = [&](const Action& a) {
    const StageCosts& stage = costs.stages[static_cast<std::size_t>(a.stage)];
    if (a.kind == Kind::F) return stage.forward_ns + stage.forward_messages_ns;
    if (a.kind == Kind::W) return stage.backward_weight_ns;
    const std::int64_t input = stage.backward_input_ns + stage.backward_messages_ns;
    return a.kind == Kind::I ? input : input + stage.backward_weight_ns;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < schedule.ranks(); ++r) {
      Rank& rank = ranks[static_cast<std::size_t>(r)];
      const auto list = schedule.actions[r];
      if (rank.iteration == iterations) continue;
      const bool steps = (rank.iteration + 1) % passes == 0 || rank.iteration + 1 == iterations;
      if (rank.next == list.size() && !steps) {
        std::int64_t& end = outcome.ends_ns[static_cast<std::size_t>(rank.iteration)];
        end = std::max(end, rank.now);
        ++rank.iteration;
        rank.next = 0;
        moved = true;
        continue;
      }
      if (rank.next == list.size()) {
        const auto close = [&](const std::vector<std::int64_t>& by_rank, Kind kind, int stage) {
          if (by_rank.empty()) return;
          const std::int64_t start = rank.now;
          rank.now += by_rank[static_cast<std::size_t>(r)];
          if (kind != Kind::OPTIMIZER) return;
          outcome.times[{rank.iteration, r, stage, kind, no_microbatch}] = {start, rank.now};
        };
        if (rank.met == 0 && came[{rank.iteration, Kind::REDUCE_TIED}].count(r) == 0) {
          close(costs.reduce_gradients_ns, Kind::REDUCE_GRAD, 0);
        }
        if (rank.met < 2) {
          const Kind kind = rank.met == 0 ? Kind::REDUCE_TIED : Kind::GRAD_NORM;
          const auto& group = rank.met == 0 ? costs.tied_gradients : costs.gradient_norm;
          const bool is_end = r == homes.front() || r == homes.back();
          auto& there = came[{rank.iteration, kind}];
          if (there.emplace(r, rank.now).second) moved = true;
          if (group && (kind == Kind::GRAD_NORM || is_end)) {
            const std::size_t ends = homes.front() == homes.back() ? 1 : 2;
            std::size_t missing = kind == Kind::GRAD_NORM ? ranks.size() : ends;
            std::int64_t start = 0;
            for (const auto& [other, time] : there) {
              if (kind == Kind::REDUCE_TIED && other != homes.front() && other != homes.back()) {
                continue;
              }
              --missing;
              start = std::max(start, time);
            }
            if (missing > 0) continue;
            const bool alone = kind == Kind::GRAD_NORM ? ranks.size() == 1 : ends == 1;
            rank.now = start + (alone ? 0 : group->latency_ns);
            const int own = schedule.placement.stages_of(r).front();
            const int stage = kind == Kind::GRAD_NORM || r == homes.front() ? own : last_stage;
            outcome.times[{rank.iteration, r, stage, kind, no_microbatch}] = {start, rank.now};
          }
          ++rank.met;
          moved = true;
          continue;
        }
        rank.met = 0;
        close(costs.optimizer_ns, Kind::OPTIMIZER, schedule.placement.stages_of(r).front());
        std::int64_t& end = outcome.ends_ns[static_cast<std::size_t>(rank.iteration)];
        end = std::max(end, rank.now);
        ++rank.iteration;
        rank.next = 0;
        moved = true;
        continue;
      }
      if (list[rank.next].kind == Kind::IDLE) {
        ++rank.next;
        moved = true;
        continue;
      }
      std::vector<Action> cell{list[rank.next]};
      while (cell.back().joined) cell.push_back(list[rank.next + cell.size()]);
      std::int64_t start = rank.now;
      std::int64_t length = 0;
      bool ready = true;
      for (const Action& a : cell) {
        length += duration(a);
        const bool forward = a.kind == Kind::F;
        if (a.kind == Kind::W || (forward ? a.stage == 0 : a.stage + 1 == schedule.stages())) {
          continue;
        }
        const auto found = arrivals.find({rank.iteration, a.stage, forward, a.microbatch});
        ready = ready && found != arrivals.end();
        if (ready) start = std::max(start, found->second);
      }
      if (!ready) continue;
      const auto& overlap = costs.stages[static_cast<std::size_t>(cell[0].stage)].overlap_ns;
      if (cell.size() == 2 && overlap) length = *overlap;
      rank.now = start + length;
      for (const Action& a : cell) {
        outcome.times[{rank.iteration, r, a.stage, a.kind, a.microbatch}] = {start, rank.now};
        const int to = a.kind == Kind::F ? a.stage + 1 : a.stage - 1;
        if (a.kind == Kind::W || to < 0 || to == schedule.stages()) continue;
        const int receiver = schedule.placement.rank_of(to);
        arrivals[{rank.iteration, to, a.kind == Kind::F, a.microbatch}] =
            rank.now + (receiver == r ? 0 : costs.link(r, receiver).latency_ns);
      }
      rank.next += cell.size();
      moved = true;
    }
  }
  return outcome;
}

// What is no transfer, nor one of several reductions that share their rank's time.
TimesByIteration simulated_times(const Schedule& schedule, const Costs& costs,
                                 SimulationOptions options, Metrics* metrics = nullptr) {
  TimesByIteration times;
  options.sink = [&](const Span& span) {
    const Action& a = span.action;
    if (is_transfer(a.kind) || (a.kind == Kind::REDUCE_GRAD && !is_collective(a))) return;
    const int number = is_collective(a) ? a.number : a.microbatch;
    const bool is_new = times
                            .emplace(std::tuple(span.iteration, span.rank, a.stage, a.kind, number),
                                     std::pair(span.start_ns, span.end_ns))
                            .second;
    EXPECT_TRUE(is_new) << to_text(a) << " twice in iteration " << span.iteration;
  };
  const Metrics got = simulate(schedule, costs, options);
  if (metrics != nullptr) *metrics = got;
  return times;
}

TEST(Iterations, EqualAnInterpreterOfTheirOwn) {
  std::mt19937_64 random(22);
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const Schedule schedule = testing::random_schedule(random);
    Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    testing::add_messages(costs, random);
    const auto iterations = static_cast<int>(testing::pick(random, 1, 4));
    const auto passes = static_cast<int>(testing::pick(random, 1, 3));
    const Outcome truth = interpret(schedule, costs, iterations, passes);
    for (const bool by_events : {false, true}) {
      SimulationOptions options;
      options.iterations = iterations;
      options.accumulation.passes = passes;
      options.always_by_events = by_events;
      Metrics metrics;
      EXPECT_EQ(simulated_times(schedule, costs, options, &metrics), truth.times);
      EXPECT_EQ(metrics.iteration_ends_ns, truth.ends_ns);
      EXPECT_EQ(metrics.makespan_ns, truth.ends_ns.front());
      const std::size_t n = truth.ends_ns.size();
      EXPECT_EQ(metrics.steady_iteration_ns(),
                truth.ends_ns[n - 1] - (n == 1 ? 0 : truth.ends_ns[n - 2]));
      const std::size_t last = std::min(n, static_cast<std::size_t>(passes));
      const std::int64_t before = n == last ? 0 : truth.ends_ns[n - 1 - last];
      EXPECT_EQ(metrics.steady_iteration_ns(passes),
                (truth.ends_ns[n - 1] - before) / static_cast<std::int64_t>(last));
    }
    if (HasFailure()) break;
  }
}

// Where nothing is shared, what comes later changes nothing of the first.
TEST(Iterations, TheFirstIsAsIfItWereAlone) {
  std::mt19937_64 random(23);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const Schedule schedule = testing::random_schedule(random);
    const Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    SimulationOptions options;
    options.always_by_events = i % 2 == 1;
    const Metrics alone = simulate(schedule, costs, options);
    options.iterations = 3;
    const Metrics first = simulate(schedule, costs, options);
    EXPECT_EQ(first.makespan_ns, alone.makespan_ns);
    EXPECT_EQ(first.widest_rank, alone.widest_rank);
    EXPECT_EQ(first.critical_path.compute_ns, alone.critical_path.compute_ns);
    EXPECT_EQ(first.critical_path.p2p_ns, alone.critical_path.p2p_ns);
    EXPECT_EQ(first.critical_path.other_ns, alone.critical_path.other_ns);
    for (std::size_t r = 0; r < alone.ranks.size(); ++r) {
      EXPECT_EQ(first.ranks[r].busy_ns, alone.ranks[r].busy_ns);
      EXPECT_EQ(first.ranks[r].first_start_ns, alone.ranks[r].first_start_ns);
      EXPECT_EQ(first.ranks[r].last_end_ns, alone.ranks[r].last_end_ns);
      EXPECT_EQ(first.ranks[r].bubble.by_kind(), alone.ranks[r].bubble.by_kind());
      EXPECT_EQ(first.ranks[r].peak_activation_chunks, alone.ranks[r].peak_activation_chunks);
      EXPECT_EQ(first.ranks[r].peak_activation_bytes, alone.ranks[r].peak_activation_bytes);
      EXPECT_EQ(first.ranks[r].peak_memory.total, alone.ranks[r].peak_memory.total);
    }
    if (HasFailure()) break;
  }
}

// Programs whose transfers meet, repeated by hand, against the transfers' oracle.
TEST(Iterations, TransfersThatMeetGoOnLikewise) {
  std::mt19937_64 random(24);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const Schedule program = lower(testing::random_schedule(random));
    Costs costs = testing::without_bytes(testing::random_costs(random, program));
    costs.optimizer_ns.clear();
    costs.reduce_gradients_ns.clear();
    costs.tied_gradients = costs.gradient_norm = std::nullopt;
    const int iterations = 3;
    ActionLists lists;
    for (int rank = 0; rank < program.ranks(); ++rank) {
      lists.add_rank();
      for (int iteration = 0; iteration < iterations; ++iteration) {
        for (Action action : program.actions[rank]) {
          if (action.microbatch >= 0) action.microbatch += iteration * program.microbatches;
          lists.add(action);
        }
      }
    }
    Schedule repeated = program.with(std::move(lists));
    repeated.microbatches *= iterations;
    for (const P2p mode : {P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
      SimulationOptions options;
      options.transfers.mode = mode;
      options.iterations = iterations;
      const auto truth = oracle::run_with_transfers(repeated, costs, options.transfers);
      if (!truth) {
        EXPECT_THROW(simulate(program, costs, options), Error);
        continue;
      }
      std::size_t compared = 0;
      for (const auto& [key, when] : simulated_times(program, costs, options)) {
        const auto& [iteration, rank, stage, kind, microbatch] = key;
        EXPECT_EQ(truth->at({stage, kind, iteration * program.microbatches + microbatch}), when);
        ++compared;
      }
      const auto computes = std::ranges::count_if(
          repeated.actions.all(), [](const Action& action) { return is_compute(action.kind); });
      EXPECT_EQ(static_cast<std::ptrdiff_t>(compared), computes);
    }
    if (HasFailure()) break;
  }
}

// A rank by itself repeats all that it does, its exchanges with replicas included.
TEST(Iterations, OneRankRepeatsItself) {
  std::mt19937_64 random(25);
  int cases = 0;
  while (cases < 200) {
    const testing::ReplicaCase made = testing::random_replicas(random);
    if (made.schedule.ranks() != 1) continue;
    ++cases;
    SimulationOptions options;
    options.iterations = 3;
    Metrics metrics;
    const TimesByIteration times = simulated_times(made.schedule, made.costs, options, &metrics);
    const std::int64_t period = metrics.makespan_ns;
    EXPECT_EQ(metrics.iteration_ends_ns, (std::vector{period, 2 * period, 3 * period}));
    for (const auto& [key, when] : times) {
      auto [iteration, rank, stage, kind, number] = key;
      if (iteration == 0) continue;
      const auto before = times.find({iteration - 1, rank, stage, kind, number});
      ASSERT_NE(before, times.end());
      EXPECT_EQ(when, std::pair(before->second.first + period, before->second.second + period));
    }
    EXPECT_EQ(times.size() % 3, 0);
    if (HasFailure()) break;
  }
}

// Passes that don't step are as if there were nothing of a step, neither in lists nor in costs.
TEST(Iterations, PassesBetweenStepsHaveNothingOfThem) {
  std::mt19937_64 random(26);
  int cases = 0;
  while (cases < 200) {
    const testing::ReplicaCase made = testing::random_replicas(random);
    if (made.schedule.ranks() != 1) continue;
    SCOPED_TRACE("case " + std::to_string(++cases));
    const bool reduces_each = cases % 2 == 0;
    Costs without = made.costs;
    without.optimizer_ns.clear();
    without.tied_gradients = without.gradient_norm = std::nullopt;
    if (!reduces_each) without.reduce_gradients_ns.clear();
    ActionLists list;
    list.add_rank();
    std::set<int> reduced;
    for (const Action& action : made.schedule.actions.all()) {
      if (action.kind == Kind::REDUCE_GRAD) {
        if (!reduces_each) continue;
        reduced.insert(action.stage);
      }
      if (!ends_iteration(action.kind)) list.add(action);
    }
    // What no list says when to reduce is reduced at the step.
    for (std::size_t s = 0; s < without.stages.size(); ++s) {
      if (!reduced.contains(static_cast<int>(s))) without.stages[s].reduce = {};
    }
    if (!reduced.empty() && !without.reduce_gradients_ns.empty()) continue;
    without.reduce_gradients_ns.clear();
    const Schedule between = made.schedule.with(std::move(list));
    Metrics pass, step, metrics;
    const TimesByIteration times_of_pass = simulated_times(between, without, {}, &pass);
    const TimesByIteration times_of_step = simulated_times(made.schedule, made.costs, {}, &step);
    SimulationOptions options;
    options.iterations = 5;
    options.accumulation = {2, reduces_each};
    RecordedRun run = record_run(made.schedule, made.costs, options);
    const TimesByIteration times = simulated_times(made.schedule, made.costs, options, &metrics);
    const std::int64_t both = pass.makespan_ns + step.makespan_ns;
    EXPECT_EQ(metrics.iteration_ends_ns,
              (std::vector{pass.makespan_ns, both, both + pass.makespan_ns, 2 * both,
                           2 * both + step.makespan_ns}));
    EXPECT_EQ(run.metrics(0).makespan_ns, pass.makespan_ns);
    EXPECT_EQ(run.metrics(0).ranks[0].bubble.by_kind(), metrics.ranks[0].bubble.by_kind());
    EXPECT_EQ(run.median_iteration() % 2, run.median_iteration() == 4 ? 0U : 1U);
    for (const auto& [key, when] : times) {
      auto [iteration, rank, stage, kind, number] = key;
      if (kind == Kind::OPTIMIZER) {
        EXPECT_TRUE(iteration == 1 || iteration >= 3);
        continue;
      }
      const bool steps = iteration == 1 || iteration >= 3;
      const std::int64_t begin =
          iteration == 0 ? 0 : metrics.iteration_ends_ns[static_cast<std::size_t>(iteration) - 1];
      const auto& alone = steps ? times_of_step : times_of_pass;
      const auto found = alone.find({0, rank, stage, kind, number});
      ASSERT_NE(found, alone.end());
      EXPECT_EQ(when, std::pair(found->second.first + begin, found->second.second + begin));
    }
    EXPECT_GE(times.size(), 2 * times_of_pass.size() + 3 * times_of_step.size() - 3);
    if (HasFailure()) break;
  }
}

// New weights are there in the passes that follow a step's first.
TEST(Iterations, WeightsThatAStepMadeAreGatheredOnce) {
  const Schedule schedule = gather_ahead(generate({.name = "1f1b", .ranks = 2, .microbatches = 4}));
  Costs costs;
  costs.stages.assign(2, usual_stage_costs());
  for (StageCosts& stage : costs.stages) stage.unshard = {0, 1'000'000, 2};
  costs.collective_links.assign(2, Link{0, 1'000'000'000});
  SimulationOptions options;
  options.iterations = 6;
  options.accumulation.passes = 3;
  const auto gathers_in = [&](bool each) {
    options.accumulation.gathers_each = each;
    std::set<int> iterations;
    for (const Span& span : record_run(schedule, costs, options).spans) {
      if (span.action.kind == Kind::UNSHARD) iterations.insert(span.iteration);
    }
    return iterations;
  };
  EXPECT_EQ(gathers_in(true), (std::set{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(gathers_in(false), (std::set{0, 3}));
}

// ZB-H2 has no bubble but at the ends of a run: where a rank does not wait for the others
// between iterations, each takes its work alone.
TEST(Iterations, ClosedForms) {
  for (int p = 2; p <= 6; ++p) {
    const int m = 2 * p;
    const auto steady = [&](const char* name, const Costs& costs) {
      SimulationOptions options;
      options.iterations = 4;
      return simulate(generate({name, p, m}), costs, options);
    };
    Costs even = costs_of(p, 10, 20);
    const Metrics zero = steady("zb-h2", even);
    EXPECT_EQ(zero.makespan_ns, m * 30 + (p - 1) * 10);
    EXPECT_EQ(zero.steady_iteration_ns(), m * 30);
    // Rank 0 starts first and ends last: no rank can begin before.
    for (const char* name : {"gpipe", "1f1b"}) {
      const Metrics metrics = steady(name, even);
      EXPECT_EQ(metrics.makespan_ns, (m + p - 1) * 30) << name;
      EXPECT_EQ(metrics.steady_iteration_ns(), (m + p - 1) * 30) << name;
    }
  }
}

// In an iteration that follows another a rank may be done with some before it counts.
TEST(Iterations, PicturesBeginWhereTheyCount) {
  const auto picture_of = [](const std::vector<Span>& spans) {
    const auto replay = [&spans](const SpanSink& sink) {
      for (const Span& span : spans) sink(span);
    };
    return draw(TimelinePanel{"", {0}, {spans.size()}, 600, replay}, {60, false});
  };
  const auto span_of = [](Kind kind, std::int64_t start_ns, std::int64_t end_ns) {
    return Span{make_action(0, kind, 0), 0, 0, start_ns, end_ns};
  };
  EXPECT_EQ(picture_of({span_of(Kind::F, -300, -100), span_of(Kind::I, -100, 300),
                        span_of(Kind::W, 400, 600)}),
            picture_of({span_of(Kind::I, 0, 300), span_of(Kind::W, 400, 600)}));
}

// A file has no OPTIMIZER: PyTorch knows none.
TEST(Iterations, ARankStepsOnceBehindAllElse) {
  const auto fault_of = [](const std::vector<std::string>& rows) {
    const int ranks = static_cast<int>(rows.size());
    Schedule schedule{"s", 1, Placement::loop(ranks, 1), {}};
    for (const std::string& row : rows) {
      schedule.actions.add_rank();
      std::istringstream words(row);
      for (std::string word; words >> word;) schedule.actions.add(parse_action(word).value());
    }
    const auto fault = find_fault(schedule);
    return fault ? fmt::format("{}: {}", fault->index, fault->rule) : "";
  };
  EXPECT_EQ(fault_of({"0F0 0B0 0REDUCE_TIED 0GRAD_NORM 0OPTIMIZER"}), "");
  EXPECT_EQ(fault_of({"0F0 0B0 0OPTIMIZER 0OPTIMIZER"}),
            "3: 0OPTIMIZER is its rank's second; there is one per iteration");
  EXPECT_EQ(fault_of({"0F0 0B0 0GRAD_NORM 0GRAD_NORM"}),
            "3: 0GRAD_NORM is its rank's second; there is one per iteration");
  EXPECT_EQ(fault_of({"0F0 0OPTIMIZER 0B0"}),
            "2: 0B0 makes gradients after 0OPTIMIZER, which needs them");
  EXPECT_EQ(fault_of({"0F0 0GRAD_NORM 0B0"}),
            "2: 0B0 makes gradients after 0GRAD_NORM, which needs them");
  EXPECT_EQ(fault_of({"0F0 0B0 0OPTIMIZER 0GRAD_NORM"}),
            "3: 0GRAD_NORM comes after 0OPTIMIZER, which ends its rank's iteration");
  EXPECT_EQ(fault_of({"0F0 0B0 0GRAD_NORM 0REDUCE_GRAD"}),
            "3: 0REDUCE_GRAD comes after 0GRAD_NORM, which ends its rank's iteration");
  EXPECT_EQ(
      fault_of({"0F0 0SEND_F0 0RECV_B0 0B0 0GRAD_NORM", "1RECV_F0 1F0 1B0 1GRAD_NORM 1SEND_B0"}),
      "4: 1SEND_B0 comes after 1GRAD_NORM, which ends its rank's iteration");
  EXPECT_EQ(fault_of({"0F0 0B0 0GRAD_NORM", "1F0 1B0"}),
            "2: 0GRAD_NORM waits for rank 1, which has no GRAD_NORM");
  EXPECT_EQ(fault_of({"0F0 0B0 0REDUCE_TIED", "1F0 1B0", "2F0 2B0 2REDUCE_TIED"}), "");
  EXPECT_EQ(fault_of({"0F0 0B0", "1F0 1B0 1REDUCE_TIED", "2F0 2B0"}),
            "2: 1REDUCE_TIED shares no matrix: only the first and the last stage do");
}

// What a list has stays where it is, and what it lacks comes before what must follow it.
TEST(Iterations, ListsGetTheEndsTheyLack) {
  const Closing everything{true, true, true, true};
  const auto closed = [&](const std::string& row, const Closing& closing) {
    std::vector<Action> list;
    std::istringstream words(row);
    for (std::string word; words >> word;) list.push_back(parse_action(word).value());
    std::string text;
    for (const Action& action : with_closing(list, 0, Placement::loop(2, 2), closing)) {
      text += (text.empty() ? "" : " ") + to_text(action);
    }
    return text;
  };
  EXPECT_EQ(closed("0B0 2B0", everything),
            "0B0 2B0 0REDUCE_GRAD 2REDUCE_GRAD 0REDUCE_TIED 0GRAD_NORM 0OPTIMIZER");
  EXPECT_EQ(closed("2B0 2REDUCE_GRAD 0B0 0OPTIMIZER 2RESHARD", everything),
            "2B0 2REDUCE_GRAD 0B0 0REDUCE_GRAD 0REDUCE_TIED 0GRAD_NORM 0OPTIMIZER 2RESHARD");
  EXPECT_EQ(closed("0B0 2B0 2GRAD_NORM", everything),
            "0B0 2B0 0REDUCE_GRAD 2REDUCE_GRAD 0REDUCE_TIED 2GRAD_NORM 0OPTIMIZER");
  EXPECT_EQ(closed("0B0 2B0 0REDUCE_TIED", {.steps = true}), "0B0 2B0 0REDUCE_TIED 0OPTIMIZER");
  EXPECT_EQ(closed("0B0 2B0", {}), "0B0 2B0");
}

TEST(Iterations, UnrollRefusesWhatCannotBeNumbered) {
  const Schedule schedule = generate({"1f1b", 2, 1000});
  EXPECT_EQ(
      testing::error_of([&] { unroll(schedule, 1'000'000'000); }),
      "1,000,000,000 iterations of 1,000 microbatches are more than 999,999,999 microbatches; "
      "use fewer");
}

}  // namespace
}  // namespace pipesim
