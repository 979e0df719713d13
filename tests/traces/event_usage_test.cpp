// What ranks of profiles without a pipeline did, against each instant looked at.
#include "traces/flame/event_usage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/events.h"
#include "tests/files.h"
#include "tests/profiles.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;

EventTrace read(const testing::Json& json) {
  const testing::TemporaryFolder folder;
  return read_event_trace(testing::write(folder, "trace.json", json));
}

TEST(EventUsage, OfADeviceByHand) {
  testing::Profile profile(3);
  profile.range("ProfilerStep#1", 0, 2000);          // the processor's does not count
  profile.kernel(10, 100, 50).kernel(20, 200, 100);  // stream 7: 100-150, 200-300
  profile.message(30, 140, 100);                     // stream 20: 140-240
  profile.event("gpu_memcpy", "Memcpy HtoD", 0, 8, 320, 80);
  profile.event("gpu_user_annotation", "forward", 0, 7, 50, 900);
  const std::vector<RankUsage> usage = rank_usage(read(profile.json()));
  ASSERT_EQ(usage.size(), 1U);
  EXPECT_EQ(usage[0].name, "rank 3");
  EXPECT_EQ(usage[0].span_ns, 300'000);
  EXPECT_EQ(usage[0].busy_ns, 230'000);
  EXPECT_EQ(usage[0].communication_ns(), 100'000);
  EXPECT_EQ(usage[0].hidden_ns, 50'000);
  EXPECT_EQ(usage[0].exposed_ns, 50'000);
  EXPECT_EQ(usage[0].idle_ns(), 20'000);
}

TEST(EventUsage, OfSeveralDevicesInAFile) {
  testing::Profile profile(3);
  profile.event("kernel", "gemm", 0, 7, 0, 10).event("kernel", "gemm", 1, 7, 0, 20);
  const std::vector<RankUsage> usage = rank_usage(read(profile.json()));
  ASSERT_EQ(usage.size(), 2U);
  EXPECT_EQ(usage[0].name, "rank 3, 0");
  EXPECT_EQ(usage[1].name, "rank 3, 1");
  EXPECT_EQ(usage[1].busy_ns, 20'000);
}

TEST(EventUsage, OfThreadsByHand) {
  testing::Profile profile(0);
  profile.json().erase("distributedInfo");
  profile.event("cpu_op", "aten::mm", 1, 1, 0, 100);
  profile.event("cpu_op", "c10d::recv_", 1, 1, 100, 200);
  profile.event("cpu_op", "aten::copy_", 1, 1, 150, 50);  // within the message
  profile.event("cpu_op", "aten::add", 1, 2, 250, 100);   // autograd's thread
  profile.event("Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", 0, 9000);
  const std::vector<RankUsage> usage = rank_usage(read(profile.json()));
  ASSERT_EQ(usage.size(), 1U);
  EXPECT_EQ(usage[0].name, "1");
  EXPECT_EQ(usage[0].span_ns, 350'000);
  EXPECT_EQ(usage[0].busy_ns, 200'000);
  EXPECT_EQ(usage[0].hidden_ns, 50'000);
  EXPECT_EQ(usage[0].exposed_ns, 150'000);
  EXPECT_EQ(usage[0].idle_ns(), 0);
}

TEST(EventUsage, IsThatOfEachInstant) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    EventTrace trace;
    trace.texts = {"", "kernel", "gemm", "ncclDevKernel_AllReduce"};
    trace.tracks = {{"GPU 0", "stream 1", 0, 0, 1}, {"GPU 0", "stream 2", 0, 0, 1}};
    for (std::uint32_t track = 0; track < 2; ++track) {
      for (std::int64_t at = pick(random, 0, 9); at < 60; at += pick(random, 0, 9)) {
        const std::int64_t start = at;
        at += pick(random, 1, 9);
        const auto name = static_cast<std::uint32_t>(pick(random, 2, 3));
        trace.slices.push_back({start, at, name, track, 0, 1, 0});
      }
    }
    RankUsage expected;
    std::int64_t first = 100;
    std::int64_t last = 0;
    for (const Slice& slice : trace.slices) {
      first = std::min(first, slice.start_ns);
      last = std::max(last, slice.end_ns);
    }
    for (std::int64_t now = 0; now < 100; ++now) {
      bool works = false;
      bool sends = false;
      for (const Slice& slice : trace.slices) {
        if (slice.start_ns > now || slice.end_ns <= now) continue;
        (slice.name == 2 ? works : sends) = true;
      }
      expected.busy_ns += works;
      expected.hidden_ns += works && sends;
      expected.exposed_ns += sends && !works;
    }
    const std::vector<RankUsage> usage = rank_usage(trace);
    ASSERT_EQ(usage.size(), 1U);
    EXPECT_EQ(usage[0].span_ns, last - first);
    EXPECT_EQ(usage[0].busy_ns, expected.busy_ns);
    EXPECT_EQ(usage[0].hidden_ns, expected.hidden_ns);
    EXPECT_EQ(usage[0].exposed_ns, expected.exposed_ns);
    EXPECT_GE(usage[0].idle_ns(), 0);
  }
}

TEST(EventUsage, OfNothingIsNone) {
  EXPECT_TRUE(rank_usage(EventTrace()).empty());
  EXPECT_TRUE(name_times(EventTrace()).empty());
}

TEST(EventUsage, NamesByTheirOwnTime) {
  const EventTrace events = gui::testing::events();
  std::string text;
  for (const NameTimes& times : name_times(events)) {
    text += fmt::format("{} {} {} {} {}\n", events.text(times.name), times.count, times.total_ns,
                        times.self_ns, times.longest);
  }
  EXPECT_EQ(text,
            "kernel 1 14000 14000 3\n"
            "layer 2 1 4000 4000 2\n"
            "step 1 8000 2500 0\n"
            "layer 1 1 1500 1500 1\n");
}

}  // namespace
}  // namespace pipesim
