#include "exec/run/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

#include "exec/run/saved_training.h"
#include "exec/transport/collectives.h"
#include "traces/base/error.h"

namespace pipesim::exec {

// Activations between layers, each at its place_of().
struct Reference::Sequences {
  std::vector<Microbatch> microbatches;
  std::vector<Tensor> passing;
  std::vector<std::vector<Saved>> saved;  // [layer]
};

namespace {

// Sums of a layer's gradients over replicas, in the order that ranks use: within blocks of those
// that shard states, and then over blocks.
class ReplicaSum {
 public:
  ReplicaSum(Device& device, Pool& pool, const Slice& gradients, int block)
      : device_(device), pool_(pool), gradients_(gradients), block_(block) {}

  // Call for replicas in order, with their sums in the gradients.
  void add(int replica) {
    add_to(block_sum_, gradients_);
    if (replica % block_ != block_ - 1) return;
    add_to(sum_, block_sum_.all());
    block_sum_ = {};
  }
  // The sum of all replicas since the last call.
  Tensor take() { return std::move(sum_); }

 private:
  void add_to(Tensor& sum, const Slice& more) {
    if (sum.empty()) {
      sum = pool_.take(more.size(), Use::gradients);
      device_.copy(more.size(), more.data(), sum.data());
    } else {
      device_.add(more.size(), sum.data(), more.data(), sum.data());
    }
  }

  Device& device_;
  Pool& pool_;
  Slice gradients_;
  int block_;
  Tensor block_sum_, sum_;
};

}  // namespace

Reference::Reference(const TrainingJob& training, Device& device)
    : training_(training),
      device_(device),
      pool_(device),
      turns_(device, training.tensor_parallel) {
  for (int i = 0; i < turns_.count(); ++i) shards_.push_back(make_shard(turns_.group(i)));
}

Reference::Shard Reference::make_shard(TensorGroup* group) {
  Shard shard{training_.layers(device_, pool_, group), {}, {}, {}, {}, {}};
  for (int i = 0; i < training_.model.layers(); ++i) {
    shard.layers.push_back(make_layer(shard.setup, i));
    shard.stores.push_back(std::make_unique<ParameterStore>(
        device_, pool_, training_.precision, std::vector<Layer*>{shard.layers.back().get()}));
  }
  for (Tensor* tensor : {&shard.tokens, &shard.targets, &shard.losses}) {
    *tensor = pool_.take(training_.tokens() * training_.most_passes(), Use::receive_buffer);
  }
  return shard;
}

Reference::~Reference() = default;

void Reference::load(const CheckpointReader& checkpoint) {
  for (const Shard& shard : shards_) {
    for (std::size_t i = 0; i < shard.stores.size(); ++i) {
      load_states(checkpoint, training_.model, device_, *shard.stores[i], {shard.layers[i].get()});
    }
  }
}

// By pass, then replica, then microbatch: the order of sequences.
std::size_t Reference::place_of(int pass, int replica, int microbatch) const {
  return static_cast<std::size_t>(training_.first_sequence(pass, replica, microbatch) /
                                  training_.micro_batch_size);
}

Reference::Order Reference::order_of_stage(int stage, int copy, int passes) const {
  Order order{{}};
  for (int pass = 0; pass < passes; ++pass) {
    for (const Action& action :
         training_.program.actions[training_.program.placement.rank_of(stage, copy)]) {
      if (action.stage != stage) continue;
      if (action.kind == Kind::W || action.kind == Kind::B) {
        order.back().push_back({pass, action.microbatch});
      } else if (action.kind == Kind::REDUCE_GRAD && training_.accumulation().reduces_each) {
        order.emplace_back();
      }
    }
  }
  std::erase_if(order, [](const auto& some) { return some.empty(); });
  return order;
}

Reference::Sequences Reference::forward(Shard& shard, const TrainingJob::Pass& last) {
  Sequences all;
  const int microbatches = training_.program.microbatches;
  const std::int64_t rows = training_.rows();
  const int in_pass = training_.data_parallel * microbatches;
  for (int i = 0; i < last.count * in_pass; ++i) {
    const std::int64_t first = i * training_.micro_batch_size;
    const Sample sample =
        draw_sample(training_.text, training_.seed, static_cast<std::uint32_t>(last.step), first,
                    training_.micro_batch_size, training_.sequence_length);
    float* tokens = shard.tokens.floats() + i * rows;
    float* targets = shard.targets.floats() + i * rows;
    device_.upload(tokens, own_places(shard.setup, sample.tokens).data(), rows * 4);
    device_.upload(targets, own_places(shard.setup, sample.targets).data(), rows * 4);
    all.microbatches.push_back(
        {static_cast<std::uint32_t>(last.step), static_cast<std::uint32_t>(i % microbatches),
         reinterpret_cast<std::int32_t*>(tokens), reinterpret_cast<std::int32_t*>(targets),
         shard.losses.floats() + i * rows, first});
  }
  const std::size_t count = all.microbatches.size();
  all.passing.resize(count);
  for (std::size_t l = 0; l < shard.layers.size(); ++l) {
    all.saved.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      all.passing[i] =
          shard.layers[l]->forward(all.microbatches[i], std::move(all.passing[i]), all.saved[l][i]);
    }
  }
  return all;
}

void Reference::backward(Shard& shard, int index, const std::vector<Order>& orders,
                         Sequences& sequences) {
  const auto l = static_cast<std::size_t>(index);
  Layer& layer = *shard.layers[l];
  const Slice gradients = shard.stores[l]->gradients(0);
  const int copies = static_cast<int>(orders.size());
  const std::size_t reductions = orders.front().size();
  const bool has_replicas = training_.data_parallel * copies > 1;
  ReplicaSum sum(device_, pool_, gradients, training_.shards());
  Tensor kept;  // over REDUCE_GRADs, if there are several
  if (reductions > 1) {
    kept = pool_.take(gradients.size(), Use::gradients);
    device_.fill(kept.size(), kept.data(), 0);
  }
  for (std::size_t reduction = 0; reduction < reductions; ++reduction) {
    for (int one = 0; one < training_.data_parallel * copies; ++one) {
      layer.start_sums();
      for (const auto& [pass, microbatch] :
           orders[static_cast<std::size_t>(one % copies)][reduction]) {
        const std::size_t i = place_of(pass, one / copies, microbatch);
        Tensor& passing = sequences.passing[i];
        Saved& saved = sequences.saved[l][i];
        passing = layer.backward_input(sequences.microbatches[i], std::move(passing), saved);
        layer.backward_weight(sequences.microbatches[i], saved);
      }
      if (has_replicas) sum.add(one);
    }
    if (!has_replicas) continue;
    const Tensor reduced = sum.take();
    if (kept.empty()) {
      device_.copy(reduced.size(), reduced.data(), gradients.data());
    } else {
      device_.add(kept.size(), kept.data(), reduced.data(), kept.data());
    }
  }
  if (!kept.empty()) device_.copy(kept.size(), kept.data(), gradients.data());
}

Outcome Reference::run(const TrainingJob::Pass& last) {
  turns_.run([&](int which) {
    Shard& shard = shards_[static_cast<std::size_t>(which)];
    Sequences sequences = forward(shard, last);
    for (int stage = training_.program.stages() - 1; stage >= 0; --stage) {
      std::vector<Order> orders;
      for (int copy = 0; copy < training_.program.placement.copies(); ++copy) {
        orders.push_back(order_of_stage(stage, copy, last.count));
      }
      const int first = training_.first_layer(stage);
      for (int l = first + training_.layout[static_cast<std::size_t>(stage)]; l-- > first;) {
        backward(shard, l, orders, sequences);
      }
    }
  });
  for (Shard& shard : shards_) add_tied(shard);
  add_up_partial();
  const Outcome outcome{mean_loss(last), norm(last)};
  const AdamStep step = adam_step(training_, last, outcome.gradient_norm);
  for (const Shard& shard : shards_) {
    for (const auto& store : shard.stores) step_all(device_, store->pieces(), step);
  }
  return outcome;
}

// Each replica's mean separately, and each copy's, as ranks compute it.
double Reference::mean_loss(const TrainingJob::Pass& last) const {
  std::vector<float> losses(static_cast<std::size_t>(training_.step_tokens(last)));
  device_.download(losses.data(), shards_.front().losses.memory(),
                   static_cast<std::int64_t>(losses.size() * sizeof(float)));
  double sum = 0;
  const std::int64_t each = training_.replica_tokens();
  const int copies = training_.program.placement.copies();
  const std::int64_t part = each / copies;  // the first half of a replica's, and the second
  for (int one = 0; one < training_.data_parallel * copies; ++one) {
    std::vector<float> own;
    for (int pass = 0; pass < last.count; ++pass) {
      const auto begin = losses.begin() + (pass * training_.data_parallel + one / copies) * each +
                         one % copies * part;
      own.insert(own.end(), begin, begin + part);
    }
    sum += exec::mean_loss(own);
  }
  return sum / (training_.data_parallel * copies);
}

void Reference::add_tied(Shard& shard) {
  if (!training_.model.tied_head) return;
  const Slice& table = shard.layers.front()->parameters()[tied_parameter].gradient;
  const Slice& matrix = shard.layers.back()->parameters()[tied_parameter].gradient;
  device_.add(table.size(), table.data(), matrix.data(), table.data());
  device_.copy(table.size(), table.data(), matrix.data());
}

// Over tensor-parallel ranks, in their order.
void Reference::add_up_partial() {
  const auto gradient = [&](std::size_t shard, std::size_t layer, std::size_t parameter) {
    return shards_[shard].layers[layer]->parameters()[parameter].gradient;
  };
  const auto& layers = shards_.front().layers;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (std::size_t k = 0; k < layers[l]->parameters().size(); ++k) {
      if (!layers[l]->parameters()[k].is_partial) continue;
      const Slice sum = gradient(0, l, k);
      for (std::size_t shard = 1; shard < shards_.size(); ++shard) {
        device_.add(sum.size(), sum.data(), gradient(shard, l, k).data(), sum.data());
      }
      for (std::size_t shard = 1; shard < shards_.size(); ++shard) {
        device_.copy(sum.size(), sum.data(), gradient(shard, l, k).data());
      }
    }
  }
}

double Reference::norm(const TrainingJob::Pass& last) {
  struct Square {
    Piece piece;
    int shard;
  };
  // The numbers of each stage that each sharer steps, in the order of the model.
  std::vector<Square> pieces;
  const StateSplit split = training_.split(0);
  for (int shard = 0; shard < turns_.count(); ++shard) {
    for (int stage = 0; stage < training_.program.stages(); ++stage) {
      std::vector<Layer*> layers;
      const int first = training_.first_layer(stage);
      for (int i = 0; i < training_.layout[static_cast<std::size_t>(stage)]; ++i) {
        const auto l = static_cast<std::size_t>(first + i);
        layers.push_back(shards_[static_cast<std::size_t>(shard)].layers[l].get());
      }
      const Parts parts = cut(layers, split, training_.cuts());
      for (int sharer = 0; sharer < parts.sharers(); ++sharer) {
        for (const Piece& piece : pieces_of(layers, parts, sharer)) {
          pieces.push_back({piece, shard});
        }
      }
    }
  }
  // A tied matrix counts once, and so does a parameter that each shard has whole.
  std::erase_if(pieces, [&](const Square& one) {
    const bool is_tied = training_.model.tied_head && training_.model.is_head(one.piece.layer) &&
                         one.piece.parameter == tied_parameter;
    return is_tied || (one.piece.is_copy && one.shard > 0);
  });
  std::ranges::sort(pieces, {}, [](const Square& one) {
    return std::tuple(one.piece.layer, one.piece.parameter, one.shard, one.piece.range.begin);
  });
  std::vector<Slice> gradients;
  for (const auto& [piece, shard] : pieces) {
    const auto& parameters = layer(piece.layer, shard).parameters();
    gradients.push_back(parameters[static_cast<std::size_t>(piece.parameter)].gradient.part(
        piece.range.begin, piece.range.size()));
  }
  const std::vector<double> squares = SumsOfSquares(device_, pool_, gradients).read();
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) /
         static_cast<double>(training_.step_tokens(last));
}

namespace {

// Notes an error of `what`, whose largest value is `largest`.
void note(const std::string& what, double error, double largest, double divisor,
          Verification& result) {
  if (std::isnan(error)) error = INFINITY;
  const double relative = error == 0 ? 0 : error / largest;  // infinite where largest is 0
  result.bitwise = false;
  result.max_abs_error = std::max(result.max_abs_error, error / divisor);
  if (result.worst.empty() || relative > result.max_rel_error) result.worst = what;
  result.max_rel_error = std::max(result.max_rel_error, relative);
}

template <typename T>
void compare(const std::string& what, std::span<const T> measured, std::span<const T> expected,
             double divisor, Verification& result) {
  if (std::memcmp(measured.data(), expected.data(), measured.size_bytes()) == 0) return;
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    const double error = std::abs(double{measured[i]} - double{expected[i]});
    if (error > difference || std::isnan(error)) difference = error;
    if (std::isnan(difference)) break;
  }
  note(what, difference, largest, divisor, result);
}

using Which = Slice Piece::*;

// The header of a piece sent to rank 0, before its numbers.
struct PieceHeader {
  std::int32_t parameter = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// A rank's part of a layer: headers of pieces with their numbers.
Bytes pieces_of_layer(Device& device, const std::vector<std::unique_ptr<Stage>>& stages, int layer,
                      Which which) {
  Bytes all;
  for (const auto& stage : stages) {
    for (const Piece& piece : stage->store().pieces()) {
      if (piece.layer != layer) continue;
      const PieceHeader header{piece.parameter, piece.range.begin, piece.range.size()};
      const auto head = std::as_bytes(std::span(&header, 1));
      all.insert(all.end(), head.begin(), head.end());
      std::vector<float> numbers(static_cast<std::size_t>(header.size));
      const Slice& slice = piece.*which;
      device.download(numbers.data(), slice.memory(), slice.bytes());
      const auto bytes = bytes_of(numbers);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  return all;
}

// Called by all ranks: compares the parts of each, layer by layer.
void compare_layers(const TrainingJob& training, Transport& transport, Device& device,
                    const std::vector<std::unique_ptr<Stage>>& stages, Which which,
                    const std::string& what, double divisor, const Reference* reference,
                    Verification* result) {
  for (int l = 0; l < training.model.layers(); ++l) {
    const std::vector<Bytes> all = gather(transport, pieces_of_layer(device, stages, l, which));
    if (reference == nullptr) continue;
    std::vector<std::vector<std::vector<float>>> expected;  // [shard][parameter]
    std::int64_t missing = 0;                               // numbers missing on all ranks
    for (int shard = 0; shard < training.tensor_parallel; ++shard) {
      auto& own = expected.emplace_back();
      for (const Parameter& parameter : reference->layer(l, shard).parameters()) {
        const Slice& slice = which == &Piece::gradient ? parameter.gradient : parameter.weight;
        own.emplace_back(static_cast<std::size_t>(slice.size()));
        device.download(own.back().data(), slice.memory(), slice.bytes());
        missing += slice.size() * (training.data_parallel / training.shards()) *
                   training.program.placement.copies();
      }
    }
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto shard = static_cast<std::size_t>(
          training.mesh().coordinates_of(static_cast<std::int64_t>(rank)).tensor);
      for (std::span<const std::byte> rest(all[rank]); !rest.empty();) {
        const auto header = values_of<PieceHeader>(rest.first(sizeof(PieceHeader))).front();
        const auto size = static_cast<std::size_t>(header.size);
        rest = rest.subspan(sizeof header);
        const auto measured = values_of<float>(rest.first(size * sizeof(float)));
        rest = rest.subspan(size * sizeof(float));
        const auto parameter = static_cast<std::size_t>(header.parameter);
        const auto& name =
            reference->layer(l, static_cast<int>(shard)).parameters()[parameter].name;
        compare(fmt::format("{} of {}", what, name), std::span(measured),
                std::span<const float>(expected[shard][parameter])
                    .subspan(static_cast<std::size_t>(header.begin), size),
                divisor, *result);
        missing -= header.size;
      }
    }
    if (missing != 0) {
      throw work_error(
          fmt::format("--verify: {} of layer {} are not where they should be", what, l));
    }
  }
}

}  // namespace

void compare_with_reference(const TrainingJob& training, Transport& transport, Device& device,
                            const std::vector<std::unique_ptr<Stage>>& stages, int iteration,
                            const Outcome& outcome, Reference* reference, Verification* result) {
  if (reference != nullptr) {
    const Outcome expected = reference->run(training.pass(iteration));
    const auto scalar = [&](const char* what, const double& measured, const double& wanted) {
      compare(fmt::format("{}, iteration {},", what, iteration), std::span(&measured, 1),
              std::span(&wanted, 1), 1, *result);
      if (measured == wanted) return;
      result->outcome_error =
          std::max(result->outcome_error, std::abs(measured - wanted) / std::abs(wanted));
    };
    scalar("the loss", outcome.loss, expected.loss);
    scalar("the gradient norm", outcome.gradient_norm, expected.gradient_norm);
  }
  const auto layers = [&](Which which, const std::string& what, double divisor) {
    compare_layers(training, transport, device, stages, which, what, divisor, reference, result);
  };
  layers(&Piece::gradient, fmt::format("in iteration {} the gradient", iteration),
         static_cast<double>(training.step_tokens(training.pass(iteration))));
  const bool is_last = iteration + 1 == training.end();
  if (is_last) layers(&Piece::weight, "at last the weights", 1);
}

}  // namespace pipesim::exec
