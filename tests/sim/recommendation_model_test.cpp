// Recommendation models by name and from files: their sizes, what is read, what is refused and how.
#include "sim/input_pipeline/recommendation_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

// A whole file, of the format's old name, which is still read, in which `from` stands for `to`.
std::string file_with(const std::string& from = "", const std::string& to = "") {
  std::string text =
      R"({"format":"pipesim-recommendation-model","version":1,"name":"m","dense_features":4,)"
      "\n"
      R"("bottom":[8,2],"top":[3,1],"interaction":"dot",)"
      "\n"
      R"("tables":[{"name":"a","rows":10,"ids_per_sample":3,"id_count":"uniform","skew":0.5},)"
      "\n"
      R"({"name":"b","rows":20}]})";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

std::string error_with(const std::string& from, const std::string& to) {
  return testing::input_error_of(
      [&] { parse_recommendation_model(file_with(from, to), "m.json"); });
}

TEST(RecommendationModels, FileIsRead) {
  const RecommendationModel model = parse_recommendation_model(file_with(), "m.json");
  EXPECT_EQ(model.name, "m");
  EXPECT_EQ(model.title, "m");
  EXPECT_EQ(model.dense_features, 4);
  EXPECT_EQ(model.bottom, (std::vector<std::int64_t>{8, 2}));
  EXPECT_EQ(model.top, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(model.interaction, Interaction::dot);
  ASSERT_EQ(model.tables.size(), 2U);
  EXPECT_EQ(model.tables[0].name, "a");
  EXPECT_EQ(model.tables[0].rows, 10);
  EXPECT_EQ(model.tables[0].width, 2);
  EXPECT_EQ(model.tables[0].ids_per_sample, 3);
  EXPECT_EQ(model.tables[0].id_count, IdCount::uniform);
  EXPECT_EQ(model.tables[0].skew, 0.5);
  EXPECT_EQ(model.tables[1].ids_per_sample, 1);
  EXPECT_EQ(model.tables[1].id_count, IdCount::fixed);
  EXPECT_EQ(model.tables[1].skew, 0);
  // Two numbers of the bottom, and three pairs of three vectors.
  EXPECT_EQ(model.interacted(), 2 + 3);
  EXPECT_EQ(model.bottom_parameters(), (4 + 1) * 8 + (8 + 1) * 2);
  EXPECT_EQ(model.top_parameters(), (5 + 1) * 3 + (3 + 1) * 1);
  EXPECT_EQ(model.table_parameters(), (10 + 20) * 2);
}

TEST(RecommendationModels, CrossLayersAreReadAndCounted) {
  const RecommendationModel model = parse_recommendation_model(
      file_with(R"("interaction":"dot")",
                R"("interaction":"cross","cross_layers":2,"cross_rank":5)"),
      "m.json");
  EXPECT_EQ(model.interaction, Interaction::cross);
  EXPECT_EQ(model.interacted(), 3 * 2);
  // Of each: down to the rank, up again, a bias.
  EXPECT_EQ(model.top_parameters(), 2 * (6 * 5 + 5 * 6 + 6) + (6 + 1) * 3 + (3 + 1) * 1);
}

TEST(RecommendationModels, WhatIsWrittenReadsBack) {
  for (const RecommendationModel& model : known_recommendation_models()) {
    for (const int indent : {-1, 2}) {
      const std::string text = to_json(model, indent);
      const RecommendationModel again = parse_recommendation_model(text, "again.json");
      EXPECT_EQ(to_json(again, indent), text);
      EXPECT_EQ(again.name, model.name);
      EXPECT_EQ(again.title, model.title);
      EXPECT_EQ(again.table_parameters(), model.table_parameters());
      EXPECT_EQ(again.top_parameters(), model.top_parameters());
    }
  }
}

TEST(RecommendationModels, DlrmDcnv2HasTheSizesOfTheReference) {
  const auto model = find_recommendation_model("dlrm-dcnv2");
  ASSERT_TRUE(model);
  ASSERT_EQ(model->tables.size(), 26U);
  std::int64_t rows = 0;
  std::int64_t ids = 0;
  for (const EmbeddingTable& table : model->tables) {
    rows += table.rows;
    ids += table.ids_per_sample;
    EXPECT_EQ(table.width, 128);
  }
  // The reference's list, summed up; the multi-hot sizes sum up to what torchrec's pull request
  // 4587 calls the pool sum.
  EXPECT_EQ(rows, 204'184'588);
  EXPECT_EQ(ids, 214);
  EXPECT_EQ(model->table_parameters(), 26'135'627'264);
  // Of the reference's modules: three linear layers; V, W and bias of three cross layers over
  // 27 vectors; five linear layers.
  EXPECT_EQ(model->bottom_parameters(), 7'168 + 131'328 + 32'896);
  EXPECT_EQ(model->top_parameters(),
            3 * (1'769'472 + 1'769'472 + 3'456) + 3'539'968 + 1'049'600 + 524'800 + 131'328 + 257);
}

TEST(RecommendationModels, DlrmMiniIsSmallAndHasAllKindsOfTables) {
  const auto model = find_recommendation_model("dlrm-mini");
  ASSERT_TRUE(model);
  EXPECT_LT(model->table_parameters() * 4, 64 << 20);
  EXPECT_LT(model->bottom_parameters() + model->top_parameters(), 50'000);
  const auto has = [&](auto which) { return std::ranges::any_of(model->tables, which); };
  EXPECT_TRUE(has([](const EmbeddingTable& table) { return table.id_count == IdCount::uniform; }));
  EXPECT_TRUE(has([](const EmbeddingTable& table) { return table.id_count == IdCount::fixed; }));
  EXPECT_TRUE(has([](const EmbeddingTable& table) { return table.skew > 1; }));
  EXPECT_TRUE(has([](const EmbeddingTable& table) { return table.skew == 0; }));
}

TEST(RecommendationModels, NameOrFile) {
  EXPECT_EQ(read_recommendation_model("dlrm-mini").name, "dlrm-mini");
  EXPECT_FALSE(find_recommendation_model("dlrm"));
  EXPECT_EQ(testing::input_error_of([] { read_recommendation_model("dlrm"); }),
            "--model: unknown recommendation model 'dlrm'; known, nearest first: dlrm-mini, "
            "dlrm-dcnv2; or give a file that ends in .json");
  const testing::TemporaryFolder folder;
  const std::string path = folder / "m.json";
  write_file(path, file_with(R"("name":"m",)", ""));
  EXPECT_EQ(read_recommendation_model(path).name, path);
}

TEST(RecommendationModels, TheFormatsExampleAndNamesAreTrue) {
  const RecommendationModel example = parse_recommendation_model(
      testing::format_example("Recommendation models: `pipesim-model`"), "FORMAT.md");
  EXPECT_EQ(example.tables.size(), 2U);
  const std::string format = read_file(testing::source_file("traces/FORMAT.md"));
  for (const RecommendationModel& model : known_recommendation_models()) {
    EXPECT_NE(format.find("`" + model.name + "`"), std::string::npos) << model.name;
  }
}

TEST(RecommendationModels, WrongFilesAreRefused) {
  EXPECT_EQ(error_with(R"("dense_features":4,)", ""),
            "m.json:1:1: key 'dense_features' is missing");
  EXPECT_EQ(error_with(R"("dense_features":4)", R"("dense_features":0)"),
            "m.json:1:82: dense_features: 0 is out of range: it must lie between 1 and 1048576");
  EXPECT_EQ(error_with("[8,2]", "[]"),
            "m.json:2:10: bottom: an empty list; give the width of at least one layer");
  EXPECT_EQ(error_with("[3,1]", "[3,2]"),
            "m.json:2:25: top[1]: the last layer has 2 numbers, but makes one, the logit; end with "
            "1");
  EXPECT_EQ(error_with(R"("dot")", R"("dots")"),
            "m.json:2:42: interaction: unknown interaction 'dots'; known, nearest first: dot, "
            "cross");
  EXPECT_EQ(error_with(R"("dot")", R"("cross")"), "m.json:1:1: key 'cross_layers' is missing");
  EXPECT_EQ(error_with(R"("dot",)", R"("dot","cross_rank":3,)"),
            "m.json:2:61: unknown key 'cross_rank'; known, nearest first: format, version, bottom, "
            "name, top, tables, title, dense_features, interaction");
  EXPECT_EQ(error_with(R"("skew":0.5)", R"("skew":-1)"),
            "m.json:3:80: tables[0].skew: -1 is out of range: it must lie between 0 and 4");
  EXPECT_EQ(error_with(R"("uniform")", R"("zipf")"),
            "m.json:3:63: tables[0].id_count: unknown id count 'zipf'; known, nearest first: "
            "fixed, uniform");
  EXPECT_EQ(error_with(R"("name":"b")", R"("name":"a")"),
            "m.json:4:1: tables[1]: there are two tables 'a'; give each a name of its own");
  EXPECT_EQ(error_with(R"("name":"b")", R"("name":"")"),
            "m.json:4:9: tables[1].name: is empty; give the table a name");
  EXPECT_EQ(error_with(R"("rows":20)", R"("rows":20,"width":4)"),
            "m.json:4:31: tables[1].width: rows of table 'b' have 4 numbers, but the bottom MLP "
            "ends with 2, and the interaction needs as many; give 2, or omit it");
  EXPECT_EQ(error_with(R"("rows":20)", R"("rows":281474976710656)"),
            "m.json:4:1: tables[1]: tables up to 'b' have more than 1.0 PiB; use fewer or "
            "smaller ones");
  EXPECT_EQ(error_with(R"("rows":20)", R"("rows":20,"row":1)"),
            "m.json:4:29: tables[1]: unknown key 'row'; known, nearest first: rows, skew, name, "
            "width, id_count, ids_per_sample");
  EXPECT_EQ(error_with("[8,2]",
                       "[1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576,1048576,1048576,1048576,1048576,1048576,"
                       "1048576,1048576]"),
            "m.json:2:10: bottom: 65 layers are more than 64; give fewer");
}

}  // namespace
}  // namespace pipesim
