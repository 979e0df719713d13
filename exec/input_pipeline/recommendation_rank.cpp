#include "exec/input_pipeline/recommendation_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/device/devices.h"
#include "exec/input_pipeline/saved_input.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

std::vector<Bytes> same_for_all(std::span<const std::byte> bytes, int ranks) {
  return std::vector<Bytes>(static_cast<std::size_t>(ranks), Bytes(bytes.begin(), bytes.end()));
}

}  // namespace

Device& DevicesByThread::here() {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Device>& device = devices_[std::this_thread::get_id()];
  if (!device) device = make_device("cpu");
  device->enter_thread();  // it may have belonged to a thread that has ended
  return *device;
}

RecommendationWorkload::RecommendationWorkload(const RecommendationTraining& training,
                                               const BatchSource& source, int rank)
    : training_(training),
      source_(source),
      rank_(rank),
      tables_(training, rank),
      dense_(training.model),
      parameters_(dense_.initial(devices_.here(), training.seed)),
      gradients_(dense_.zeros()) {}

void RecommendationWorkload::start(std::int64_t first_batch, int batches) {
  check_batches(source_, first_batch + batches, training_.batch_size, training_.ranks);
  if (batches_under_way() != 0) {
    throw work_error(fmt::format("rank {}: batch {} of the program before has not ended", rank_,
                                 batches_.begin()->first));
  }
  first_batch_ = first_batch;
  step(Kind::ZERO_GRAD, nullptr);  // which a program needs only after its first step
  losses_.assign(static_cast<std::size_t>(batches), 0);
}

void RecommendationWorkload::run(const Action& action, InputExchange* exchange) {
  switch (action.kind) {
    case Kind::NEXT: return take_next(action.microbatch);
    case Kind::ZERO_GRAD:
    case Kind::REDUCE_TOP:
    case Kind::REDUCE_BOTTOM:
    case Kind::DENSE_STEP: return step(action.kind, exchange);
    case Kind::BOTTOM:
    case Kind::TOP:
    case Kind::TOP_BACKWARD:
    case Kind::BOTTOM_BACKWARD: run_dense(action, find(action)); break;
    default: run_on_tables(action.kind, find(action), exchange); break;
  }
  if (action.kind == Kind::UPDATE || action.kind == Kind::BOTTOM_BACKWARD) {
    end_use(action.microbatch);
  }
}

void RecommendationWorkload::take_next(std::int32_t number) {
  auto batch = std::make_unique<Batch>();
  batch->host =
      read_batch(source_, first_batch_ + number, training_.batch_size, rank_, training_.ranks);
  const std::lock_guard lock(mutex_);
  held_.batches += batch->host.bytes();
  most_held_.batches = std::max(most_held_.batches, held_.batches);
  if (!batches_.emplace(number, std::move(batch)).second) {
    throw work_error(fmt::format("rank {}: batch {} is taken twice", rank_, number));
  }
}

RecommendationWorkload::Batch& RecommendationWorkload::find(const Action& action) {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(action.microbatch);
  if (found != batches_.end()) return *found->second;
  throw work_error(fmt::format("rank {}: {} comes before NEXT{} or after the batch's last use",
                               rank_, to_text(action), action.microbatch));
}

void RecommendationWorkload::check_ids(const InputBatch& batch) const {
  for (std::size_t t = 0; t < batch.ids.size(); ++t) {
    const EmbeddingTable& table = training_.model.tables[t];
    for (const std::int64_t id : batch.ids[t].values) {
      if (id >= 0 && id < table.rows) continue;
      throw input_error(fmt::format("{}: id {} is not in table '{}', whose ids are 0 to {}",
                                    source_.name(), id, printable(table.name), table.rows - 1));
    }
  }
}

void RecommendationWorkload::run_on_tables(Kind kind, Batch& batch, InputExchange* exchange) {
  TableBatch& tables = batch.tables;
  switch (kind) {
    case Kind::COPY:
      batch.copied = batch.host;
      batch.host = {};
      return;
    case Kind::PREPARE: return check_ids(batch.copied);
    case Kind::SPLITS: tables_.exchange_splits(batch.copied, tables, *exchange); break;
    case Kind::READ: return ShardedTables::read_splits(tables);
    case Kind::IDS: tables_.exchange_ids(tables, *exchange); break;
    case Kind::PREFETCH: {
      const std::int64_t rows = tables_.prefetch(batch.copied, tables);
      const std::lock_guard lock(mutex_);
      prefetched_rows_ += rows;
      return;
    }
    case Kind::LOOKUP: tables_.look_up(batch.copied, tables); break;
    case Kind::OUTPUT: tables_.exchange_pooled(tables, *exchange); break;
    case Kind::OUTPUT_BACKWARD:
      tables_.exchange_gradients(batch.copied, batch.dense.by_pooled, tables, *exchange);
      break;
    case Kind::UPDATE:
      tables_.update(tables);
      tables = {};
      break;
    default: break;
  }
  count(batch.table_bytes, tables.bytes());
}

void RecommendationWorkload::run_dense(const Action& action, Batch& batch) {
  Device& device = devices_.here();
  DenseActivations& activations = batch.dense;
  switch (action.kind) {
    case Kind::BOTTOM:
      dense_.bottom_forward(device, batch.copied.dense, parameters_.bottom, activations);
      break;
    case Kind::TOP:
      dense_.top_forward(device, batch.tables.pooled, batch.copied.labels, parameters_.top,
                         activations);
      losses_.at(static_cast<std::size_t>(action.microbatch)) = activations.loss;
      break;
    case Kind::TOP_BACKWARD:
      dense_.top_backward(device, batch.copied.labels, training_.gradient_scale(), parameters_.top,
                          activations, gradients_.top);
      break;
    default:
      dense_.bottom_backward(device, batch.copied.dense, parameters_.bottom, activations,
                             gradients_.bottom);
      // An exchange may still read those.
      activations.drop_saved();
      break;
  }
  count(batch.dense_bytes, activations.bytes());
}

void RecommendationWorkload::step(Kind kind, InputExchange* exchange) {
  switch (kind) {
    case Kind::ZERO_GRAD:
      std::ranges::fill(gradients_.bottom, 0.0F);
      std::ranges::fill(gradients_.top, 0.0F);
      break;
    case Kind::REDUCE_TOP: return sum_over_ranks(gradients_.top, *exchange);
    case Kind::REDUCE_BOTTOM: return sum_over_ranks(gradients_.bottom, *exchange);
    default:
      step_by_sgd(training_.learning_rate, gradients_.bottom, parameters_.bottom);
      step_by_sgd(training_.learning_rate, gradients_.top, parameters_.top);
      break;
  }
}

double RecommendationWorkload::evaluate(const BatchSource& source, std::int64_t first_batch,
                                        int batches, InputExchange& exchange) {
  check_batches(source, first_batch + batches, training_.batch_size, training_.ranks);
  Device& device = devices_.here();
  double sum = 0;
  for (std::int64_t b = first_batch; b < first_batch + batches; ++b) {
    const InputBatch batch = read_batch(source, b, training_.batch_size, rank_, training_.ranks);
    TableBatch tables;
    tables_.exchange_splits(batch, tables, exchange);
    ShardedTables::read_splits(tables);
    tables_.exchange_ids(tables, exchange);
    tables_.look_up(batch, tables);
    tables_.exchange_pooled(tables, exchange);
    DenseActivations activations;
    dense_.bottom_forward(device, batch.dense, parameters_.bottom, activations);
    dense_.top_forward(device, tables.pooled, batch.labels, parameters_.top, activations);
    sum += activations.loss;
  }
  double all = 0;
  const auto own = std::as_bytes(std::span(&sum, 1));
  for (const Bytes& bytes : exchange.all_to_all(same_for_all(own, exchange.ranks()))) {
    all += values_of<double>(bytes).front();
  }
  return all / (static_cast<double>(batches) * exchange.ranks());
}

std::vector<SavedArray> RecommendationWorkload::saved_arrays() {
  return exec::saved_arrays(training_, rank_, tables_, parameters_);
}

void RecommendationWorkload::load(const CheckpointReader& checkpoint) {
  exec::load(checkpoint, training_, tables_, parameters_);
}

void RecommendationWorkload::count(std::int64_t& counted, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_.buffers += bytes - counted;
  most_held_.buffers = std::max(most_held_.buffers, held_.buffers);
  counted = bytes;
}

void RecommendationWorkload::end_use(std::int32_t number) {
  std::unique_ptr<Batch> ended;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(number);
  if (--found->second->last_uses > 0) return;
  held_.batches -= found->second->copied.bytes();
  held_.buffers -= found->second->dense_bytes;
  ended = std::move(found->second);
  batches_.erase(found);
}

InputMemory RecommendationWorkload::memory() const {
  const std::lock_guard lock(mutex_);
  const auto dense = static_cast<std::int64_t>(parameters_.bottom.size() + parameters_.top.size());
  return {.tables = tables_.bytes(),
          .optimizer = tables_.state_bytes(),
          .dense = dense * 2 * 4,  // with gradients
          .batches = most_held_.batches,
          .buffers = most_held_.buffers};
}

std::size_t RecommendationWorkload::batches_under_way() const {
  const std::lock_guard lock(mutex_);
  return batches_.size();
}

std::int64_t RecommendationWorkload::prefetched_rows() const {
  const std::lock_guard lock(mutex_);
  return prefetched_rows_;
}

void sum_over_ranks(std::vector<float>& numbers, InputExchange& exchange) {
  const int ranks = exchange.ranks();
  const auto size = static_cast<std::int64_t>(numbers.size());
  const auto part = [&](int rank) {
    const std::int64_t begin = size * rank / ranks;
    return std::span(numbers).subspan(static_cast<std::size_t>(begin),
                                      static_cast<std::size_t>(size * (rank + 1) / ranks - begin));
  };
  std::vector<Bytes> given;
  for (int r = 0; r < ranks; ++r) {
    const auto bytes = std::as_bytes(part(r));
    given.emplace_back(bytes.begin(), bytes.end());
  }
  const std::span<float> own = part(exchange.rank());
  std::ranges::fill(own, 0.0F);
  for (const Bytes& bytes : exchange.all_to_all(std::move(given))) {
    const std::vector<float> values = values_of<float>(bytes);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += values[i];
  }
  const std::vector<Bytes> got = exchange.all_to_all(same_for_all(std::as_bytes(own), ranks));
  for (int r = 0; r < ranks; ++r) {
    const Bytes& bytes = got[static_cast<std::size_t>(r)];
    if (!bytes.empty()) std::memcpy(part(r).data(), bytes.data(), bytes.size());
  }
}

}  // namespace pipesim::exec
