#include "sim/cost/estimate/expert_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/cost/estimate/training.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Of the fullest of equal blocks of neighbours, relative to the mean.
double fullest(const std::vector<double>& shares, std::int64_t ranks) {
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const std::int64_t each = std::ssize(shares) / ranks;
  double most = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto first = shares.begin() + rank * each;
    most = std::max(most, std::accumulate(first, first + each, 0.0));
  }
  return most * static_cast<double>(ranks) / all;
}

// Popularity has nothing to do with the order of experts: neighbours are far apart in it.
std::vector<double> zipf_shares(std::int64_t experts, double exponent) {
  std::int64_t step =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(0.618034 * static_cast<double>(experts)));
  while (std::gcd(step, experts) != 1) ++step;
  std::vector<double> shares;
  for (std::int64_t i = 0; i < experts; ++i) {
    shares.push_back(std::pow(static_cast<double>(1 + i * step % experts), -exponent));
  }
  return shares;
}

ExpertLoad read_counts(const std::string& path) {
  std::vector<std::vector<double>> layers;
  std::int64_t line_number = 0;
  const std::string text = read_file(path);
  for (std::string_view line : split(text, '\n')) {
    ++line_number;
    std::vector<double> counts;
    for (const std::string_view part : split(line, ',')) {
      for (const std::string_view word : split(part, ' ')) {
        if (strip(word).empty()) continue;
        const auto count = number_between(strip(word), 0, 1e15);
        if (!count) {
          throw input_error(
              fmt::format("{}: line {}: {} is no number of tokens; give one for each "
                          "expert, separated by commas or blanks",
                          printable(path), line_number, quote(word)));
        }
        counts.push_back(*count);
      }
    }
    if (counts.empty()) continue;
    if (std::accumulate(counts.begin(), counts.end(), 0.0) <= 0) {
      throw input_error(
          fmt::format("{}: line {}: no expert has a token", printable(path), line_number));
    }
    if (!layers.empty() && layers.front().size() != counts.size()) {
      throw input_error(fmt::format("{}: line {}: {} counts, but the first line has {}",
                                    printable(path), line_number, counts.size(),
                                    layers.front().size()));
    }
    layers.push_back(std::move(counts));
  }
  if (layers.empty()) {
    throw input_error(
        fmt::format("{}: no counts; give a line of them for each layer", printable(path)));
  }
  ExpertLoad load{.name = path};
  load.counts = std::make_shared<const std::vector<std::vector<double>>>(std::move(layers));
  return load;
}

}  // namespace

double ExpertLoad::imbalance(std::int64_t experts, std::int64_t ranks) const {
  if (ranks == 1) return 1;
  if (counts) {
    double sum = 0;
    for (const std::vector<double>& layer : *counts) sum += fullest(layer, ranks);
    return sum / static_cast<double>(counts->size());
  }
  if (exponent > 0) return fullest(zipf_shares(experts, exponent), ranks);
  return std::min(factor, static_cast<double>(ranks));
}

ExpertLoad parse_expert_load(const std::string& text) {
  constexpr double most_exponent = 8;
  if (text == "balanced") return {};
  if (text.starts_with("zipf:")) {
    const auto exponent = number_between(std::string_view(text).substr(5), 0, most_exponent);
    if (exponent && *exponent > 0) {
      return {.exponent = *exponent, .name = text};
    }
    throw input_error(
        fmt::format("--expert-load {}: the exponent is above 0 and at most {:g}, "
                    "such as zipf:0.5",
                    printable(text), most_exponent));
  }
  if (const auto factor = number_between(text, -1e9, 1e9)) {
    if (*factor >= 1) return {.factor = *factor, .name = text};
    throw input_error(
        fmt::format("--expert-load {}: the fullest rank gets at least the mean; give "
                    "1, which is balanced, or more",
                    printable(text)));
  }
  if (text.find('.') == std::string::npos && text.find('/') == std::string::npos) {
    throw input_error(
        fmt::format("--expert-load {}: give balanced, a factor such as 1.3, zipf:0.5 "
                    "or a file of token counts",
                    printable(text)));
  }
  return read_counts(text);
}

void check_expert_load(const ExpertLoad& load, const Model& model) {
  if (!load.counts) return;
  const std::int64_t layers = std::ssize(*load.counts);
  if (layers > 1 && layers != model.blocks_with_experts()) {
    throw input_error(fmt::format(
        "--expert-load {}: {}, but {} has {} with experts; give a line for each, or one",
        printable(load.name), plural(layers, "line"), model.name,
        plural(model.blocks_with_experts(), "block")));
  }
  if (std::ssize(load.counts->front()) == model.experts) return;
  throw input_error(fmt::format("--expert-load {}: counts of {}, but {} has {}",
                                printable(load.name), plural(load.counts->front().size(), "expert"),
                                model.name, model.experts));
}

ExpertRows expert_rows(const Model& model, const Training& training) {
  ExpertRows rows;
  const std::int64_t parts = training.split_experts();
  const std::int64_t split = training.tensor_parallel;
  // Without sequence parallelism every tensor-parallel rank has all tokens.
  rows.is_spread =
      training.expert_parallel > 1 || parts != split || (split > 1 && training.sequence_parallel);
  const std::int64_t all = training.tokens_per_rank();
  rows.tokens = rows.is_spread && training.sequence_parallel ? all / split : all;
  rows.experts = model.experts / training.expert_parallel;
  rows.copies = static_cast<double>(rows.tokens * model.experts_per_token);
  rows.imbalance = training.expert_load.imbalance(model.experts, training.expert_parallel);
  if (training.expert_capacity && rows.imbalance > *training.expert_capacity) {
    rows.dropped = 1 - *training.expert_capacity / rows.imbalance;
    rows.imbalance = *training.expert_capacity;
  }
  rows.rows =
      rows.copies * rows.imbalance * static_cast<double>(rows.is_spread ? parts : std::int64_t{1});
  rows.rows_each =
      static_cast<std::int64_t>(std::ceil(rows.rows / static_cast<double>(rows.experts)));
  return rows;
}

double distinct_groups(std::int64_t experts, std::int64_t per_token, std::int64_t groups) {
  // The share of choices that miss a group.
  double missing = 1;
  const std::int64_t others = experts - experts / groups;
  for (std::int64_t i = 0; i < per_token; ++i) {
    missing *= static_cast<double>(std::max<std::int64_t>(0, others - i)) /
               static_cast<double>(experts - i);
  }
  return static_cast<double>(groups) * (1 - missing);
}

}  // namespace pipesim
