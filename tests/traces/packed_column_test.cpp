// Columns of packed integers against plain vectors of them.
#include "traces/base/packed_column.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace pipesim {
namespace {

using Random = std::mt19937_64;
using Limits = std::numeric_limits<std::int64_t>;

PackedColumn packed(const std::vector<std::int64_t>& values) {
  PackedColumn column;
  for (const std::int64_t value : values) column.push_back(value);
  return column;
}

// Of any size: whole blocks, none, and what is left of one.
constexpr std::array sizes{0U, 1U, 63U, 64U, 65U, 128U, 300U, 1'000U};

TEST(PackedColumn, KeepsValuesOfAnyWidth) {
  Random random(1);
  for (const std::size_t size : sizes) {
    for (int bits = 0; bits <= 64; ++bits) {
      std::vector<std::int64_t> values;
      const auto base = static_cast<std::int64_t>(random());
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint64_t above = bits == 0 ? 0 : random() >> (64 - bits);
        values.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(base) + above));
      }
      PackedColumn column = packed(values);
      column.shrink_to_fit();
      ASSERT_EQ(column.size(), size);
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(column[i], values[i]) << bits << " bits";
    }
  }
}

TEST(PackedColumn, KeepsBlocksOfDifferentWidthsAndTheUtmostValues) {
  Random random(2);
  std::vector<std::int64_t> values;
  for (int round = 0; round < 100; ++round) {
    const auto bits = static_cast<unsigned>(random() % 64);
    for (std::size_t i = 0; i < PackedColumn::block; ++i) {
      values.push_back(static_cast<std::int64_t>(random() >> bits));
    }
    values[values.size() - 1 - random() % PackedColumn::block] = Limits::min();
    values.resize(values.size() + PackedColumn::block, Limits::max());
  }
  const PackedColumn column = packed(values);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(column[i], values[i]);
}

TEST(PackedColumn, GoesOverAnyPart) {
  Random random(4);
  for (const std::size_t size : sizes) {
    std::vector<std::int64_t> values(size);
    for (std::int64_t& value : values) value = static_cast<std::int64_t>(random() % 5'000);
    const PackedColumn column = packed(values);
    for (int round = 0; round < 100; ++round) {
      const std::size_t first = random() % (size + 1);
      const std::size_t last = first + random() % (size - first + 1);
      std::vector<std::int64_t> seen;
      column.each(first, last, [&](std::int64_t value) { seen.push_back(value); });
      ASSERT_TRUE(std::ranges::equal(
          seen, std::vector<std::int64_t>(values.begin() + static_cast<std::ptrdiff_t>(first),
                                          values.begin() + static_cast<std::ptrdiff_t>(last))));
    }
  }
}

TEST(PackedColumn, GrowsOnAfterItWasShrunk) {
  PackedColumn column;
  for (std::int64_t i = 0; i < 500; ++i) {
    column.push_back(i * i);
    if (i % 37 == 0) column.shrink_to_fit();
  }
  for (std::int64_t i = 0; i < 500; ++i) ASSERT_EQ(column[static_cast<std::size_t>(i)], i * i);
}

TEST(PackedColumn, FindsTheFirstThatIsNoLess) {
  Random random(3);
  for (const std::size_t size : sizes) {
    for (const std::int64_t step : {1, 3, 1'000}) {  // with many that are alike, and few
      std::vector<std::int64_t> values;
      std::int64_t value = -50;
      for (std::size_t i = 0; i < size; ++i) {
        values.push_back(value += static_cast<std::int64_t>(random() % 3) / 2 * step);
      }
      const PackedColumn column = packed(values);
      for (int round = 0; round < 300; ++round) {
        const std::size_t from = random() % (size + 1);
        const auto wanted =
            -60 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(value + 80));
        const auto found = std::lower_bound(values.begin() + static_cast<std::ptrdiff_t>(from),
                                            values.end(), wanted);
        ASSERT_EQ(column.first_from(from, wanted),
                  static_cast<std::size_t>(found - values.begin()));
      }
      ASSERT_EQ(column.first_from(0, Limits::min()), 0U);
      ASSERT_EQ(column.first_from(0, Limits::max()), size);
    }
  }
}

}  // namespace
}  // namespace pipesim
