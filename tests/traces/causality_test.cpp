// Shifts of clocks: they mend what they can, and are no larger than they must be.
#include "traces/causality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;
using Shifts = std::vector<std::int64_t>;

bool mends(const LeastTransfers& least, const Shifts& shifts, std::int64_t least_ns) {
  for (const auto& [pair, took_ns] : least.pairs()) {
    const auto& [from, to] = pair;
    const std::int64_t apart =
        shifts[static_cast<std::size_t>(to)] - shifts[static_cast<std::size_t>(from)];
    if (took_ns + apart < least_ns) return false;
  }
  return true;
}

TEST(Causality, NothingIsShiftedWhereNothingIsWrong) {
  LeastTransfers least(3);
  EXPECT_EQ(causal_shifts(least).shift_ns, (Shifts{0, 0, 0}));
  least.add(0, 1, 5);
  least.add(1, 0, 0);
  least.add(2, 2, -7);  // a clock is right with itself
  EXPECT_EQ(causal_shifts(least).shift_ns, (Shifts{0, 0, 0}));
  EXPECT_EQ(causal_shifts(least).allowance_ns, 0);
  EXPECT_EQ(causal_shifts(least, 1).shift_ns, (Shifts{1, 0, 0}));
  EXPECT_TRUE(causal_shifts(LeastTransfers(0)).shift_ns.empty());
}

TEST(Causality, TheLeastOfAPairCounts) {
  LeastTransfers least(2);
  for (const std::int64_t took : {40, -10, 3}) least.add(0, 1, took);
  least.add(1, 0, 25);
  EXPECT_EQ(least.took_ns(0, 1), -10);
  EXPECT_EQ(least.took_ns(0, 0), std::nullopt);
  EXPECT_EQ(causal_shifts(least).shift_ns, (Shifts{0, 10}));
}

// What mends one pair must not spoil the next.
TEST(Causality, ShiftsPassOn) {
  LeastTransfers least(4);
  least.add(0, 1, -10);
  least.add(1, 2, 4);
  least.add(2, 3, -1);
  least.add(3, 0, 7);
  const CausalShifts found = causal_shifts(least);
  EXPECT_EQ(found.shift_ns, (Shifts{0, 10, 6, 7}));
  EXPECT_EQ(found.allowance_ns, 0);
}

TEST(Causality, ContradictionsGetTheSmallestAllowance) {
  LeastTransfers least(3);
  least.add(0, 1, -10);
  least.add(1, 0, 3);
  least.add(1, 2, 100);
  const CausalShifts found = causal_shifts(least);
  EXPECT_EQ(found.allowance_ns, 4) << "7 in excess around a cycle of two";
  EXPECT_TRUE(mends(least, found.shift_ns, -4));
  EXPECT_EQ(found.shift_ns, (Shifts{0, 6, 0}));
}

// All shifts up to a bound that no least solution exceeds, one after the other.
void for_each_shift(int clocks, std::int64_t most,
                    const std::function<void(const Shifts&)>& visit) {
  Shifts shifts(static_cast<std::size_t>(clocks), 0);
  for (;;) {
    visit(shifts);
    auto at = shifts.begin();
    while (at != shifts.end() && *at == most) *at++ = 0;
    if (at == shifts.end()) return;
    ++*at;
  }
}

// The least solution for each clock by itself, and whether there is any.
std::pair<bool, Shifts> by_force(const LeastTransfers& least, std::int64_t least_ns,
                                 std::int64_t most) {
  bool any = false;
  Shifts smallest(static_cast<std::size_t>(least.clocks()), most);
  for_each_shift(least.clocks(), most, [&](const Shifts& shifts) {
    if (!mends(least, shifts, least_ns)) return;
    any = true;
    for (std::size_t i = 0; i < shifts.size(); ++i) smallest[i] = std::min(smallest[i], shifts[i]);
  });
  return {any, smallest};
}

TEST(Causality, RandomClocksAgainstBruteForce) {
  std::mt19937_64 random(11);
  int contradictory = 0;
  int shifted = 0;
  for (int i = 0; i < 600; ++i) {
    const int clocks = static_cast<int>(pick(random, 1, 4));
    LeastTransfers least(clocks);
    for (int messages = static_cast<int>(pick(random, 0, 9)); messages > 0; --messages) {
      least.add(static_cast<int>(pick(random, 0, clocks - 1)),
                static_cast<int>(pick(random, 0, clocks - 1)), pick(random, -3, 5));
    }
    const std::int64_t least_ns = pick(random, 0, 1);
    const CausalShifts found = causal_shifts(least, least_ns);
    // A path over clocks - 1 pairs, each of which lacks 4 at most.
    const std::int64_t most = 4 * (clocks - 1);
    const auto [any, smallest] = by_force(least, least_ns - found.allowance_ns, most);
    ASSERT_TRUE(any) << i;
    EXPECT_EQ(found.shift_ns, smallest) << i;
    if (found.allowance_ns > 0) {
      EXPECT_FALSE(by_force(least, least_ns - found.allowance_ns + 1, most).first) << i;
      ++contradictory;
    } else {
      shifted += std::ranges::any_of(smallest, [](std::int64_t shift) { return shift > 0; });
    }
  }
  EXPECT_GE(contradictory, 60);
  EXPECT_GE(shifted, 60);
}

// Messages between steady clocks that are wrong by up to 1000 can always be
// put right, by shifts of no more than what two clocks are apart.
TEST(Causality, WrongClocksAreAlwaysMended) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 200; ++i) {
    const int clocks = static_cast<int>(pick(random, 2, 12));
    Shifts wrong;
    for (int c = 0; c < clocks; ++c) wrong.push_back(pick(random, -1000, 1000));
    LeastTransfers least(clocks);
    for (int messages = 0; messages < 100; ++messages) {
      const int from = static_cast<int>(pick(random, 0, clocks - 1));
      const int to = static_cast<int>(pick(random, 0, clocks - 1));
      least.add(from, to,
                pick(random, 1, 500) + wrong[static_cast<std::size_t>(to)] -
                    wrong[static_cast<std::size_t>(from)]);
    }
    const CausalShifts found = causal_shifts(least, 1);
    EXPECT_EQ(found.allowance_ns, 0);
    EXPECT_TRUE(mends(least, found.shift_ns, 1));
    EXPECT_LE(std::ranges::max(found.shift_ns), 2000);
    EXPECT_EQ(std::ranges::min(found.shift_ns), 0);
  }
}

// A pair of neighbours needs memory, not a pair of any two clocks.
TEST(Causality, ManyClocksInALine) {
  constexpr int clocks = 20'000;
  LeastTransfers least(clocks);
  for (int c = 0; c + 1 < clocks; ++c) {
    least.add(c, c + 1, -3);
    least.add(c + 1, c, 10);
  }
  const CausalShifts found = causal_shifts(least, 1);
  EXPECT_EQ(found.allowance_ns, 0);
  EXPECT_TRUE(mends(least, found.shift_ns, 1));
  EXPECT_EQ(found.shift_ns.back(), 4 * (clocks - 1));
  least.add(5, 4, 1);
  EXPECT_EQ(causal_shifts(least, 1).allowance_ns, 2);
}

}  // namespace
}  // namespace pipesim
