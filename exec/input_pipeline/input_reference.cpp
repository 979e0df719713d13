#include "exec/input_pipeline/input_reference.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "exec/device/devices.h"
#include "exec/input_pipeline/recommendation_rank.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

// The ids of each sample.
std::vector<std::vector<std::int64_t>> by_sample(const IdLists& lists) {
  std::vector<std::vector<std::int64_t>> samples;
  auto next = lists.values.begin();
  for (const std::int64_t length : lists.lengths) {
    samples.emplace_back(next, next + length);
    next += length;
  }
  return samples;
}

void add_to(std::vector<float>& sum, const float* numbers) {
  for (float& number : sum) number += *numbers++;
}

bool same_bits(float one, float other) {
  return std::bit_cast<std::uint32_t>(one) == std::bit_cast<std::uint32_t>(other);
}

std::string difference_in(const char* what, const std::vector<float>& got,
                          const std::vector<float>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (same_bits(got[i], wanted[i])) continue;
    return fmt::format("parameter {} {} the interaction is {} instead of {}", i, what, got[i],
                       wanted[i]);
  }
  return {};
}

}  // namespace

InputReference::InputReference(const RecommendationTraining& training)
    : training_(training), device_(make_device("cpu")), dense_(training.model) {
  for (std::size_t t = 0; t < training.model.tables.size(); ++t) {
    const EmbeddingTable& spec = training.model.tables[t];
    Table table;
    table.spec = spec;
    table.sharding = training.plan.tables[t];
    table.weights.resize(static_cast<std::size_t>(spec.rows * spec.width));
    for (std::int64_t row = 0; row < spec.rows; ++row) {
      fill_initial_row(training.seed, static_cast<int>(t), spec, row, 0, spec.width,
                       table.weights.data() + row * spec.width);
    }
    const bool divides_columns = table.sharding.sharding == ShardingType::column_wise;
    table.states.assign(divides_columns ? table.sharding.ranks.size() : 1,
                        std::vector<float>(static_cast<std::size_t>(spec.rows)));
    tables_.push_back(std::move(table));
  }
  parameters_ = dense_.initial(*device_, training.seed);
}

std::vector<std::vector<double>> InputReference::train(const BatchSource& source,
                                                       std::int64_t first_batch, int batches,
                                                       bool is_stale) {
  device_->enter_thread();
  const std::vector<DenseNumbers> zeros(static_cast<std::size_t>(training_.ranks), dense_.zeros());
  std::vector<DenseNumbers> gradients = zeros;  // by rank
  std::vector<std::vector<double>> losses;
  Step step, next;
  if (is_stale && batches > 0) {
    next = read(source, first_batch);
    look_up(next);
  }
  for (int b = 0; b < batches; ++b) {
    if (is_stale) {
      step = std::exchange(next, {});
    } else {
      step = read(source, first_batch + b);
      look_up(step);
    }
    losses.push_back(train_dense(step, gradients));
    if (is_stale && b + 1 < batches) {
      next = read(source, first_batch + b + 1);
      look_up(next);
    }
    for (std::size_t t = 0; t < tables_.size(); ++t) update_table(t, step);
    if ((b + 1) % training_.accumulate == 0 || b + 1 == batches) {
      step_dense(gradients);
      gradients = zeros;
    }
  }
  return losses;
}

InputReference::Step InputReference::read(const BatchSource& source, std::int64_t batch) const {
  Step step;
  for (int r = 0; r < training_.ranks; ++r) {
    step.batches.push_back(read_batch(source, batch, training_.batch_size, r, training_.ranks));
  }
  return step;
}

void InputReference::look_up(Step& step) const {
  for (const InputBatch& batch : step.batches) {
    const std::size_t of_sample =
        tables_.size() * static_cast<std::size_t>(training_.model.width());
    std::vector<float> pooled(static_cast<std::size_t>(batch.samples()) * of_sample);
    float* of_table = pooled.data();
    for (std::size_t t = 0; t < tables_.size(); ++t, of_table += training_.model.width()) {
      float* to = of_table;
      for (const std::vector<std::int64_t>& ids : by_sample(batch.ids[t])) {
        const Row row = pool(tables_[t], ids);
        std::copy(row.begin(), row.end(), to);
        to += of_sample;
      }
    }
    step.pooled.push_back(std::move(pooled));
  }
}

InputReference::Row InputReference::pool(const Table& table,
                                         const std::vector<std::int64_t>& ids) const {
  const auto width = static_cast<std::size_t>(table.spec.width);
  const bool divides_rows = table.sharding.sharding == ShardingType::row_wise;
  const int parts = divides_rows ? training_.ranks : 1;
  Row sum(width);
  for (int part = 0; part < parts; ++part) {
    Row of_part(width);
    for (const std::int64_t id : ids) {
      if (part_of_row(table.spec.rows, parts, id) != part) continue;
      add_to(of_part, table.weights.data() + id * table.spec.width);
    }
    add_to(sum, of_part.data());
  }
  return sum;
}

std::vector<double> InputReference::train_dense(Step& step,
                                                std::vector<DenseNumbers>& gradients) const {
  std::vector<double> losses;
  for (std::size_t r = 0; r < step.batches.size(); ++r) {
    const InputBatch& batch = step.batches[r];
    DenseActivations activations;
    dense_.bottom_forward(*device_, batch.dense, parameters_.bottom, activations);
    dense_.top_forward(*device_, step.pooled[r], batch.labels, parameters_.top, activations);
    dense_.top_backward(*device_, batch.labels, training_.gradient_scale(), parameters_.top,
                        activations, gradients[r].top);
    dense_.bottom_backward(*device_, batch.dense, parameters_.bottom, activations,
                           gradients[r].bottom);
    losses.push_back(activations.loss);
    step.by_pooled.push_back(std::move(activations.by_pooled));
  }
  return losses;
}

void InputReference::update_table(std::size_t index, const Step& step) {
  Table& table = tables_[index];
  const Row zeros(static_cast<std::size_t>(table.spec.width));
  const auto add = [&](std::map<std::int64_t, Row>& sums, std::int64_t row, const float* gradient) {
    add_to(sums.emplace(row, zeros).first->second, gradient);
  };
  std::map<std::int64_t, Row> sums;
  for (std::size_t r = 0; r < step.batches.size(); ++r) {
    std::map<std::int64_t, Row> of_rank;
    const bool is_copied = table.sharding.sharding == ShardingType::data_parallel;
    const float* gradient =
        step.by_pooled[r].data() + index * static_cast<std::size_t>(table.spec.width);
    for (const std::vector<std::int64_t>& ids : by_sample(step.batches[r].ids[index])) {
      for (const std::int64_t id : ids) add(is_copied ? of_rank : sums, id, gradient);
      gradient += tables_.size() * static_cast<std::size_t>(table.spec.width);
    }
    for (const auto& [row, sum] : of_rank) add(sums, row, sum.data());
  }
  for (const auto& [row, gradient] : sums) step_row(training_, table, row, gradient);
}

void InputReference::step_row(const RecommendationTraining& training, Table& table,
                              std::int64_t row, const Row& gradient) {
  const std::size_t columns = gradient.size() / table.states.size();
  float* weights = table.weights.data() + row * table.spec.width;
  for (std::size_t part = 0; part < table.states.size(); ++part) {
    float rate = training.table_learning_rate;
    if (training.table_optimizer == TableOptimizer::row_wise_adagrad) {
      float squares = 0;
      for (std::size_t c = part * columns; c < (part + 1) * columns; ++c) {
        squares += gradient[c] * gradient[c];
      }
      float& state = table.states[part][static_cast<std::size_t>(row)];
      state += squares / static_cast<float>(columns);
      rate = rate / (std::sqrt(state) + training.epsilon);
    }
    for (std::size_t c = part * columns; c < (part + 1) * columns; ++c) {
      weights[c] -= rate * gradient[c];
    }
  }
}

void InputReference::step_dense(const std::vector<DenseNumbers>& gradients) {
  DenseNumbers sums = dense_.zeros();
  for (const DenseNumbers& of_rank : gradients) {
    add_to(sums.bottom, of_rank.bottom.data());
    add_to(sums.top, of_rank.top.data());
  }
  step_by_sgd(training_.learning_rate, sums.bottom, parameters_.bottom);
  step_by_sgd(training_.learning_rate, sums.top, parameters_.top);
}

std::string InputReference::first_difference(const RecommendationWorkload& workload) const {
  const ShardedTables& tables = workload.tables();
  for (const auto* parts : {&tables.exchanged(), &tables.copies()}) {
    for (const ShardedTables::Part& part : *parts) {
      const Table& table = tables_[static_cast<std::size_t>(part.piece.table)];
      const float* got = part.weights.data();
      for (std::int64_t row = part.piece.row_begin; row < part.piece.row_end; ++row) {
        for (std::int64_t c = part.piece.column_begin; c < part.piece.column_end; ++c, ++got) {
          const float wanted = table.weights[static_cast<std::size_t>(row * table.spec.width + c)];
          if (same_bits(*got, wanted)) continue;
          return fmt::format("table '{}': column {} of row {} is {} instead of {}",
                             printable(table.spec.name), c, row, *got, wanted);
        }
      }
    }
  }
  const std::string below =
      difference_in("below", workload.parameters().bottom, parameters_.bottom);
  return below.empty() ? difference_in("above", workload.parameters().top, parameters_.top) : below;
}

}  // namespace pipesim::exec
