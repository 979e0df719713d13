// Runs of input pipelines in characters.
#include "traces/print/input_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/input_runs.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// A batch whose copy, splits and ids take 10 us each, its parts on the compute stream 5 each; the
// next batch is fetched beside.
InputRun even_run(int batches) {
  InputRun run;
  run.program = testing::overlapping_program(1, batches);
  std::int64_t host = 0, copy = 0, ids = 0, compute = 0;
  for (const InputCall& call : run.program.calls[0]) {
    InputSpan span{host, host, host, host, host};
    const auto runs = [&](std::int64_t& stream, std::int64_t from, std::int64_t ns) {
      span.ready_ns = span.start_ns = std::max(stream, from);
      stream = span.end_ns = span.start_ns + ns;
    };
    switch (call.stream) {
      case InputStream::host:
        if (call.action.kind == Kind::READ) host = std::max(host, ids);
        span.ready_ns = span.start_ns = host;
        host = span.issued_ns = span.end_ns = host + 5'000;
        break;
      case InputStream::memcpy: runs(copy, host, 10'000); break;
      case InputStream::data_dist: runs(ids, std::max(copy, host), 10'000); break;
      case InputStream::compute: runs(compute, std::max(ids, host), 5'000); break;
      default: span.ready_ns = span.start_ns = span.end_ns = std::max(compute, host);
    }
    if (call.stream != InputStream::host) host = span.issued_ns = host + 500;
    run.spans.resize(1);
    run.spans[0].push_back(span);
  }
  return run;
}

TEST(InputPicture, HasARowForEachStreamInUse) {
  EXPECT_EQ(input_picture(even_run(1), 0, {80, false}),
            R"(rank 0 of 1
           0 us                                  50 us
host       N0--:              R0--:::::
memcpy        .C0------
data_dist             S0------.   I0------
compute                                  .Z0--B0-L0--O0--T0--t0--o0--U0-b0--D0--
reduction
           N next batch  C copy  S splits  R read splits  I ids  L lookup
           O output  Z zero grad  B bottom  T top  t top backward
           o output backward  U update  b bottom backward  D optimizer
           : calls others  . mostly idle
)");
}

TEST(InputPicture, ShowsAFewBatchesOfMany) {
  EXPECT_EQ(input_picture(even_run(20), 0, {60, false}),
            R"(rank 0 of 1: from the end of batch 8 to that of batch 10, of
20 batches
                500 us                  550 us
host           R13:::N14         R14::N15:        .R15::N16:
memcpy                 C14--.            C15--.            C
data_dist  S13-. .I13--     S14--. I14--.     S15--  I15--.
compute    Z9B9-L9O9-T9t9-o9U9-b9D9-Z-B-L10O-T10t-o10U-b10D-
reduction
           N next batch  C copy  S splits  R read splits
           I ids  L lookup  O output  Z zero grad  B bottom
           T top  t top backward  o output backward
           U update  b bottom backward  D optimizer
           : calls others  . mostly idle
)");
}

TEST(InputPicture, ColoursChangeNoCharacter) {
  std::mt19937_64 random(3);
  const InputRun run = testing::random_run(testing::overlapping_program(2, 9), random, 100'000);
  for (const int width : {40, 80, 200}) {
    const std::string plain = input_picture(run, 1, {width, false});
    std::string text = input_picture(run, 1, {width, true});
    for (std::size_t at = 0; (at = text.find('\x1b')) != std::string::npos;) {
      text.erase(at, text.find('m', at) - at + 1);
    }
    for (const auto& [coloured, own] : {std::pair(split(text, '\n'), split(plain, '\n'))}) {
      ASSERT_EQ(coloured.size(), own.size());
      for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_LE(own[i].size(), static_cast<std::size_t>(width));
        std::string dashes(coloured[i]);
        for (std::size_t c = 0; c < std::min(dashes.size(), own[i].size()); ++c) {
          if (dashes[c] == ' ' && own[i][c] == '-') dashes[c] = '-';
        }
        EXPECT_EQ(dashes, own[i]);
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
