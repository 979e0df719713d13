// The parts of a critical path: never negative, and together the makespan, of predictions and of
// recorded runs whose clocks disagree.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "sim/compare/comparison.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/csv.h"
#include "tests/families.h"
#include "tests/files.h"
#include "tests/replicas.h"
#include "tests/thorough.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using testing::pick;

int cases(int usual) { return testing::is_thorough() ? 20 * usual : usual; }

template <typename Path>
void expect_parts(const Path& path, std::int64_t makespan_ns) {
  EXPECT_GE(path.compute_ns, 0);
  EXPECT_GE(path.p2p_ns, 0);
  EXPECT_GE(path.other_ns, 0);
  EXPECT_EQ(path.compute_ns + path.p2p_ns + path.other_ns, makespan_ns);
}

template <typename Enum>
Enum any_of_first(std::mt19937_64& random, int count) {
  return static_cast<Enum>(pick(random, 0, count - 1));
}

// A random prediction of a family: replicas with or without, in any mode, of several iterations.
testing::ReplicaCase random_training(std::mt19937_64& random, const Family& family) {
  testing::ReplicaCase made;
  for (;;) {
    const std::vector<int> chunks = testing::chunk_counts(family);
    ScheduleRequest request{std::string(family.name), static_cast<int>(pick(random, 1, 4)),
                            static_cast<int>(pick(random, 1, 8))};
    request.chunks = chunks[static_cast<std::size_t>(pick(random, 0, std::ssize(chunks) - 1))];
    try {
      made.schedule = generate(request);
      break;
    } catch (const Error&) {
      continue;  // the family has no such shape
    }
  }
  made.costs = testing::random_costs(random, made.schedule);
  // A trace cannot tell the exchanges of two copies of a stage apart.
  if (made.schedule.placement.copies() == 1 && pick(random, 0, 3) > 0) {
    const ReplicaSharding sharding{any_of_first<ReplicaSharding::Reduce>(random, 4),
                                   any_of_first<ReplicaSharding::Gather>(random, 4),
                                   static_cast<int>(pick(random, 1, 3))};
    const Schedule compute = made.schedule;
    made.schedule = shard(compute, sharding);
    made.costs = testing::random_collectives(random, compute, made.costs);
  }
  testing::add_messages(made.costs, random);
  made.costs.check(made.schedule.placement, made.schedule.microbatches, "costs");
  made.options.transfers = {any_of_first<P2p>(random, 4), pick(random, 0, 60)};
  made.options.iterations = static_cast<int>(pick(random, 1, 3));
  made.options.accumulation = {static_cast<int>(pick(random, 1, 3)), pick(random, 0, 1) == 0,
                               pick(random, 0, 1) == 0};
  return made;
}

// Nothing where it deadlocks.
std::optional<RecordedRun> recorded_of(const testing::ReplicaCase& made) {
  try {
    return record_run(made.schedule, made.costs, made.options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

RecordedRun read_back(const RecordedRun& run) {
  const testing::TemporaryFolder folder;
  OutputFile file(folder / "t.json");
  write_chrome_trace(run, file);
  file.commit();
  return read_run({folder / "t.json"});
}

void expect_parts_of(const RecordedRun& run) {
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    const Metrics metrics = run.metrics(i);
    EXPECT_EQ(metrics.makespan_ns, run.iterations[i].makespan_ns);
    expect_parts(metrics.critical_path, metrics.makespan_ns);
    for (const RankMetrics& rank : metrics.ranks) {
      EXPECT_EQ(rank.busy_ns + rank.bubble.total_ns(), metrics.makespan_ns);
      for (const std::int64_t part : rank.bubble.by_kind()) EXPECT_GE(part, 0);
    }
  }
}

// By rank. Times of a trace are not negative.
void shift_clocks(RecordedRun& run, const std::vector<std::int64_t>& ahead_ns) {
  const std::int64_t least = std::ranges::min(ahead_ns);
  for (Span& span : run.spans) {
    const std::int64_t ahead = ahead_ns[static_cast<std::size_t>(span.rank)] - least;
    if (is_collective(span.action)) span.input_arrival_ns += ahead;
    span.start_ns += ahead;
    span.end_ns += ahead;
  }
}

TEST(CriticalPath, OfPredictionsHasNoNegativePart) {
  std::mt19937_64 random(54);
  for (int i = 0; i < cases(700); ++i) {
    const std::vector<Family>& all = all_families();
    const testing::ReplicaCase made =
        i % 3 == 0 ? testing::random_replicas(random)
                   : random_training(random, all[static_cast<std::size_t>(i) % all.size()]);
    SCOPED_TRACE(std::to_string(i) + " " + std::string(p2p_name(made.options.transfers.mode)) +
                 "\n" + to_csv(made.schedule) + to_json(made.costs));
    Metrics metrics;
    try {
      metrics = simulate(made.schedule, made.costs, made.options);
    } catch (const Error&) {
      continue;  // a deadlock
    }
    expect_parts(metrics.critical_path, metrics.makespan_ns);
    if (HasFailure()) break;
  }
}

TEST(CriticalPath, OfRunsWhoseClocksDisagreeHasNoNegativePart) {
  std::mt19937_64 random(55);
  constexpr std::int64_t smallest_ns = 500'000;
  constexpr std::int64_t largest_ns = 1'000'000'000'000;
  int corrected = 0;
  for (int i = 0; i < cases(80); ++i) {
    const std::vector<Family>& all = all_families();
    const testing::ReplicaCase made =
        random_training(random, all[static_cast<std::size_t>(i) % all.size()]);
    std::optional<RecordedRun> recorded = recorded_of(made);
    if (!recorded) continue;
    RecordedRun& run = *recorded;
    std::vector<std::int64_t> ahead_ns(static_cast<std::size_t>(run.ranks));
    const auto amount = [&] {
      const std::int64_t most = std::min(largest_ns, smallest_ns << pick(random, 0, 21));
      return pick(random, smallest_ns, most) * (pick(random, 0, 1) == 0 ? 1 : -1);
    };
    ahead_ns[static_cast<std::size_t>(pick(random, 0, run.ranks - 1))] = amount();
    for (std::int64_t& ahead : ahead_ns) {
      if (pick(random, 0, 3) == 0) ahead = amount();
    }
    SCOPED_TRACE(std::to_string(i) + "\n" + to_csv(made.schedule) + to_json(made.costs));
    const RecordedRun right = read_back(run);
    EXPECT_TRUE(right.about.clocks.empty());
    shift_clocks(run, ahead_ns);
    const RecordedRun read = read_back(run);
    expect_parts_of(read);
    for (const auto& [one, other] : {std::pair(&right, &read), std::pair(&read, &right)}) {
      const Comparison comparison = compare(*one, *other);
      for (const SideResult& side : comparison.sides) {
        SCOPED_TRACE("compared");
        expect_parts(side.critical_path, side.played.makespan_ns);
      }
    }
    // A clock that is off by more than an iteration is found, and put back by that.
    const bool is_off = std::ranges::max(ahead_ns) - std::ranges::min(ahead_ns) > 0;
    if (is_off && !read.about.clocks.empty()) {
      ++corrected;
      ASSERT_EQ(read.warnings.kinds().size(), 1U) << read.warnings.text();
      EXPECT_NE(read.warnings.kinds().front().what.find("clocks are shifted by up to"),
                std::string::npos);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(corrected, cases(80) / 2);
}

// What is right stays as it is, to the nanosecond.
TEST(CriticalPath, CorrectClocksAreNotShifted) {
  std::mt19937_64 random(56);
  for (int i = 0; i < cases(100); ++i) {
    const std::vector<Family>& all = all_families();
    const testing::ReplicaCase made =
        random_training(random, all[static_cast<std::size_t>(i) % all.size()]);
    std::optional<RecordedRun> recorded = recorded_of(made);
    if (!recorded) continue;
    RecordedRun& run = *recorded;
    SCOPED_TRACE(std::to_string(i) + "\n" + to_csv(made.schedule) + to_json(made.costs));
    const RecordedRun read = read_back(run);
    EXPECT_TRUE(read.warnings.empty()) << read.warnings.text();
    ASSERT_EQ(read.spans.size(), run.spans.size());
    for (std::size_t s = 0; s < run.spans.size(); ++s) {
      const auto told = [](const Span& span) {
        return std::tuple(span.rank, span.iteration, span.start_ns, span.end_ns);
      };
      EXPECT_EQ(read.spans[s].action, run.spans[s].action);
      EXPECT_EQ(told(read.spans[s]), told(run.spans[s]));
    }
    expect_parts_of(read);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace pipesim
