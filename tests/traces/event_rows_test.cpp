// Tracks with many rows: where slices go and which of them a flow means, compared with
// plain searches through all rows.
#include "traces/read/event_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::pick;

// Short ones among long ones, so that rows become free and are used again.
std::vector<Slice> random_slices(std::mt19937_64& random, int count, std::int64_t longest) {
  std::vector<Slice> slices;
  for (int i = 0; i < count; ++i) {
    Slice slice;
    slice.start_ns = pick(random, 0, 500);
    const std::int64_t most = pick(random, 0, 2) == 0 ? 10 : longest;
    slice.end_ns = slice.start_ns + pick(random, 0, most);
    slices.push_back(slice);
  }
  return slices;
}

std::vector<std::uint16_t> rows_one_by_one(const LargeVector<Slice>& sorted) {
  std::vector<std::int64_t> ends;
  std::vector<std::uint16_t> rows;
  for (const Slice& slice : sorted) {
    std::size_t row = ends.size();
    while (row > 0 && (ends[row - 1] < slice.end_ns || ends[row - 1] == slice.start_ns)) --row;
    while (row < ends.size() && ends[row] > slice.start_ns) ++row;
    if (row == ends.size()) ends.emplace_back();
    ends[row] = slice.end_ns;
    rows.push_back(static_cast<std::uint16_t>(row));
  }
  return rows;
}

TEST(EventRows, AreThoseFoundOneByOne) {
  std::mt19937_64 random(5);
  int most = 0;
  for (int i = 0; i < 60; ++i) {
    const int count = static_cast<int>(pick(random, 1, 900));
    const auto made = random_slices(random, count, pick(random, 1, 600));
    LargeVector<Slice> slices(made.begin(), made.end());
    LargeVector<Slice> rest;
    most = std::max(most, lay_out(slices, rest));
    ASSERT_TRUE(rest.empty());
    std::vector<std::uint16_t> rows;
    for (const Slice& slice : slices) rows.push_back(slice.row);
    ASSERT_EQ(rows, rows_one_by_one(slices)) << i;
  }
  EXPECT_GT(most, 300);  // of which 64 are searched one by one
}

using Place = std::optional<std::size_t>;

// The innermost slice that holds the instant, else the innermost that ends there; of each
// row the last that has started.
Place enclosing(const EventTrace& trace, std::int64_t time_ns) {
  std::vector<Place> last(static_cast<std::size_t>(trace.tracks[0].rows));
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    if (trace.slices[i].start_ns <= time_ns) last[trace.slices[i].row] = i;
  }
  Place ended;
  for (std::size_t row = last.size(); row-- > 0;) {
    if (!last[row]) continue;
    const Slice& slice = trace.slices[*last[row]];
    if (slice.end_ns > time_ns || slice.start_ns == time_ns) return last[row];
    if (slice.end_ns == time_ns && !ended) ended = last[row];
  }
  return ended;
}

Place next(const EventTrace& trace, std::int64_t time_ns) {
  Place best;
  const auto key = [&](std::size_t i) {
    return std::tuple(trace.slices[i].start_ns, trace.slices[i].row);
  };
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    if (trace.slices[i].start_ns >= time_ns && (!best || key(i) < key(*best))) best = i;
  }
  return best;
}

TEST(EventRows, FlowsMeanTheSlicesFoundOneByOne) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(6);
  for (const int count : {20, 700}) {  // rows that are searched one by one, and too many
    for (int round = 0; round < 5; ++round) {
      std::string events;
      for (const Slice& slice : random_slices(random, count, 600)) {
        events += fmt::format(R"({{"ph":"X","ts":{},"dur":{},"pid":1,"tid":1,"name":"a"}},)",
                              slice.start_ns, slice.end_ns - slice.start_ns);
      }
      std::vector<std::pair<std::int64_t, std::int64_t>> flows;
      for (int i = 0; i < 200; ++i) {
        const std::int64_t from = pick(random, 0, 1100);
        flows.emplace_back(from, from + pick(random, 1, 100));
        events += fmt::format(R"({{"ph":"s","ts":{},"pid":1,"tid":1,"id":{},"name":"f"}},)"
                              R"({{"ph":"f","ts":{},"pid":1,"tid":1,"id":{},"name":"f"}},)",
                              flows.back().first, i, flows.back().second, i);
      }
      events.pop_back();
      write_file(folder / "t.json", "[" + events + "]");
      const EventTrace trace = read_event_trace(folder / "t.json");
      ASSERT_EQ(trace.tracks.size(), 1U);
      EXPECT_EQ(trace.tracks[0].rows > 64, count > 64) << trace.tracks[0].rows;
      std::vector<std::pair<std::size_t, std::size_t>> wanted;
      for (const auto& [from_ns, to_ns] : flows) {
        const Place from = enclosing(trace, from_ns * 1000);
        Place to = next(trace, to_ns * 1000);
        if (!to) to = enclosing(trace, to_ns * 1000);
        if (from && to && *from != *to) wanted.emplace_back(*from, *to);
      }
      std::vector<std::pair<std::size_t, std::size_t>> found;
      for (const EventArrow& arrow : trace.arrows) found.emplace_back(arrow.from, arrow.to);
      std::ranges::sort(wanted);
      std::ranges::sort(found);
      EXPECT_EQ(found, wanted);
      EXPECT_GT(found.size(), 20U);
    }
  }
}

}  // namespace
}  // namespace pipesim
