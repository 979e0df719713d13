// A recommendation model: tables of embeddings, a dense part below and above their interaction.
//
// Dense features pass the bottom MLP; of each table the rows of a sample's ids are summed up;
// the interaction joins the bottom's output with all of them, and the top MLP makes one number
// of it, the logit of a click (Naumov et al., "Deep Learning Recommendation Model for
// Personalization and Recommendation Systems", 2019). All numbers are float32. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

// How many ids a sample has for a table.
enum class IdCount : std::uint8_t {
  fixed,    // the same for each
  uniform,  // any from 0 to twice the mean, alike
};

struct EmbeddingTable {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t width = 0;           // numbers of a row
  std::int64_t ids_per_sample = 1;  // the mean
  IdCount id_count = IdCount::fixed;
  // The k-th most popular row is asked for in proportion to k^-skew: 0 for all alike. Which row
  // that is, a seed says.
  double skew = 0;

  std::int64_t bytes() const { return rows * width * 4; }
};

enum class Interaction : std::uint8_t {
  dot,    // the bottom's output, and the products of all pairs of it and pooled rows
  cross,  // low-rank cross layers over all of them side by side (Wang et al., "DCN V2", 2021)
};

// How tables learn, with each batch.
enum class TableOptimizer : std::uint8_t {
  sgd,
  row_wise_adagrad,  // one number a row: the mean of its gradients' squares, added up
};
// "sgd", "adagrad"; `where` names the flag or key in an error.
std::string_view table_optimizer_name(TableOptimizer optimizer);
TableOptimizer parse_table_optimizer(std::string_view name, std::string_view where);

struct RecommendationModel {
  std::string name;
  std::string title{};
  std::int64_t dense_features = 0;
  std::vector<std::int64_t> bottom{};  // widths of its layers; the last is every table's width
  std::vector<std::int64_t> top{};     // the last is 1
  Interaction interaction = Interaction::dot;
  int cross_layers = 0;  // of `cross`
  std::int64_t cross_rank = 0;
  std::vector<EmbeddingTable> tables{};

  std::int64_t width() const { return bottom.back(); }
  // Numbers that go into the top MLP, of a sample.
  std::int64_t interacted() const;
  // Numbers of the dense part's parameters: below and above the interaction.
  std::int64_t bottom_parameters() const;
  std::int64_t top_parameters() const;  // cross layers included
  std::int64_t table_parameters() const;
};

// `pipesim-recommendation-model`, in traces/FORMAT.md. Read strictly; `file` names the text in
// errors, and a model that has no name.
RecommendationModel parse_recommendation_model(std::string_view text, const std::string& file);
std::string to_json(const RecommendationModel& model, int indent = -1);

// The models known by name: dlrm-mini, dlrm-dcnv2.
const std::vector<RecommendationModel>& known_recommendation_models();
std::optional<RecommendationModel> find_recommendation_model(const std::string& name);
// A known name, or a file: what ends in .json or holds a slash.
RecommendationModel read_recommendation_model(const std::string& name_or_file);

}  // namespace pipesim
