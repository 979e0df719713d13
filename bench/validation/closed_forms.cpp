#include "bench/validation/closed_forms.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/cost/estimate/cost_model.h"
#include "traces/base/files.h"

namespace pipesim::validation {
namespace {

struct BlockShape {
  std::int64_t sequence, batch, hidden, heads;
  int split;
};

constexpr BlockShape shapes[] = {{2048, 4, 6144, 64, 8},
                                 {2048, 1, 12288, 96, 8},
                                 {1024, 3, 2048, 16, 2},
                                 {4096, 2, 5120, 40, 4}};

double closed_form(const BlockShape& of, const Training& training) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double sbh = number(of.sequence * of.batch * of.hidden);
  if (training.recompute == Recompute::full) return 2 * sbh;
  const double t = training.tensor_parallel;
  const double rest = training.sequence_parallel ? 34 / t : 10 + 24 / t;
  const double scores = 5 * number(of.heads * of.sequence) / (number(of.hidden) * t);
  return sbh * (training.recompute == Recompute::selective ? rest : rest + scores);
}

Recompute recompute_of(const std::string& name) {
  return name == "full"        ? Recompute::full
         : name == "selective" ? Recompute::selective
                               : Recompute::none;
}

}  // namespace

std::vector<BytesRow> activation_bytes(const std::string& folder, const Cluster& cluster) {
  const auto file = nlohmann::json::parse(read_file(folder + "/korthikanti_2022.json"));
  std::vector<BytesRow> rows;
  for (const auto& form : file.at("activation_bytes")) {
    for (const BlockShape& shape : shapes) {
      Model model;
      model.hidden_size = shape.hidden;
      model.heads = shape.heads;
      model.kv_heads = shape.heads;
      model.mlp_size = 4 * shape.hidden;
      model.max_sequence_length = shape.sequence;
      model.dropout_ppm = 100'000;
      Training training;
      training.micro_batch_size = shape.batch;
      training.sequence_length = shape.sequence;
      training.tensor_parallel = form.at("tensor_parallel").get<bool>() ? shape.split : 1;
      training.sequence_parallel = form.at("sequence_parallel");
      training.recompute = recompute_of(form.at("recompute"));
      constexpr int first_block = 1;
      const CostModel estimate(model, cluster, training);
      rows.push_back(
          {.name = form.at("name"),
           .formula = form.at("formula"),
           .shape = fmt::format("s {}, b {}, h {}, a {}, t {}", shape.sequence, shape.batch,
                                shape.hidden, shape.heads, training.tensor_parallel),
           .closed_form = std::llround(closed_form(shape, training)),
           .computed = estimate.layer(first_block).costs.activation_bytes});
    }
  }
  return rows;
}

}  // namespace pipesim::validation
