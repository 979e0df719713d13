// Reading tells how far it is, and can be given up at any time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "tests/files.h"
#include "tests/profiles.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"
#include "traces/read/event_trace.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

struct GivenUp {};

// Of 1.5 MB, plain or packed.
std::string large_trace(const std::string& path) {
  const Schedule schedule = generate({"1f1b", 8, 250});
  const Costs costs = testing::costs_of(8, 1000, 2000, 100);
  OutputFile file(path, path.ends_with(".gz"));
  write_chrome_trace(record_run(schedule, costs), file);
  file.commit();
  return path;
}

// What each way of reading tells; then it is given up at every one of these times.
template <typename Read>
std::vector<double> told_by(const Read& read) {
  std::vector<double> told;
  read([&](double share) { told.push_back(share); });
  EXPECT_TRUE(std::ranges::is_sorted(told));
  for (std::size_t last = 1; last <= told.size(); last += 5) {
    std::size_t calls = 0;
    EXPECT_THROW(read([&](double /*share*/) {
                   if (++calls == last) throw GivenUp();
                 }),
                 GivenUp);
    EXPECT_EQ(calls, last);
  }
  return told;
}

void expect_hundred(const std::vector<double>& told) {
  // A share is told where it has grown by a hundredth, looked at every 64 KiB.
  EXPECT_GT(told.size(), 8U);
  EXPECT_LE(told.size(), 100U);
  EXPECT_GT(told.front(), 0);
  EXPECT_LT(told.front(), 0.25);
  EXPECT_GT(told.back(), 0.85);
  EXPECT_LE(told.back(), 1);
}

TEST(ReadingProgress, OfEachReader) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"t.json", "t.json.gz"}) {
    SCOPED_TRACE(name);
    const std::string path = large_trace(folder / name);
    expect_hundred(told_by([&](const ReadProgress& progress) {
      ReadOptions options;
      options.progress = progress;
      read_run({path}, options);
    }));
    expect_hundred(
        told_by([&](const ReadProgress& progress) { read_event_trace(path, progress); }));
  }
}

TEST(ReadingProgress, OfAProfileIsThatOfItsFiles) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const std::string& path : testing::ranks_of("1f1b")) {
    paths.push_back(
        testing::write(folder, std::to_string(paths.size()) + ".json", testing::json_in(path)));
  }
  const auto told = told_by([&](const ReadProgress& progress) {
    ReadOptions options;
    options.progress = progress;
    EXPECT_EQ(read_run(paths, options).ranks, 2);
  });
  EXPECT_GT(told.size(), 6U);
  EXPECT_LT(told.front(), 0.3);
  EXPECT_GT(told.back(), 0.8);
  EXPECT_LE(told.back(), 1);
}

TEST(ReadingProgress, NothingIsToldOfAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[1]);
  EXPECT_EQ(InputFile("/dev/fd/" + std::to_string(ends[0])).share_read(), 0);
  ::close(ends[0]);
}

}  // namespace
}  // namespace pipesim
