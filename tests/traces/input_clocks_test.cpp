// Clocks of an input pipeline's ranks: put right by as little as possible, else left alone.
#include "traces/input_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/input_runs.h"
#include "traces/causality.h"

namespace pipesim {
namespace {

void shift(InputRun& run, std::size_t rank, std::int64_t ns) {
  for (InputSpan& span : run.spans[rank]) {
    for (std::int64_t* time :
         {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
      *time += ns;
    }
  }
}

// For each pair of ranks, from when one was ready for a collective to the other's end of it.
LeastTransfers all_transfers(const InputRun& run) {
  LeastTransfers least(run.program.ranks());
  for (int from = 0; from < run.program.ranks(); ++from) {
    const InputCalls& calls = run.program.calls[static_cast<std::size_t>(from)];
    for (std::size_t place = 0; place < calls.size(); ++place) {
      if (!is_meeting(calls[place].action.kind)) continue;
      for (int to = 0; to < run.program.ranks(); ++to) {  // ranks have the same calls
        least.add(from, to, run.span(to, place).end_ns - run.span(from, place).ready_ns);
      }
    }
  }
  return least;
}

TEST(InputClocks, AreShiftedByTheLeastThatPutsAllRight) {
  std::mt19937_64 random(3);
  int shifted = 0;
  for (int round = 0; round < 200; ++round) {
    const int ranks = 2 + round % 4;
    InputRun run = testing::random_run(testing::overlapping_program(ranks, 1 + round % 5), random);
    for (int rank = 0; rank < ranks; ++rank) {
      shift(run, static_cast<std::size_t>(rank), static_cast<std::int64_t>(random() % 4000));
    }
    if (round % 3 == 0) {  // a drift, which no shift undoes
      for (InputSpan& span : run.spans[0]) span.end_ns = std::max(span.start_ns, span.end_ns - 900);
    }
    const CausalShifts want = causal_shifts(all_transfers(run));
    InputRun righted = run;
    put_clocks_right(righted, "run.json");
    const bool moves = std::ranges::max(want.shift_ns) > 0;
    EXPECT_EQ(righted.warnings.text().find("clocks are shifted by up to") != std::string::npos,
              moves);
    if (!moves) {
      EXPECT_EQ(righted.spans, run.spans);
      continue;
    }
    ++shifted;
    const LeastTransfers transfers = all_transfers(righted);
    for (const auto& [pair, took_ns] : transfers.pairs()) {
      EXPECT_GE(took_ns, -want.allowance_ns);
    }
    const std::int64_t by = righted.span(0, 0).called_ns - run.span(0, 0).called_ns;
    std::int64_t first_ns = righted.span(0, 0).called_ns;
    for (std::size_t rank = 0; rank < righted.spans.size(); ++rank) {
      first_ns = std::min(first_ns, righted.spans[rank][0].called_ns);
      for (std::size_t place = 0; place < righted.spans[rank].size(); ++place) {
        const InputSpan& now = righted.spans[rank][place];
        const InputSpan& before = run.spans[rank][place];
        EXPECT_EQ(now.called_ns - before.called_ns, by + want.shift_ns[rank] - want.shift_ns[0]);
        EXPECT_EQ(now.end_ns - now.ready_ns, before.end_ns - before.ready_ns);
        EXPECT_LE(now.ready_ns, now.start_ns);
        EXPECT_LE(now.start_ns, now.end_ns);
      }
    }
    EXPECT_EQ(first_ns, 0);
  }
  EXPECT_GT(shifted, 150);
}

TEST(InputClocks, AreLeftAloneWhereNothingIsEarly) {
  std::mt19937_64 random(4);
  InputRun run = testing::random_run(testing::overlapping_program(3, 4), random);
  const auto spans = run.spans;
  put_clocks_right(run, "run.json");
  EXPECT_EQ(run.spans, spans);
  EXPECT_TRUE(run.warnings.empty());
}

}  // namespace
}  // namespace pipesim
