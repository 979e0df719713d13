// Generated batches: each sample from seed and number.
#include <cmath>
#include <numbers>

#include "exec/input_pipeline/input_batch.h"
#include "sim/input_pipeline/id_distribution.h"

namespace pipesim::exec {
namespace {

// Streams of random words; ids have those of their tables, from 0.
constexpr std::uint64_t sample_stream = std::uint64_t{1} << 32;
constexpr std::uint64_t feature_rule_stream = sample_stream + 1;
constexpr std::uint64_t id_rule_stream = std::uint64_t{1}
                                         << 33;  // and the following ones, by table

// The method of Box and Muller, 1958.
double draw_normal(IdRandom& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.real()));
  return radius * std::cos(2 * std::numbers::pi * random.real());
}

class BatchGenerator final : public BatchSource {
 public:
  BatchGenerator(const RecommendationModel& model, std::uint64_t seed)
      : seed_(seed), features_(model.dense_features) {
    for (std::int64_t i = 0; i < features_; ++i) {
      IdRandom random(seed, feature_rule_stream, static_cast<std::uint64_t>(i));
      feature_rule_.push_back(draw_normal(random));
    }
    for (const EmbeddingTable& table : model.tables) {
      ids_.emplace_back(table, static_cast<int>(ids_.size()), seed);
    }
  }

  std::string name() const override { return "generated batches"; }
  std::optional<std::int64_t> samples() const override { return {}; }

  InputBatch read(std::int64_t first, std::int64_t count) const override {
    InputBatch batch;
    batch.dense.reserve(static_cast<std::size_t>(count * features_));
    batch.labels.reserve(static_cast<std::size_t>(count));
    batch.ids.resize(ids_.size());
    for (std::int64_t sample = first; sample < first + count; ++sample) add(sample, batch);
    return batch;
  }

 private:
  void add(std::int64_t sample, InputBatch& batch) const {
    constexpr double noise = 0.25;
    IdRandom random(seed_, sample_stream, static_cast<std::uint64_t>(sample));
    double by_features = 0;
    for (const double rule : feature_rule_) {
      batch.dense.push_back(static_cast<float>(draw_normal(random)));
      by_features += rule * batch.dense.back();
    }
    double by_ids = 0;
    for (std::size_t t = 0; t < ids_.size(); ++t) {
      IdLists& lists = batch.ids[t];
      const std::int64_t count = ids_[t].append(sample, lists.values);
      lists.lengths.push_back(count);
      for (std::int64_t i = 1; i <= count; ++i) {
        const auto id = static_cast<std::uint64_t>(*(lists.values.end() - i));
        IdRandom rule(seed_, id_rule_stream + t, id);
        by_ids += draw_normal(rule) / static_cast<double>(count);
      }
    }
    // Features and ids have equal weight.
    const double score = by_features / std::sqrt(static_cast<double>(features_)) +
                         by_ids / std::sqrt(static_cast<double>(ids_.size())) +
                         noise * draw_normal(random);
    batch.labels.push_back(score > 0 ? 1.0F : 0.0F);
  }

  std::uint64_t seed_;
  std::int64_t features_;
  std::vector<double> feature_rule_;
  std::vector<IdDistribution> ids_;
};

}  // namespace

std::unique_ptr<BatchSource> make_batch_generator(const RecommendationModel& model,
                                                  std::uint64_t seed) {
  return std::make_unique<BatchGenerator>(model, seed);
}

}  // namespace pipesim::exec
