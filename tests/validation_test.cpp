// The published rows, what is made of them, and the program that compares.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/validation/findings.h"
#include "bench/validation/goals.h"
#include "bench/validation/nelder_mead.h"
#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim::validation {
namespace {

std::string data() { return testing::source_file("bench/validation/data"); }

TEST(ValidationRows, AreAllThereWithTheirUse) {
  std::map<Source, std::map<Use, int>> counts;
  for (const Row& row : read_rows(data())) ++counts[row.source][row.use];
  using Counts = std::map<Use, int>;
  EXPECT_EQ(counts[Source::korthikanti_layers], (Counts{{Use::fitted, 4}, {Use::unseen, 6}}));
  EXPECT_EQ(counts[Source::korthikanti], (Counts{{Use::fitted, 2}, {Use::unseen, 2}}));
  EXPECT_EQ(counts[Source::sc21], (Counts{{Use::fitted, 2}, {Use::unseen, 3}}));
  EXPECT_EQ(counts[Source::vtrain_multi_node],
            (Counts{{Use::fitted, 20}, {Use::unseen, 17}, {Use::contradicts_neighbours, 4}}));
  EXPECT_EQ(counts[Source::vtrain_single_node],
            (Counts{{Use::host_floor, 756}, {Use::unseen, 684}}));
}

// Heads divide the hidden size, chunks the blocks of a rank; times are of a sane size.
TEST(ValidationRows, HoldTogether) {
  for (const Row& row : read_rows(data())) {
    EXPECT_EQ(row.contradicts(), !row.reason.empty()) << row.name;
    EXPECT_EQ(row.model.hidden_size % row.model.heads, 0) << row.name;
    EXPECT_EQ(row.model.blocks / row.training.pipeline_parallel % row.virtual_stages, 0)
        << row.name;
    EXPECT_GT(row.published_s, 0.001) << row.name;
    EXPECT_LT(row.published_s, 30) << row.name;
  }
}

// Rows that differ in depth, microbatches or replicas only are near-copies.
TEST(ValidationRows, NearCopiesAreNotDividedBetweenUses) {
  std::map<std::tuple<std::int64_t, int, std::int64_t>, std::set<Use>> uses;
  for (const Row& row : read_rows(data())) {
    if (row.source != Source::vtrain_single_node) continue;
    uses[{row.model.hidden_size, row.training.tensor_parallel, row.training.micro_batch_size}]
        .insert(row.use);
  }
  EXPECT_EQ(uses.size(), 32U);
  for (const auto& [group, some] : uses) EXPECT_EQ(some.size(), 1U);
}

// The published MFU follows from the published time, as the paper defines it.
TEST(ValidationRows, PublishedMfuFollowsFromTheTime) {
  int compared = 0;
  for (const Row& row : read_rows(data())) {
    if (!row.published_mfu) continue;
    const double h = static_cast<double>(row.model.hidden_size);
    const double blocks = static_cast<double>(row.model.blocks);
    const double s = static_cast<double>(row.training.sequence_length);
    const double vocabulary = static_cast<double>(row.model.vocabulary_size);
    const double batch = static_cast<double>(row.microbatches * row.training.micro_batch_size);
    const double flops =
        72 * batch * blocks * s * h * h * (1 + s / (6 * h) + vocabulary / (12 * h * blocks));
    const double mfu = flops / (312e12 * row.training.devices() * row.published_s);
    EXPECT_NEAR(mfu, *row.published_mfu, 0.002) << row.name;
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

TEST(ValidationErrors, AreSummarised) {
  const ErrorSummary errors = summarise({{"a", 0.01}, {"b", -0.04}, {"c", 0.02}, {"d", -0.01}});
  EXPECT_EQ(errors.rows, 4U);
  EXPECT_DOUBLE_EQ(errors.mean, 0.02);
  EXPECT_DOUBLE_EQ(errors.median, 0.015);
  EXPECT_DOUBLE_EQ(errors.worst, 0.04);
  EXPECT_EQ(errors.worst_name, "b");
}

TEST(ValidationClosedForms, ActivationBytesAreExact) {
  const std::vector<BytesRow> rows = activation_bytes(data(), find_cluster("dgx-a100"));
  EXPECT_EQ(rows.size(), 24U);
  for (const BytesRow& row : rows) EXPECT_EQ(row.computed, row.closed_form) << row.formula;
}

TEST(ValidationBounds, ArePassedByName) {
  const testing::TemporaryFolder folder;
  Findings findings;
  ErrorSummary errors;
  errors.mean = 0.031;
  errors.worst_name = "row 7";
  findings.measures = {{"sc21", errors}};
  write_file(folder / "bounds.json", R"({"sc21": {"mean": 3.2}})");
  EXPECT_TRUE(broken_bounds(findings, folder / "bounds.json").empty());
  write_file(folder / "bounds.json", R"({"sc21": {"mean": 3.0}})");
  const std::vector<std::string> broken = broken_bounds(findings, folder / "bounds.json");
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0], "sc21: mean error of 3.100 %, above its bound of 3 %; worst: row 7");
  write_file(folder / "bounds.json", "{}");
  EXPECT_EQ(broken_bounds(findings, folder / "bounds.json").size(), 1U);
}

TEST(ValidationCommand, WritesTheSameReportTwice) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"a.md", "b.md"}) {
    const testing::Outcome outcome = testing::run_command({VALIDATE_COMMAND, "-o", folder / name});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  const std::string report = read_file(folder / "a.md");
  EXPECT_EQ(report, read_file(folder / "b.md"));
  for (const Row& row : read_rows(data())) {
    if (row.source == Source::vtrain_single_node) continue;
    EXPECT_NE(report.find("| " + row.name + " |"), std::string::npos) << row.name;
  }
}

// Rosenbrock's valley, from a far start.
TEST(NelderMead, FindsTheEndOfACurvedValley) {
  const auto valley = [](const std::vector<double>& at) {
    return std::pow(1 - at[0], 2) + 100 * std::pow(at[1] - at[0] * at[0], 2);
  };
  const std::vector<double> least = minimise(valley, {-1.2, 1}, 0.5, 1e-14, 5000);
  EXPECT_NEAR(least[0], 1, 1e-5);
  EXPECT_NEAR(least[1], 1, 1e-5);
}

}  // namespace
}  // namespace pipesim::validation
