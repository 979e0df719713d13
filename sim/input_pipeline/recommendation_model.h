// A recommendation model: embedding tables, and a dense part below and above their interaction.
// Dense features pass through the bottom MLP; for each table the rows of a sample's ids are summed;
// the interaction combines the bottom's output with all of them, and the top MLP makes one number
// of that, the logit of a click (Naumov et al., "Deep Learning Recommendation Model for
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
  uniform,  // any from 0 to twice the mean, uniformly
};

struct EmbeddingTable {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t width = 0;           // numbers per row
  std::int64_t ids_per_sample = 1;  // the mean
  IdCount id_count = IdCount::fixed;
  // The k-th most popular row is used in proportion to k^-skew: 0 for uniform. A seed determines
  // which row that is.
  double skew = 0;

  std::int64_t bytes() const { return rows * width * 4; }
};

enum class Interaction : std::uint8_t {
  dot,    // the bottom's output, and the dot products of all pairs among it and the pooled rows
  cross,  // low-rank cross layers over all of them concatenated (Wang et al., "DCN V2", 2021)
};

// How tables are updated after each batch.
enum class TableOptimizer : std::uint8_t {
  sgd,
  row_wise_adagrad,  // one number per row: the sum of the mean squares of its gradients
};
std::vector<std::string> known_table_optimizers();
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
  // Inputs of the top MLP, per sample.
  std::int64_t interacted() const;
  // The dense part's parameters: below and above the interaction.
  std::int64_t bottom_parameters() const;
  std::int64_t top_parameters() const;  // cross layers included
  std::int64_t table_parameters() const;
};

// `pipesim-model` with tables, in traces/FORMAT.md. Read strictly; `file` names the text in
// errors, and the model if it has no name.
RecommendationModel parse_recommendation_model(std::string_view text, const std::string& file);
std::string to_json(const RecommendationModel& model, int indent = -1);

// The models known by name: dlrm-mini, dlrm-dcnv2.
const std::vector<RecommendationModel>& known_recommendation_models();
std::vector<std::string> recommendation_model_names();
// Of these and of models that are no recommendation models, for flags that take either.
std::vector<std::string> all_model_names();
std::optional<RecommendationModel> find_recommendation_model(const std::string& name);
// A known name, or a file: a name that ends in .json or contains a slash.
RecommendationModel read_recommendation_model(const std::string& name_or_file);

}  // namespace pipesim
