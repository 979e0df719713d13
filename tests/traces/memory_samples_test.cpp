// What ranks hold, as counters tell it: in any order, as often as they like.
#include "traces/memory_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>
#include <vector>

#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/base/gathering.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::pick;

auto values(const MemorySample& one) {
  return std::tuple(one.rank, one.time_ns, one.states.weights, one.states.gradients,
                    one.states.optimizer, one.working.activations, one.working.residue,
                    one.working.send_buffers, one.working.receive_buffers, one.chunks);
}

template <typename Samples>
auto all(const Samples& samples) {
  std::vector<decltype(values({}))> list;
  for (const MemorySample& sample : samples) list.push_back(values(sample));
  return list;
}

MemorySample random_sample(std::mt19937_64& random, std::int64_t most) {
  MemorySample sample;
  sample.rank = static_cast<std::int32_t>(pick(random, -1, 4));
  sample.time_ns = pick(random, 0, 50);
  sample.states = {pick(random, 0, most), 0, pick(random, 0, 1)};
  sample.working = {pick(random, 0, most), 0, pick(random, 0, 1), 0};
  sample.chunks = pick(random, 0, most);
  return sample;
}

TEST(MemorySamples, AreAListOfThem) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t most = round % 2 == 0 ? 2 : std::int64_t{1} << 50;
    std::vector<MemorySample> expected;
    MemorySamples samples;
    for (std::int64_t i = pick(random, 0, 500); i > 0; --i) {
      expected.push_back(random_sample(random, most));
      samples.push_back(expected.back());
    }
    ASSERT_EQ(all(samples), all(expected));
    EXPECT_EQ(samples.empty(), expected.empty());
    for (std::size_t i = 0; i < expected.size(); i += 7) {
      const std::int64_t time_ns = expected[i].time_ns;
      expected[i] = random_sample(random, most);
      expected[i].time_ns = time_ns;
      samples.replace(i, expected[i]);
      EXPECT_EQ(values(samples[i]), values(expected[i]));
    }
    MemorySamples twice = samples;
    twice.append(samples);
    std::vector<MemorySample> expected_twice = expected;
    expected_twice.insert(expected_twice.end(), expected.begin(), expected.end());
    EXPECT_EQ(all(twice), all(expected_twice));

    std::ranges::stable_sort(expected, {}, &MemorySample::time_ns);
    samples.sort_by_time();
    EXPECT_EQ(all(samples), all(expected));
    for (std::int64_t time = -1; time <= 51; ++time) {
      EXPECT_EQ(
          std::ranges::upper_bound(samples, time, {}, &MemorySample::time_ns) - samples.begin(),
          std::ranges::upper_bound(expected, time, {}, &MemorySample::time_ns) - expected.begin());
    }
    const auto dropped = std::erase_if(
        expected, [](const MemorySample& one) { return one.rank < 0 || one.rank >= 3; });
    EXPECT_EQ(samples.drop_other_ranks(3), dropped);
    EXPECT_EQ(all(samples), all(expected));
    samples.clear();
    EXPECT_TRUE(samples.empty());
  }
}

TEST(Gathering, KeepsAllInOrder) {
  for (const std::size_t size : {0U, 1U, 16U, 17U, 100'000U, 1'300'000U}) {
    Gathering<std::uint64_t> gathering;
    EXPECT_TRUE(gathering.empty());
    for (std::size_t i = 0; i < size; ++i) gathering.push_back(i * i);
    EXPECT_EQ(gathering.size(), size);
    const LargeVector<std::uint64_t> taken = gathering.take();
    ASSERT_EQ(taken.size(), size);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < size; ++i) wrong += taken[i] == i * i ? 0 : 1;
    EXPECT_EQ(wrong, 0U);
    EXPECT_TRUE(gathering.empty());
  }
}

// A trace of two ranks with one action each, and counters; ranks are pids less 1.
struct Said {
  int rank = 0;
  std::int64_t time_us = 0;
  std::int64_t chunks = -1;  // says nothing of them
  std::int64_t bytes = -1;   // of activations
};

std::string trace_saying(const std::vector<Said>& all_said) {
  Json trace;
  trace["metadata"]["pipesim"] = {{"format", "pipesim-trace"},
                                  {"version", 1},
                                  {"source", "measured"},
                                  {"rank_of_stage", {0, 1}},
                                  {"microbatches", 1}};
  trace["traceEvents"] = Json::array();
  for (const int rank : {0, 1}) {
    trace["traceEvents"].push_back(
        {{"ph", "X"},
         {"name", "F0"},
         {"pid", rank + 1},
         {"tid", 1},
         {"ts", 0},
         {"dur", 1},
         {"args",
          {{"kind", "F"}, {"stage", rank}, {"rank", rank}, {"iteration", 0}, {"microbatch", 0}}}});
  }
  for (const Said& said : all_said) {
    Json args = Json::object();
    if (said.chunks >= 0) args["chunks"] = said.chunks;
    if (said.bytes >= 0) args["activations"] = said.bytes;
    trace["traceEvents"].push_back({{"ph", "C"},
                                    {"name", "memory"},
                                    {"pid", said.rank + 1},
                                    {"ts", said.time_us},
                                    {"args", args}});
  }
  return trace.dump();
}

// What is said of an instant holds from then on, whoever says it first.
std::vector<MemorySample> expected_of(std::vector<Said> all_said) {
  std::ranges::stable_sort(all_said, {}, &Said::time_us);
  std::vector<MemorySample> samples;
  std::vector<MemorySample> now(2);
  std::vector<std::size_t> place(2);
  std::vector<bool> any(2, false);
  for (const Said& said : all_said) {
    if (said.chunks < 0 && said.bytes < 0) continue;
    const auto rank = static_cast<std::size_t>(said.rank);
    const bool goes_on = any[rank] && now[rank].time_ns == said.time_us * 1000;
    now[rank].rank = said.rank;
    now[rank].time_ns = said.time_us * 1000;
    if (!any[rank]) now[rank].chunks = -1;
    if (said.chunks >= 0) now[rank].chunks = said.chunks;
    if (said.bytes >= 0) now[rank].working.activations = said.bytes;
    if (!goes_on) {
      place[rank] = samples.size();
      samples.emplace_back();
      any[rank] = true;
    }
    samples[place[rank]] = now[rank];
  }
  for (MemorySample& sample : samples) sample.chunks = std::max<std::int64_t>(sample.chunks, 0);
  return samples;
}

TEST(MemorySamples, AreWhatCountersSayInAnyOrder) {
  std::mt19937_64 random(2);
  const testing::TemporaryFolder folder;
  for (int round = 0; round < 200; ++round) {
    std::vector<Said> all_said;
    for (std::int64_t i = pick(random, 1, 60); i > 0; --i) {
      all_said.push_back({static_cast<int>(pick(random, 0, 1)), pick(random, 0, 15),
                          pick(random, -1, 3), pick(random, -1, 3)});
    }
    if (round % 3 == 0) std::ranges::stable_sort(all_said, {}, &Said::time_us);
    write_file(folder / "t.json", trace_saying(all_said));
    ASSERT_EQ(all(read_run({folder / "t.json"}).samples), all(expected_of(all_said))) << round;
  }
}

}  // namespace
}  // namespace pipesim
