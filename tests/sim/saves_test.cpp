// Checkpoints in the predicted timeline, against an interpreter that goes nanosecond by
// nanosecond and shares a storage out in fractions, and against closed forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "sim/engine/record_run.h"
#include "sim/engine/save_effect.h"
#include "sim/engine/simulate.h"
#include "sim/flags/schedule_choice.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::costs_of;
using testing::pick;

__extension__ using Wide = __int128;

// A number without rounding; its denominators are small.
struct Fraction {
  Wide above = 0;
  Wide below = 1;

  Fraction reduced() const {
    Wide a = above < 0 ? -above : above;
    Wide b = below;
    while (b != 0) a = std::exchange(b, a % b);
    return a == 0 ? Fraction{0, 1} : Fraction{above / a, below / a};
  }
  Fraction operator-(const Fraction& other) const {
    return Fraction{above * other.below - other.above * below, below * other.below}.reduced();
  }
  Fraction times(std::int64_t n) const { return Fraction{above * n, below}.reduced(); }
  Fraction over(std::int64_t n) const { return Fraction{above, below * n}.reduced(); }
  bool operator<(const Fraction& other) const { return above * other.below < other.above * below; }
};

// (iteration, rank, stage, kind, microbatch, whether it is a write beside) -> start and end.
using TimesWithSaves =
    std::map<std::tuple<int, int, int, Kind, int, bool>, std::pair<std::int64_t, std::int64_t>>;

struct SaveCase {
  Schedule schedule;
  Costs costs;
  int iterations = 1;
  int passes = 1;
  Saves saves;
};

// Tick by tick: what a rank can begin it begins, then a nanosecond passes for all.
class Interpreter {
 public:
  explicit Interpreter(const SaveCase& given) : given_(given) {
    const int ranks = given.schedule.ranks();
    ranks_.resize(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      for (int i = 0; i < given.iterations; ++i) add_items(r, i);
    }
    ends_ns_.assign(static_cast<std::size_t>(given.iterations), 0);
  }

  void run() {
    for (; !is_over(); pass()) {
      for (bool moved = true; moved;) {
        moved = settle_writes();
        for (int r = 0; r < std::ssize(ranks_); ++r) moved = step(r) || moved;
      }
    }
  }

  TimesWithSaves times;
  const std::vector<std::int64_t>& ends_ns() const { return ends_ns_; }

 private:
  struct Item {
    int iteration = 0;
    std::vector<Action> cell;
    bool is_save = false;
    int save = 0;
  };
  struct Rank {
    std::vector<Item> items;
    std::size_t next = 0;
    bool busy = false;       // with the item, or in it
    std::int64_t start = 0;  // of the item
    std::int64_t until = 0;  // of what goes on in it
    bool copies = false;     // an asynchronous save: it has begun to
    int through = 0;         // checkpoints that it is through with
    int saves = 0;
  };
  struct Write {
    int rank;
    int save;
    int iteration;
    std::int64_t start;
    Fraction left;
    bool done = false;
  };

  void add_items(int r, int iteration) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const bool steps = (iteration + 1) % given_.passes == 0 || iteration + 1 == given_.iterations;
    Item item{iteration, {}, false, 0};
    for (const Action& action : given_.schedule.actions[r]) {
      if (action.kind == Kind::IDLE) continue;
      item.cell.push_back(action);
      if (action.joined) continue;
      rank.items.push_back(item);
      item.cell.clear();
    }
    const int stage = given_.schedule.placement.stages_of(r).front();
    if (steps && !given_.costs.optimizer_ns.empty()) {
      rank.items.push_back({iteration, {make_action(stage, Kind::OPTIMIZER)}, false, 0});
    }
    if ((iteration + 1) % given_.saves.every != 0) return;
    rank.items.push_back({iteration, {make_action(stage, Kind::SAVE)}, true, rank.saves++});
  }

  bool is_over() const {
    return std::ranges::all_of(ranks_, [](const Rank& r) { return r.next == r.items.size(); }) &&
           std::ranges::all_of(writes_, &Write::done) && publishing_.empty();
  }

  std::int64_t duration_of(int r, const Item& item) const {
    if (item.cell[0].kind == Kind::OPTIMIZER) {
      return given_.costs.optimizer_ns[static_cast<std::size_t>(r)];
    }
    std::int64_t sum = 0;
    for (const Action& a : item.cell) {
      const StageCosts& stage = given_.costs.stages[static_cast<std::size_t>(a.stage)];
      if (a.kind == Kind::F) sum += stage.forward_ns;
      if (a.kind != Kind::F && a.kind != Kind::W) sum += stage.backward_input_ns;
      if (a.kind == Kind::W || a.kind == Kind::B) sum += stage.backward_weight_ns;
    }
    const auto& overlap =
        given_.costs.stages[static_cast<std::size_t>(item.cell[0].stage)].overlap_ns;
    return item.cell.size() == 2 && overlap ? *overlap : sum;
  }

  bool is_ready(const Item& item) const {
    for (const Action& a : item.cell) {
      if (a.kind == Kind::W || a.kind == Kind::OPTIMIZER) continue;
      if (a.kind == Kind::F ? a.stage == 0 : a.stage + 1 == given_.schedule.stages()) continue;
      const auto found = arrivals_.find({item.iteration, a.stage, a.kind == Kind::F, a.microbatch});
      if (found == arrivals_.end() || found->second > now_) return false;
    }
    return true;
  }

  // Whether anything happened on the rank at this instant.
  bool step(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.next == rank.items.size()) return false;
    const Item& item = rank.items[rank.next];
    if (item.is_save) return step_save(r, rank, item);
    if (!rank.busy) {
      if (!is_ready(item)) return false;
      rank.busy = true;
      rank.start = now_;
      rank.until = now_ + duration_of(r, item);
      return true;
    }
    if (rank.until > now_) return false;
    for (const Action& a : item.cell) {
      times[{item.iteration, r, a.stage, a.kind, a.microbatch, false}] = {rank.start, now_};
      const int to = a.kind == Kind::F ? a.stage + 1 : a.stage - 1;
      if (!is_compute(a.kind) || a.kind == Kind::W || to < 0 || to == given_.schedule.stages()) {
        continue;
      }
      const int receiver = given_.schedule.placement.rank_of(to);
      arrivals_[{item.iteration, to, a.kind == Kind::F, a.microbatch}] =
          now_ + (receiver == r ? 0 : given_.costs.link(r, receiver).latency_ns);
    }
    go_on(rank, item);
    return true;
  }

  void go_on(Rank& rank, const Item& item) {
    std::int64_t& end = ends_ns_[static_cast<std::size_t>(item.iteration)];
    end = std::max(end, now_);
    rank.busy = rank.copies = false;
    ++rank.next;
  }

  bool step_save(int r, Rank& rank, const Item& item) {
    const SaveCosts& save = *given_.costs.save;
    const std::int64_t bytes = save.bytes[static_cast<std::size_t>(r)];
    const auto end = [&] {
      times[{item.iteration, r, item.cell[0].stage, Kind::SAVE, no_microbatch, false}] = {
          rank.start, now_};
      go_on(rank, item);
    };
    if (!rank.busy) {
      rank.busy = true;
      rank.start = now_;
      if (!given_.saves.beside) write(r, item);
      return true;
    }
    if (!given_.saves.beside) {
      if (rank.through <= item.save) return false;
      end();
      return true;
    }
    if (!rank.copies) {
      if (rank.through < item.save) return false;
      rank.copies = true;
      const std::int64_t rate = save.copy_bytes_per_second.value_or(0);
      rank.until = now_ + (rate == 0 ? 0 : (bytes * 1'000'000'000 + rate - 1) / rate);
      return true;
    }
    if (rank.until > now_) return false;
    write(r, item);
    end();
    return true;
  }

  void write(int r, const Item& item) {
    const SaveCosts& save = *given_.costs.save;
    const std::int64_t bytes = save.bytes[static_cast<std::size_t>(r)];
    std::int64_t ns = save.sync_ns;
    if (const auto rate = save.bytes_per_second) ns += (bytes * 1'000'000'000 + *rate - 1) / *rate;
    writes_.push_back({r, item.save, item.iteration, now_, Fraction{save.writers * ns, 1}});
  }

  // Writes that are done, and what was published. Whether there was any.
  bool settle_writes() {
    bool moved = false;
    for (std::size_t i = 0; i < writes_.size(); ++i) {
      Write& own = writes_[i];
      if (own.done || Fraction{0, 1} < own.left) continue;
      own.done = moved = true;
      const auto is_part = [&](const Write& other) { return other.save == own.save && other.done; };
      if (own.rank != 0) end_of(own);
      if (std::ranges::count_if(writes_, is_part) == std::ssize(ranks_)) {
        publishing_[own.save] = now_ + given_.costs.save->publish_ns;
      }
    }
    for (auto at = publishing_.begin(); at != publishing_.end();) {
      if (at->second > now_) {
        ++at;
        continue;
      }
      const int save = at->first;
      const auto own = std::ranges::find_if(
          writes_, [&](const Write& one) { return one.save == save && one.rank == 0; });
      end_of(*own);
      at = publishing_.erase(at);
      moved = true;
    }
    return moved;
  }

  void end_of(const Write& write) {
    ranks_[static_cast<std::size_t>(write.rank)].through = write.save + 1;
    if (!given_.saves.beside) return;
    const int stage = given_.schedule.placement.stages_of(write.rank).front();
    times[{write.iteration, write.rank, stage, Kind::SAVE, no_microbatch, true}] = {write.start,
                                                                                    now_};
  }

  // A nanosecond, in which writes share the storage.
  void pass() {
    Fraction rest{1, 1};
    for (;;) {
      std::vector<Write*> active;
      for (Write& one : writes_) {
        if (!one.done && Fraction{0, 1} < one.left) active.push_back(&one);
      }
      if (active.empty() || !(Fraction{0, 1} < rest)) break;
      const auto n = std::ssize(active);
      Fraction least = active.front()->left;
      for (const Write* one : active) {
        if (one->left < least) least = one->left;
      }
      const Fraction step = least.times(n) < rest ? least.times(n) : rest;
      for (Write* one : active) one->left = one->left - step.over(n);
      rest = rest - step;
    }
    ++now_;
  }

  const SaveCase& given_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, bool, int>, std::int64_t> arrivals_;
  std::vector<Write> writes_;
  std::map<int, std::int64_t> publishing_;  // of a checkpoint: until when
  std::vector<std::int64_t> ends_ns_;
  std::int64_t now_ = 0;
};

SimulationOptions options_of(const SaveCase& given) {
  SimulationOptions options;
  options.iterations = given.iterations;
  options.accumulation.passes = given.passes;
  options.saves = given.saves;
  return options;
}

SaveCase random_case(std::mt19937_64& random) {
  SaveCase one;
  one.schedule = testing::random_schedule(random);
  one.costs = testing::without_bytes(testing::random_costs(random, one.schedule));
  one.costs.reduce_gradients_ns.clear();
  one.costs.tied_gradients = one.costs.gradient_norm = std::nullopt;
  one.iterations = static_cast<int>(pick(random, 1, 6));
  one.passes = static_cast<int>(pick(random, 1, 2));
  one.saves = {static_cast<int>(pick(random, 1, 3)), pick(random, 0, 1) == 1};
  SaveCosts& save = one.costs.save.emplace();
  const std::int64_t most = pick(random, 0, 1) == 0 ? 6 : 700;
  for (int r = 0; r < one.schedule.ranks(); ++r) save.bytes.push_back(pick(random, 0, most));
  save.writers = pick(random, 1, 3);
  if (pick(random, 0, 5) > 0) save.bytes_per_second = pick(random, 300'000'000, 3'000'000'000);
  save.sync_ns = pick(random, 0, 1) * pick(random, 0, most);
  save.publish_ns = pick(random, 0, 1) * pick(random, 0, most);
  if (pick(random, 0, 2) > 0)
    save.copy_bytes_per_second = pick(random, 1'000'000'000, 9'000'000'000);
  return one;
}

TimesWithSaves times_with_saves(const SaveCase& given, Metrics& metrics) {
  TimesWithSaves times;
  SimulationOptions options = options_of(given);
  options.sink = [&](const Span& span) {
    const Action& a = span.action;
    if (is_transfer(a.kind)) return;
    if (a.kind == Kind::SAVE) {
      EXPECT_EQ(span.bytes, given.costs.save->bytes[static_cast<std::size_t>(span.rank)]);
    }
    const bool is_new = times
                            .emplace(std::tuple(span.iteration, span.rank, a.stage, a.kind,
                                                a.microbatch, is_save_beside(a)),
                                     std::pair(span.start_ns, span.end_ns))
                            .second;
    EXPECT_TRUE(is_new) << to_text(a) << " twice in iteration " << span.iteration;
  };
  metrics = simulate(given.schedule, given.costs, options);
  return times;
}

TEST(Saves, EqualAnInterpreterThatGoesTickByTick) {
  std::mt19937_64 random(71);
  int saved = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const SaveCase given = random_case(random);
    Interpreter truth(given);
    truth.run();
    Metrics metrics;
    EXPECT_EQ(times_with_saves(given, metrics), truth.times);
    EXPECT_EQ(metrics.iteration_ends_ns, truth.ends_ns());
    for (const auto& [key, time] : truth.times) saved += std::get<3>(key) == Kind::SAVE ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(saved, 500);
}

// The rest of an iteration is as it is without, a SAVE is closing work, and no bubble.
TEST(Saves, AreClosingWorkOfTheirIteration) {
  std::mt19937_64 random(72);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    SaveCase given = random_case(random);
    given.iterations = given.passes = given.saves.every = 1;
    const Metrics with = simulate(given.schedule, given.costs, options_of(given));
    given.saves = {};
    const Metrics without = simulate(given.schedule, given.costs, options_of(given));
    for (std::size_t r = 0; r < with.ranks.size(); ++r) {
      const RankMetrics& own = with.ranks[r];
      const std::int64_t saved = own.closing.of(Kind::SAVE);
      EXPECT_EQ(own.busy_ns, without.ranks[r].busy_ns + saved);
      EXPECT_EQ(own.last_end_ns, without.ranks[r].last_end_ns + saved);
      EXPECT_EQ(own.bubble.total_ns() + own.busy_ns, with.makespan_ns);
      EXPECT_EQ(own.bubble.warmup_ns, without.ranks[r].bubble.warmup_ns);
      EXPECT_EQ(own.bubble.steady_ns, without.ranks[r].bubble.steady_ns);
      EXPECT_EQ(own.bubble.p2p_ns, without.ranks[r].bubble.p2p_ns);
    }
  }
}

// A recorded run has the metrics of the simulation, writes beside and all.
TEST(Saves, RecordedHaveTheSameMetrics) {
  std::mt19937_64 random(73);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const SaveCase given = random_case(random);
    const RecordedRun run = record_run(given.schedule, given.costs, options_of(given));
    const Metrics metrics = simulate(given.schedule, given.costs, options_of(given));
    EXPECT_EQ(run.about.saves, given.saves);
    const Metrics first = run.metrics(0);
    EXPECT_EQ(first.makespan_ns, metrics.makespan_ns);
    for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
      EXPECT_EQ(first.ranks[r].busy_ns, metrics.ranks[r].busy_ns);
      EXPECT_EQ(first.ranks[r].bubble.by_kind(), metrics.ranks[r].bubble.by_kind());
      EXPECT_EQ(first.ranks[r].closing.of(Kind::SAVE), metrics.ranks[r].closing.of(Kind::SAVE));
    }
  }
}

TEST(Saves, ShareTheStorage) {
  SaveCosts costs{.bytes = {1000, 3000}, .bytes_per_second = 1'000'000'000};
  using Ends = std::vector<std::int64_t>;
  // 1000 ns alone; together half as fast until the shorter ends.
  EXPECT_EQ(written_ns(costs, Ends{0, 0}), (Ends{2000, 4000}));
  EXPECT_EQ(written_ns(costs, Ends{500, 500}), (Ends{2500, 4500}));
  EXPECT_EQ(written_ns(costs, Ends{0, 400}), (Ends{1600, 4000}));
  EXPECT_EQ(written_ns(costs, Ends{3000, 0}), (Ends{4000, 3000}));
  // Syncs are time of the storage, too.
  costs.sync_ns = 100;
  EXPECT_EQ(written_ns(costs, Ends{0, 0}), (Ends{2200, 4200}));
  // Rank 0 publishes once all have written; others don't wait for that.
  costs.publish_ns = 7;
  EXPECT_EQ(save_ends_ns(costs, Ends{0, 0}), (Ends{4207, 4200}));
  // Two devices a rank write twice as much.
  costs.writers = 2;
  EXPECT_EQ(save_ends_ns(costs, Ends{0, 0}), (Ends{8407, 8400}));
  costs.bytes_per_second.reset();
  EXPECT_EQ(written_ns(costs, Ends{0, 0}), (Ends{400, 400}));
  // Ends within a nanosecond are rounded up.
  const SaveCosts thirds{.bytes = {1, 1, 2}, .bytes_per_second = 3'000'000'000};
  EXPECT_EQ(written_ns(thirds, Ends{0, 0, 0}), (Ends{3, 3, 3}));
}

// The closed function and the event engine are the same.
TEST(Saves, EndAsTheFunctionSays) {
  std::mt19937_64 random(74);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    SaveCase given = random_case(random);
    given.iterations = given.passes = 1;
    given.saves = {1, false};
    const auto ranks = static_cast<std::size_t>(given.schedule.ranks());
    std::vector<std::int64_t> starts(ranks), ends(ranks);
    SimulationOptions options = options_of(given);
    options.sink = [&](const Span& span) {
      if (span.action.kind != Kind::SAVE) return;
      starts[static_cast<std::size_t>(span.rank)] = span.start_ns;
      ends[static_cast<std::size_t>(span.rank)] = span.end_ns;
    };
    simulate(given.schedule, given.costs, options);
    EXPECT_EQ(save_ends_ns(*given.costs.save, starts), ends);
  }
}

ScheduleChoice one_f_one_b(int ranks, int microbatches) {
  ScheduleRequest request{.name = "1f1b", .ranks = ranks, .microbatches = microbatches};
  return choose_schedule(request);
}

// The mean of many periods, by simulating all of them.
double mean_iteration_ns(const Schedule& schedule, const Costs& costs, SimulationOptions options,
                         int periods) {
  const int period = options.saves.every;
  options.iterations = period * (periods + 4);
  const auto ends = simulate(schedule, costs, options).iteration_ends_ns;
  const auto at = [&](int i) { return static_cast<double>(ends[static_cast<std::size_t>(i - 1)]); };
  return (at(period * (periods + 4)) - at(period * 4)) / (period * periods);
}

TEST(Saves, AddWhatManyIterationsTakeMore) {
  const ScheduleChoice choice = one_f_one_b(3, 5);
  Costs costs = costs_of(3, 1000, 2000, 100);
  costs.optimizer_ns = {300, 300, 300};
  SaveCosts& save = costs.save.emplace();
  save.bytes = {4000, 5000, 6000};
  save.bytes_per_second = 1'000'000'000;
  save.sync_ns = 200;
  save.publish_ns = 50;
  save.copy_bytes_per_second = 20'000'000'000;
  for (const bool beside : {false, true}) {
    for (const int passes : {1, 2}) {
      for (const int every : {passes, 2 * passes, 3 * passes, 7 * passes}) {
        SCOPED_TRACE(::testing::PrintToString(std::tuple(beside, every, passes)));
        SimulationOptions options;
        options.saves = {every, beside};
        options.accumulation.passes = passes;
        const SaveEffect effect = save_effect(choice.schedule, costs, options);
        EXPECT_NEAR(static_cast<double>(effect.mean_iteration_ns),
                    mean_iteration_ns(choice.schedule, costs, options, 6), 1.0);
        EXPECT_TRUE(effect.keeps_up);
        EXPECT_EQ(effect.bytes, 15000);
      }
    }
  }
}

TEST(Saves, WaitForEachOtherWhereStorageIsSlow) {
  const ScheduleChoice choice = one_f_one_b(2, 3);
  Costs costs = costs_of(2, 1000, 2000);
  SaveCosts& save = costs.save.emplace();
  save.bytes = {50'000, 50'000};
  save.bytes_per_second = 1'000'000'000;
  SimulationOptions options;
  options.saves = {3, true};  // 36 us of compute, 100 us of writing
  const SaveEffect effect = save_effect(choice.schedule, costs, options);
  EXPECT_FALSE(effect.keeps_up);
  // The storage never rests.
  EXPECT_NEAR(static_cast<double>(effect.mean_iteration_ns), 100'000.0 / 3, 1.0);
  EXPECT_NEAR(mean_iteration_ns(choice.schedule, costs, options, 6), 100'000.0 / 3, 1.0);
  options.saves.every = 100;
  EXPECT_TRUE(save_effect(choice.schedule, costs, options).keeps_up);
  EXPECT_EQ(save_effect(choice.schedule, costs, options).stall_ns, 0);
}

TEST(Saves, FollowFromStatesAndParameters) {
  const Placement placement = Placement::loop(2, 1);
  Costs costs = costs_of(2, 1, 2);
  costs.stages[0].weight_bytes = 40;
  costs.stages[0].optimizer_bytes = 80;
  costs.stages[1].parameters = {5, 6};
  costs.save.emplace();
  fill_save_bytes(placement, {}, 1, 1, costs);
  EXPECT_EQ(costs.save->bytes, (std::vector<std::int64_t>{120, 132}));
  // Said once, it stays.
  fill_save_bytes(placement, {}, 2, 1, costs);
  EXPECT_EQ(costs.save->bytes, (std::vector<std::int64_t>{120, 132}));
  costs.save->bytes.clear();
  // Each of seven replicas writes a seventh, rounded up, and so does each tensor-parallel rank.
  fill_save_bytes(placement, {10, 20}, 7, 2, costs);
  EXPECT_EQ(costs.save->bytes, (std::vector<std::int64_t>{18, 35}));
  EXPECT_EQ(costs.save->writers, 14);
  EXPECT_EQ(costs.save->total_bytes(), 14 * 53);
}

TEST(Saves, AreCheckedAgainstTheSchedule) {
  const Placement placement = Placement::loop(2, 1);
  Costs costs = costs_of(2, 1, 2);
  SaveCosts& save = costs.save.emplace();
  const auto fails = [&] {
    return testing::input_error_of([&] { costs.check(placement, 1, "c.json"); });
  };
  EXPECT_EQ(fails(), testing::no_error);
  save.bytes = {1};
  EXPECT_EQ(fails(), "c.json: save.bytes has 1 entry but the schedule has 2 ranks");
  save.bytes = {1'000'000'000'000'000, 1'000'000'000'000'000};
  save.bytes_per_second = 1;
  EXPECT_EQ(fails(),
            "c.json: the times of all actions together exceed what 64 bits hold; use smaller costs "
            "or fewer microbatches");
}

}  // namespace
}  // namespace pipesim
