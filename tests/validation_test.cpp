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
  EXPECT_EQ(counts[Source::simumax_b200], (Counts{{Use::unseen, 24}}));
}

// A model and a split have one peak; both are of eight devices.
TEST(ValidationRows, OfB200AreEightSplitsOfThreeLengths) {
  std::map<std::pair<std::int64_t, int>, std::vector<int>> microbatches;
  std::map<std::pair<std::int64_t, int>, int> peaks;
  for (const Row& row : read_rows(data())) {
    if (row.source != Source::simumax_b200) {
      EXPECT_FALSE(row.published_peak_bytes) << row.name;
      continue;
    }
    const std::pair split(row.model.hidden_size, row.training.tensor_parallel);
    microbatches[split].push_back(row.microbatches);
    peaks[split] += row.published_peak_bytes ? 1 : 0;
    EXPECT_EQ(row.training.devices(), 8) << row.name;
    EXPECT_EQ(row.model.vocabulary_size % (128 * row.training.tensor_parallel), 0) << row.name;
    EXPECT_EQ(row.published_peak_bytes.has_value(), row.peer_peak_bytes.has_value()) << row.name;
    // As the source says of itself: -11.37 to -0.18 %.
    ASSERT_TRUE(row.peer_s) << row.name;
    EXPECT_GT(*row.peer_s / row.published_s - 1, -0.1138) << row.name;
    EXPECT_LT(*row.peer_s / row.published_s - 1, -0.0017) << row.name;
  }
  EXPECT_EQ(microbatches.size(), 8U);
  for (const auto& [split, some] : microbatches) {
    EXPECT_EQ(some, (std::vector<int>{4, 8, 32}));
    EXPECT_EQ(peaks[split], 1);
  }
}

// States and what blocks keep, by hand: 70B on 8 tensor-parallel ranks.
TEST(ValidationPredictions, PeakIsOfStatesKeptAndLogits) {
  for (const Row& row : read_rows(data())) {
    if (row.name != "llama3_70b_l12_tp8_pp1_dp1_mbc4_cef") continue;
    const double h = 8192;
    const double f = 28672;
    const double kv = 1024;
    const double tokens = 4096;
    const double vocabulary = 129024;
    const double parameters =
        (12 * (2 * h * h + 2 * h * kv + 3 * h * f) + 2 * vocabulary * h) / 8 + 25 * h;
    // Norms and products' inputs, queries, keys, values, sums of rows, gate, up and their product.
    const double block = tokens / 8 * (2 * (5 * h + h + 2 * kv + 3 * f) + 4 * 64);
    const double head = tokens / 8 * (4 * h + 4 * vocabulary);
    const double gradient_of_logits = tokens / 8 * 2 * vocabulary;
    const double bytes = 18 * parameters + 12 * block + head + gradient_of_logits;
    EXPECT_NEAR(static_cast<double>(predict_row(row, find_cluster("dgx-b200")).peak_bytes), bytes,
                1e-6 * bytes);
    return;
  }
  FAIL() << "no such row";
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
  EXPECT_DOUBLE_EQ(errors.signed_mean, -0.005);
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

// Only tensor-parallel ranks have reductions to hide.
TEST(ValidationFindings, WithNothingHiddenIterationsOfB200TakeLonger) {
  const Findings findings = examine(data());
  const std::vector<Outcome> hiding = findings.of(Source::simumax_b200);
  ASSERT_EQ(hiding.size(), findings.outcomes_unhidden.size());
  for (std::size_t i = 0; i < hiding.size(); ++i) {
    const Outcome& unhidden = findings.outcomes_unhidden[i];
    ASSERT_EQ(hiding[i].row->name, unhidden.row->name);
    EXPECT_EQ(hiding[i].predicted.peak_bytes, unhidden.predicted.peak_bytes);
    if (hiding[i].row->training.tensor_parallel == 1) {
      EXPECT_EQ(hiding[i].predicted.seconds, unhidden.predicted.seconds);
    } else {
      EXPECT_LT(hiding[i].predicted.seconds, unhidden.predicted.seconds);
    }
  }
  EXPECT_EQ(findings.measure("simumax b200, peak memory").rows, 8U);
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
