// Batches from files and made up.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "exec/input_pipeline/input_batch.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim::exec {
namespace {

using pipesim::testing::input_error_of;

RecommendationModel two_tables() {
  RecommendationModel model{.name = "tiny", .title = "tiny"};
  model.dense_features = 2;
  model.bottom = {4};
  model.top = {1};
  model.tables = {{"user", 10, 4}, {"words", 100, 4, 3, IdCount::uniform}};
  return model;
}

const std::string good =
    "pipesim-batches 1\n"
    "samples 3\n"
    "dense 2\n"
    "table user\n"
    "table words\n"
    "1 | 0.5 -1e-3 | 3 | 4 99 4\n"
    "0 | 1 2 | |\n"
    "0|-7 0.1|9 0|17\n";

std::string error_of_text(const std::string& text) {
  return input_error_of([&] { parse_batches(text, "b.txt", two_tables()); });
}
std::string replaced(const std::string& from, const std::string& to) {
  std::string text = good;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(BatchFile, IsReadSampleBySample) {
  const auto source = parse_batches(good, "b.txt", two_tables());
  EXPECT_EQ(source->name(), "b.txt");
  EXPECT_EQ(source->samples(), 3);
  const InputBatch all = source->read(0, 3);
  EXPECT_EQ(all.labels, (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(all.dense, (std::vector<float>{0.5F, -1e-3F, 1, 2, -7, 0.1F}));
  EXPECT_EQ(all.ids[0], (IdLists{{1, 0, 2}, {3, 9, 0}}));
  EXPECT_EQ(all.ids[1], (IdLists{{3, 0, 1}, {4, 99, 4, 17}}));
  const InputBatch last = source->read(1, 2);
  EXPECT_EQ(last.labels, (std::vector<float>{0, 0}));
  EXPECT_EQ(last.dense, (std::vector<float>{1, 2, -7, 0.1F}));
  EXPECT_EQ(last.ids[1], (IdLists{{0, 1}, {17}}));
  EXPECT_EQ(last.bytes(), 4 * 6 + 8 * (2 + 2 + 2 + 1));
}

TEST(BatchFile, LinesMayEndInCrLf) {
  std::string text;
  for (const char c : good) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(parse_batches(text, "b.txt", two_tables())->read(0, 3),
            parse_batches(good, "b.txt", two_tables())->read(0, 3));
}

TEST(BatchFile, RoundTripKeepsEveryBit) {
  const RecommendationModel model = two_tables();
  const InputBatch made = make_batch_generator(model, 4)->read(10, 200);
  const pipesim::testing::TemporaryFolder folder;
  write_file(folder / "made.txt", batches_to_text(made, model));
  EXPECT_EQ(read_batches(folder / "made.txt", model)->read(0, 200), made);
}

TEST(BatchFile, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(error_of_text(""),
            "b.txt:1: not a file of batches, whose first line is 'pipesim-batches 1'");
  EXPECT_EQ(error_of_text("label,dense\n"),
            "b.txt:1: not a file of batches, whose first line is 'pipesim-batches 1'");
  EXPECT_EQ(error_of_text(replaced("samples 3", "samples many")),
            "b.txt:2: 'samples many' instead of the number of samples, as in 'samples 100'");
  EXPECT_EQ(error_of_text(replaced("dense 2", "dense 3")),
            "b.txt:3: 3 dense features, but the model 'tiny' has 2; take batches that are made "
            "for it");
  EXPECT_EQ(error_of_text(replaced("table words", "table pages")),
            "b.txt:5: 'table pages' instead of 'table words'; tables are those of the model "
            "'tiny', in its order");
  EXPECT_EQ(error_of_text(replaced("1 | 0.5", "yes | 0.5")),
            "b.txt:6: the label is 0 or 1, not 'yes'");
  EXPECT_EQ(error_of_text(replaced("-1e-3", "x")),
            "b.txt:6: 'x' is not a dense feature, which is a number of float32");
  EXPECT_EQ(error_of_text(replaced("-1e-3", "inf")),
            "b.txt:6: 'inf' is not a dense feature, which is a number of float32");
  EXPECT_EQ(error_of_text(replaced("-1e-3", "")), "b.txt:6: 1 dense feature instead of 2");
  EXPECT_EQ(error_of_text(replaced("4 99 4", "4 100 4")),
            "b.txt:6: id 100 is not in table 'words', whose ids are 0 to 99");
  EXPECT_EQ(error_of_text(replaced("9 0|17", "9 -1|17")),
            "b.txt:8: id -1 is not in table 'user', whose ids are 0 to 9");
  EXPECT_EQ(error_of_text(replaced("|17", "|17.5")),
            "b.txt:8: '17.5' is not an id of table 'words'");
  EXPECT_EQ(error_of_text(replaced("0 | 1 2 | |", "0 | 1 2 |")),
            "b.txt:7: 3 parts between '|' instead of 4: the label, dense features, and ids of 2 "
            "tables");
  EXPECT_EQ(error_of_text(replaced("samples 3", "samples 2")),
            "b.txt:8: more lines than the 2 samples of line 2");
}

// Wherever it is cut, that is told with the line where it ends.
TEST(BatchFile, CutShortIsTold) {
  EXPECT_EQ(error_of_text(good.substr(0, good.size() - 1)),
            "b.txt:8: this line does not end; the file is cut short, or add a line break");
  EXPECT_EQ(error_of_text(good.substr(0, good.find("0|-7"))),
            "b.txt:8: here it ends, after 2 of 3 samples; it is cut short, or line 2 is wrong");
  EXPECT_EQ(error_of_text(good.substr(0, good.find("table words"))),
            "b.txt:5: here it ends, but 'table words' is missing");
  EXPECT_EQ(error_of_text(good.substr(0, good.find("samples"))),
            "b.txt:2: here it ends, but the number of samples is missing");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(error_of_text(good.substr(0, size)).starts_with("b.txt:")) << size;
  }
}

TEST(BatchFile, RanksTakeBlocksInTurn) {
  const RecommendationModel model = two_tables();
  const std::string text = batches_to_text(make_batch_generator(model, 1)->read(0, 23), model);
  const auto source = parse_batches(text, "b.txt", model);
  EXPECT_EQ(read_batch(*source, 1, 3, 1, 2), source->read(9, 3));
  // Seven blocks of 3, of which the first rank would have one more.
  EXPECT_EQ(share_of(*source, 3, 2).batches, 3);
  EXPECT_EQ(share_of(*source, 3, 2).left_out, 5);
  EXPECT_EQ(left_out_note(*source, 3, 2),
            "b.txt: the last 5 of 23 samples are left out: no batch of 3 for each of 2 ranks is "
            "left");
  EXPECT_EQ(left_out_note(*source, 11, 2),
            "b.txt: the last 1 of 23 samples is left out: no batch of 11 for each of 2 ranks is "
            "left");
  EXPECT_EQ(left_out_note(*source, 23, 1), "");
  EXPECT_EQ(
      input_error_of([&] { share_of(*source, 12, 2); }),
      "b.txt: there is no batch of 12 samples for each of 2 ranks in 23; take more samples or "
      "smaller batches");
  check_batches(*source, 3, 3, 2);
  EXPECT_EQ(input_error_of([&] { check_batches(*source, 4, 3, 2); }),
            "b.txt: 23 samples make 3 batches of 3 for each of 2 ranks, not 4; take fewer "
            "batches, or smaller ones");
}

TEST(BatchGenerator, SamplesDependOnSeedAndNumberAlone) {
  const RecommendationModel model = two_tables();
  const auto source = make_batch_generator(model, 7);
  EXPECT_EQ(source->samples(), std::nullopt);
  const InputBatch all = source->read(0, 40);
  const InputBatch part = make_batch_generator(model, 7)->read(30, 10);
  EXPECT_TRUE(std::equal(part.dense.begin(), part.dense.end(), all.dense.begin() + 60));
  EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(), all.labels.begin() + 30));
  EXPECT_TRUE(std::equal(part.ids[1].values.rbegin(), part.ids[1].values.rend(),
                         all.ids[1].values.rbegin()));
  EXPECT_NE(make_batch_generator(model, 8)->read(0, 40), all);
}

TEST(BatchGenerator, HasWhatTheModelSays) {
  RecommendationModel model = two_tables();
  model.tables[1].skew = 1;
  constexpr std::int64_t count = 20000;
  const InputBatch batch = make_batch_generator(model, 7)->read(0, count);
  EXPECT_EQ(batch.samples(), count);
  double sum = 0, squares = 0, labels = 0;
  for (const float x : batch.dense) {
    sum += x;
    squares += x * x;
  }
  for (const float label : batch.labels) {
    EXPECT_TRUE(label == 0 || label == 1);
    labels += label;
  }
  EXPECT_NEAR(sum / (2 * count), 0, 0.03);
  EXPECT_NEAR(squares / (2 * count), 1, 0.03);
  EXPECT_GT(labels, count / 10);
  EXPECT_LT(labels, count - count / 10);
  std::map<std::int64_t, std::int64_t> lengths;
  for (const std::int64_t length : batch.ids[1].lengths) ++lengths[length];
  EXPECT_EQ(lengths.size(), 7U);  // 0 to 6
  std::map<std::int64_t, std::int64_t> seen;
  for (const std::int64_t id : batch.ids[1].values) ++seen[id];
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_EQ(batch.ids[0].values.size(), static_cast<std::size_t>(count));
}

}  // namespace
}  // namespace pipesim::exec
