// What a report's tables say, the page of formats explains.
#include <gtest/gtest.h>

#include "sim/report/comparison_tables.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// The lines of FORMAT.md's tables that explain a key.
std::string explanation_of(const std::string& text, const std::string& key) {
  std::string all;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("| `" + key + "` |")) all += line;
  }
  return all;
}

// Noise is listed among the causes by what it makes of the difference, others last.
TEST(ReportColumns, CausesAreInTheOrderOfTheirEffects) {
  Comparison comparison;
  comparison.sides[measured_side].makespan_ns = 1000;
  for (const std::int64_t effect_ns : {-90, 70, -50, 1}) {
    comparison.root_causes.emplace_back().effect_ns = effect_ns;
  }
  const auto effects = [&](std::int64_t noise_ns) {
    comparison.noise.effect_ns = noise_ns;
    const ShownCauses shown = shown_causes(comparison, 4);
    std::vector<std::int64_t> result;
    for (const ReportRow& row : cause_table(comparison, shown).rows) {
      result.push_back(row.cells[0].value);
    }
    for (std::size_t i = 0; i < shown.places.size(); ++i) {
      EXPECT_EQ(result[shown.row_of(i)], comparison.root_causes[shown.places[i]].effect_ns);
    }
    return result;
  };
  using Effects = std::vector<std::int64_t>;
  EXPECT_EQ(effects(-100), (Effects{-100, -90, 70, -50, 1}));
  EXPECT_EQ(effects(60), (Effects{-90, 70, 60, -50, 1}));
  EXPECT_EQ(effects(7), (Effects{-90, 70, -50, 7, 1}));
  EXPECT_EQ(effects(0), (Effects{-90, 70, -50, 1}));
}

TEST(ReportColumns, AreExplained) {
  const std::string text = read_file(testing::source_file("traces/FORMAT.md"));
  Comparison comparison;
  for (const ReportTable& table : {kind_table(comparison), collective_table(comparison),
                                   save_table(comparison), clock_table({}, comparison)}) {
    const std::string explanation = explanation_of(text, table.key);
    EXPECT_NE(explanation, "") << table.key;
    for (const ReportColumn& column : table.columns) {
      EXPECT_FALSE(column.key.empty() && column.name.empty()) << table.key;
      if (column.key.empty()) continue;
      for (const std::string_view part : split(column.key, '.')) {
        const std::string name(part);
        const bool is_quantile = name.starts_with("p") && name.size() == 3;
        const bool counts_quantiles = name == "count" && table.key == "stage_kinds";
        const bool is_said =
            explanation.find(is_quantile || counts_quantiles ? "quantiles" : "`" + name + "`") !=
            std::string::npos;
        EXPECT_TRUE(is_said) << table.key << ": " << column.key;
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
