#include "sim/cost/estimate/operators.h"

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/cost/estimate/rounding.h"

namespace pipesim {
namespace {

constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

// Collects a layer's operators. Sizes: `tokens_` T of the microbatch, `hidden_` h, `heads_` the
// total width of its heads, `value_` bytes per value. Activations that tensor parallelism does not
// split have `whole_` values per rank: all Th, or with sequence parallelism its part.
class OperatorsBuilder {
 public:
  OperatorsBuilder(const Model& model, const Training& training, const SoftwareSpec& software)
      : model_(model),
        training_(training),
        software_(software),
        split_(training.tensor_parallel),
        tokens_(training.micro_batch_size * training.sequence_length),
        hidden_(model.hidden_size),
        heads_(model.attention_size()),
        value_(static_cast<double>(bytes_of(training.precision))),
        whole_(static_cast<double>(tokens_ * hidden_) /
               (training.sequence_parallel ? static_cast<double>(split_) : 1.0)),
        drops_(model.dropout_ppm > 0),
        is_gpt_(model.architecture == Architecture::gpt) {}

  std::vector<Operator> listed(const ListedLayer& layer) {
    const auto sequences = static_cast<double>(training_.micro_batch_size);
    const auto add = [&](std::string name, Pass pass, double flops, double bytes,
                         std::optional<std::int64_t> time_ns) -> Operator& {
      Operator& one = append(std::move(name), OperatorClass::listed, pass);
      one.flops = flops * sequences;
      one.bytes = bytes * sequences;
      if (time_ns) one.time_ns = to_ns(static_cast<double>(*time_ns) * 1e-9 * sequences);
      return one;
    };
    Operator& forward =
        add("forward", Pass::forward, layer.forward_flops, layer.forward_bytes, layer.forward_ns);
    forward.saved_bytes = static_cast<double>(layer.saved_bytes) * sequences;
    forward.parameters = static_cast<double>(layer.parameters);
    // Half of the backward for each gradient, as for costs that give one time.
    for (const auto& [name, pass] : {std::pair("input gradient", Pass::backward_input),
                                     std::pair("weight gradient", Pass::backward_weight)}) {
      std::optional<std::int64_t> half;
      if (layer.backward_ns) {
        half = *layer.backward_ns / 2;
        if (pass == Pass::backward_weight) half = *layer.backward_ns - *half;
      }
      add(name, pass, layer.backward_flops / 2, layer.backward_bytes / 2, half);
    }
    return std::move(operators_);
  }

  std::vector<Operator> embedding() {
    const double values = static_cast<double>(tokens_ * hidden_);
    Operator& lookup =
        memory("lookup", OperatorClass::embedding, Pass::forward, 2 * value_ * values, 1);
    lookup.parameters = static_cast<double>(divide_up(model_.vocabulary_size, split_) * hidden_);
    reduce("sum over ranks", Pass::forward, false, value_);
    if (model_.has_positions()) {
      memory("positions", OperatorClass::embedding, Pass::forward, value_ * values, 1).parameters =
          static_cast<double>(model_.max_sequence_length * hidden_);
    }
    if (drops_) {
      memory("dropout", OperatorClass::embedding, Pass::forward, (2 * value_ + 1) * values, 1)
          .saved_bytes = whole_;
      memory("dropout", OperatorClass::embedding, Pass::backward_input, (2 * value_ + 1) * values,
             1);
    }
    memory("table", OperatorClass::embedding, Pass::backward_weight, 3 * value_ * values, 1);
    return std::move(operators_);
  }

  std::vector<Operator> head() {
    const std::int64_t vocabulary = divide_up(model_.vocabulary_size, split_);
    const double logits = static_cast<double>(tokens_ * vocabulary);
    if (model_.architecture != Architecture::mlp) norm("final norm");
    product("logits", vocabulary, hidden_).parameters = static_cast<double>(vocabulary * hidden_);
    for (Operator& one : operators_) {
      if (one.product) one.product->is_padded = true;
    }
    gather_input("logits", value_);
    // The cross entropy in fp32: maxima, the target's logit, sums of exponentials.
    // Fused, it reads logits of 16 bits twice, and leaves gradients in their place, which the
    // backward scales (transformer_engine/pytorch/triton/cross_entropy.py).
    const bool is_fused = training_.fused_loss;
    const double bytes = (is_fused ? fused_loss_bytes : 20) * logits;
    Operator& loss =
        memory("cross entropy", OperatorClass::loss, Pass::forward, bytes, is_fused ? 1 : 6);
    const std::int64_t of_logit =
        software_.logit_bytes + (split_ > 1 ? software_.split_logit_bytes : 0);
    loss.saved_bytes = static_cast<double>(of_logit) * logits;
    for (const char* name : {"maxima", "targets", "sums"}) {
      collective(name, CollectiveKind::all_reduce, Pass::forward, 4 * static_cast<double>(tokens_));
    }
    Operator& gradient =
        memory("cross entropy", OperatorClass::loss, Pass::backward_input, bytes, is_fused ? 1 : 5);
    gradient.workspace_bytes = static_cast<double>(bytes_of(training_.precision)) * logits;
    reduce("logits' input", Pass::backward_input, false, value_);
    return std::move(operators_);
  }

  std::vector<Operator> linear_block() {
    product("linear", hidden_, hidden_).parameters =
        static_cast<double>(hidden_ * hidden_ + hidden_);
    activation("gelu", hidden_);
    return std::move(operators_);
  }

  std::vector<Operator> decoder_block() {
    norm("attention norm");
    const std::int64_t kv_size = model_.kv_size();
    const std::int64_t qkv = (heads_ + 2 * kv_size) / split_;
    Operator& forward = product("qkv", qkv, hidden_, hides_reduction);
    forward.parameters = parameters_of(qkv, hidden_, qkv);
    if (model_.qkv_bias) forward.parameters += static_cast<double>(qkv);
    forward.saved_bytes += value_ * static_cast<double>(tokens_ * qkv);
    forward.part = &Recompute::products;
    forward.part_share = static_cast<double>(kv_size) / static_cast<double>(heads_ + 2 * kv_size);
    forward.remade_bytes = value_ * static_cast<double>(tokens_ * kv_size / split_);
    gather_input("qkv", gathered_value());
    if (model_.qk_norm) norm_heads(heads_ + kv_size);
    if (!model_.has_positions()) rotate(heads_ + kv_size);
    attend();
    Operator& result = product("attention output", hidden_, heads_ / split_, split_input);
    result.parameters = parameters_of(hidden_, heads_ / split_, hidden_);
    result.part = &Recompute::products;
    leave_split("attention");
    add_back("attention");

    norm("mlp norm");
    if (model_.experts > 1) route();
    mlp();
    leave_split("mlp");
    add_back("mlp");
    return std::move(operators_);
  }

  // Kernels that move bytes as the software lists them, instead of those counted, whose memory
  // stays; and products as it runs them.
  std::vector<Operator> listed_kernels(std::vector<Operator> counted, bool is_head) {
    const KernelList& list = *software_.kernels;
    operators_ = std::move(counted);
    double weights = 0;
    const bool says_kept = list.says_kept();
    for (Operator& one : operators_) {
      if (says_kept && !one.is_optional) {
        one.saved_bytes = one.remade_bytes = 0;
        if (one.of == OperatorClass::loss) one.workspace_bytes = 0;
      }
      if (one.product && one.of == OperatorClass::matmul) {
        one.product->accumulates = one.product->accumulates && list.sums_in_products;
        if (one.pass == Pass::forward) {
          weights +=
              static_cast<double>(one.product->batch * one.product->columns * one.product->inner);
        }
      } else if (!one.is_optional &&
                 (one.of == OperatorClass::elementwise || one.of == OperatorClass::loss)) {
        one.bytes = 0;
        one.kernels = 0;
      }
    }
    if (list.splits_products && model_.is_gated()) split_products();
    const auto tokens = static_cast<double>(tokens_);
    const auto of_rank = [&](std::int64_t width) {
      return tokens * static_cast<double>(width) / static_cast<double>(split_);
    };
    const KernelBytes sizes{
        whole_,
        of_rank(heads_),
        of_rank(model_.kv_size()),
        of_rank(model_.mlp_size) * static_cast<double>(model_.experts_per_token),
        of_rank(model_.vocabulary_size),
        weights};
    bool has_loss[pass_count] = {};
    for (const KernelLine& line : is_head ? list.head : list.block) {
      if (line.only && *line.only != model_.architecture) continue;
      if (line.is_of_fp8 && training_.precision != Precision::fp8) continue;
      const auto bytes_of_all = [&](const KernelBytes& each) {
        return std::inner_product(each.begin(), each.end(), sizes.begin(), 0.0);
      };
      const bool is_loss = line.bytes[static_cast<std::size_t>(KernelSize::logits)] > 0;
      const bool is_fused = is_loss && training_.fused_loss;
      if (is_fused && std::exchange(has_loss[static_cast<std::size_t>(line.pass)], true)) continue;
      const double bytes =
          is_fused ? fused_loss_bytes * of_rank(model_.vocabulary_size) : bytes_of_all(line.bytes);
      Operator& one = memory(line.name, is_loss ? OperatorClass::loss : OperatorClass::elementwise,
                             static_cast<Pass>(line.pass), bytes, is_fused ? 1 : line.launches);
      one.saved_bytes = bytes_of_all(line.kept);
      one.workspace_bytes = bytes_of_all(line.workspace);
      one.traffic = line.traffic;
      one.ends_block = line.ends_block;
      if (line.part == KernelPart::none) continue;
      one.part = line.part == KernelPart::norms ? &Recompute::norms : &Recompute::activation;
      one.remade_bytes = one.saved_bytes;
    }
    return std::move(operators_);
  }

  // Weight gradients are written as the products' results, and added to their sums by a kernel
  // each.
  std::vector<Operator> with_separate_sums(std::vector<Operator> fused) {
    operators_ = std::move(fused);
    double weights = 0;
    int products = 0;
    for (Operator& one : operators_) {
      if (!one.product || !std::exchange(one.product->accumulates, false)) continue;
      weights += static_cast<double>(one.product->batch * one.product->rows * one.product->columns);
      ++products;
    }
    const double bytes = value_ + 2 * static_cast<double>(training_.gradient_bytes);
    if (products > 0) {
      elementwise("gradients added", Pass::backward_weight, bytes * weights, products);
    }
    return std::move(operators_);
  }

 private:
  static constexpr double fused_loss_bytes = 4;  // per logit, each way

  // Queries, keys and values, gates and ups are products of their own.
  void split_products() {
    const std::size_t count = operators_.size();
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::int64_t> widths;
      if (operators_[i].name == "qkv") {
        widths = {heads_ / split_, model_.kv_size() / split_, model_.kv_size() / split_};
      } else if (operators_[i].name == "gate and up") {
        widths = {model_.mlp_size / split_, model_.mlp_size / split_};
      }
      if (widths.empty() || !operators_[i].product) continue;
      const auto narrow = [&](MatrixProduct product, std::int64_t width) {
        (operators_[i].pass == Pass::forward          ? product.columns
         : operators_[i].pass == Pass::backward_input ? product.inner
                                                      : product.rows) = width;
        return product;
      };
      const MatrixProduct whole = *operators_[i].product;
      operators_[i].product = narrow(whole, widths.front());
      operators_[i].flops = operators_[i].product->flops();
      for (std::size_t part = 1; part < widths.size(); ++part) {
        const MatrixProduct product = narrow(whole, widths[part]);
        Operator& one = append(operators_[i].name, OperatorClass::matmul, operators_[i].pass);
        one.product = product;
        one.flops = product.flops();
      }
    }
  }

  Operator& append(std::string name, OperatorClass of, Pass pass) {
    Operator& one = operators_.emplace_back();
    one.name = std::move(name);
    one.of = of;
    one.pass = pass;
    return one;
  }

  Operator& memory(std::string name, OperatorClass of, Pass pass, double bytes, int kernels) {
    Operator& one = append(std::move(name), of, pass);
    one.bytes = bytes;
    one.kernels = kernels;
    return one;
  }
  Operator& elementwise(std::string name, Pass pass, double bytes, int kernels) {
    return memory(std::move(name), OperatorClass::elementwise, pass, bytes, kernels);
  }

  double parameters_of(std::int64_t rows, std::int64_t columns, std::int64_t biases) const {
    return static_cast<double>(rows * columns + (is_gpt_ ? biases : 0));
  }

  // ---- GEMMs with weights

  // Experts' inputs are copies that every rank holds whole. Most GEMMs read activations that tensor
  // parallelism does not split.
  enum Options : std::uint8_t { usual = 0, split_input = 1, hides_reduction = 2, copied_input = 4 };

  // The input (tokens x inner) times (inner x columns), with both gradients. Returns the forward,
  // which keeps its input; the reference is valid until another operator is added.
  Operator& product(const std::string& name, std::int64_t columns, std::int64_t inner,
                    Options options = usual) {
    return products(name, 1, tokens_, columns, inner, options);
  }

  Operator& products(const std::string& name, std::int64_t batch, std::int64_t rows,
                     std::int64_t columns, std::int64_t inner, Options options) {
    const auto add = [&](Pass pass, const MatrixProduct& shape) -> Operator& {
      Operator& one = append(name, OperatorClass::matmul, pass);
      one.product = shape;
      one.flops = shape.flops();
      return one;
    };
    const std::size_t at = operators_.size();
    add(Pass::forward, {batch, rows, columns, inner});
    add(Pass::backward_input, {batch, rows, inner, columns});
    Operator& weight = add(Pass::backward_weight, {batch, columns, inner, rows, true});
    weight.hides_reduction = (options & hides_reduction) != 0;
    const bool whole = (options & split_input) == 0;
    const bool is_copied = (options & copied_input) != 0;
    const double parts = training_.sequence_parallel ? static_cast<double>(split_) : 1;
    const double inputs =
        static_cast<double>(batch * rows * inner) / (whole && !is_copied ? parts : 1);
    // Gradients of outputs are gathered for those of inputs, and stay gathered.
    const auto outputs = static_cast<double>(batch * rows * columns);
    weight.residue_bytes = value_ * (inputs + outputs);
    const bool stays = software_.keeps_gathered && whole && !is_copied;
    operators_[at].saved_bytes = value_ * inputs * (stays ? parts : 1);
    return operators_[at];
  }

  // ---- Communication of tensor-parallel ranks

  Operator* collective(std::string name, CollectiveKind kind, Pass pass, double bytes) {
    if (split_ == 1) return nullptr;
    Operator& one = append(std::move(name), OperatorClass::tensor_parallel, pass);
    one.collective = kind;
    one.bytes = bytes;
    return &one;
  }

  // Bytes of a value gathered for a block's GEMMs.
  double gathered_value() const {
    return software_.gathers_fp8 && training_.precision == Precision::fp8 ? 1 : value_;
  }

  // Sums of all tokens over the ranks: an all-reduce, or with sequence parallelism a reduce-scatter
  // and an all-gather.
  void reduce(const std::string& name, Pass pass, bool is_hidden, double gathered) {
    const auto values = static_cast<double>(tokens_ * hidden_);
    const auto add = [&](CollectiveKind kind, double value) {
      if (Operator* one = collective(name, kind, pass, value * values)) one->is_hidden = is_hidden;
    };
    if (!training_.sequence_parallel) {
      add(CollectiveKind::all_reduce, value_);
      return;
    }
    add(CollectiveKind::all_gather, gathered);
    add(CollectiveKind::reduce_scatter, value_);
  }

  // Leaves a split part of the block: its sum in the forward, and the sum of the gradients at its
  // entrance in the backward.
  void leave_split(const std::string& name) {
    reduce(name + " sum", Pass::forward, false, gathered_value());
    reduce(name + " input", Pass::backward_input, true, gathered_value());
  }

  // With sequence parallelism inputs are kept in parts, and gathered again for
  // their weights' gradients.
  void gather_input(const std::string& name, double value) {
    if (!training_.sequence_parallel || split_ == 1 || !software_.gathers_again) return;
    if (Operator* again =
            collective(name + " input again", CollectiveKind::all_gather, Pass::backward_weight,
                       value * static_cast<double>(tokens_ * hidden_))) {
      again->is_hidden = true;
    }
  }

  // ---- Attention

  // Queries and keys before the norm are kept, too.
  void norm_heads(std::int64_t width) {
    const double values = static_cast<double>(tokens_ * width / split_);
    Operator& forward = elementwise("head norms", Pass::forward, 2 * value_ * values, 2);
    forward.saved_bytes = value_ * values;
    forward.parameters = static_cast<double>(2 * model_.head_size());
    forward.is_optional = true;
    elementwise("head norms", Pass::backward_input, 3 * value_ * values, 2).is_optional = true;
    elementwise("head norms", Pass::backward_weight, 2 * value_ * values, 2).is_optional = true;
  }

  void rotate(std::int64_t width) {
    const double values = static_cast<double>(tokens_ * width / split_);
    elementwise("rotary", Pass::forward, 2 * value_ * values, 1);
    elementwise("rotary", Pass::backward_input, 2 * value_ * values, 1);
  }

  void attend() {
    const std::int64_t heads = model_.heads / split_;
    const std::int64_t length = training_.sequence_length;
    const std::int64_t width = model_.head_size();
    const std::int64_t matrices = heads * training_.micro_batch_size;
    const double scores = static_cast<double>(matrices * length * length);
    const double values = static_cast<double>(tokens_ * heads_ / split_);
    const double kv_values = static_cast<double>(2 * tokens_ * model_.kv_heads * width / split_);
    const auto core = [&](Operator& one) -> Operator& {
      if (one.pass == Pass::forward) one.part = &Recompute::attention;
      return one;
    };
    const auto keep = [&](Operator& one, double bytes) {
      one.saved_bytes = one.remade_bytes = bytes;
    };
    const auto add_product = [&](const char* name, Pass pass, const MatrixProduct& shape) {
      Operator& one = core(append(name, OperatorClass::attention, pass));
      one.product = shape;
      one.flops = shape.flops();
    };
    const auto add_memory = [&](const char* name, Pass pass, double bytes,
                                int kernels) -> Operator& {
      return core(memory(name, OperatorClass::attention, pass, bytes, kernels));
    };
    const MatrixProduct towards_scores{matrices, length, length, width};
    const MatrixProduct towards_values{matrices, length, width, length};

    if (training_.attention == Attention::fused) {
      // Causal: the upper half is skipped. The backward computes the scores again.
      Operator& fused =
          add_memory("fused attention", Pass::forward, value_ * (2 * values + kv_values), 1);
      fused.flops = 2 * scores * static_cast<double>(width);
      // The logarithm of each row's sum; the result is kept as the input of the output projection.
      keep(fused, 4 * scores / static_cast<double>(length));
      add_memory("fused attention", Pass::backward_input, 2 * value_ * (2 * values + kv_values), 1)
          .flops = 5 * scores * static_cast<double>(width);
      return;
    }
    add_product("scores", Pass::forward, towards_scores);
    keep(add_memory("softmax", Pass::forward, 2 * value_ * scores, 1), value_ * scores);
    operators_.back().is_score_traffic = true;
    if (drops_) {
      keep(add_memory("dropout", Pass::forward, (2 * value_ + 1) * scores, 1),
           (value_ + 1) * scores);
      operators_.back().is_score_traffic = true;
    }
    add_product("context", Pass::forward, towards_values);
    add_memory("layout", Pass::forward, 4 * value_ * values, 2);

    for (const char* name : {"scores", "values", "queries"}) {
      add_product(name, Pass::backward_input, towards_values);
    }
    add_product("keys", Pass::backward_input, towards_scores);
    if (drops_) {
      add_memory("dropout", Pass::backward_input, (2 * value_ + 1) * scores, 1).is_score_traffic =
          true;
    }
    add_memory("softmax", Pass::backward_input, 3 * value_ * scores, 1).is_score_traffic = true;
    add_memory("layout", Pass::backward_input, 8 * value_ * values, 4);
  }

  // ---- MLP

  void mlp() {
    const std::int64_t width = model_.mlp_size / split_;
    const std::int64_t up = model_.is_gated() ? 2 * width : width;
    const std::int64_t experts = model_.experts;
    const std::int64_t rows = divide_up(tokens_ * model_.experts_per_token, experts);
    const auto hold = [&](Operator& one, std::int64_t columns, std::int64_t inner,
                          std::int64_t biases) {
      one.parameters = static_cast<double>(experts) * parameters_of(columns, inner, biases);
    };
    Operator& first = products(model_.is_gated() ? "gate and up" : "up", experts, rows, up, hidden_,
                               experts > 1 ? copied_input : hides_reduction);
    hold(first, up, hidden_, up);
    if (model_.is_gated()) {
      first.part = &Recompute::products;
      first.part_share = 0.5;
      first.remade_bytes = value_ * static_cast<double>(experts * rows * width);
    }
    gather_input("mlp", gathered_value());
    const std::size_t at = operators_.size();
    activation(model_.is_gated() ? "silu" : "gelu", width);
    Operator& down = products("down", experts, rows, hidden_, width, split_input);
    hold(down, hidden_, width, hidden_);
    down.ends_block = true;
    operators_[at].part = &Recompute::activation;
    operators_[at].remade_bytes = down.saved_bytes;
    // The first gradients of a block's backward, in addition to all saved tensors: the incoming
    // one, gathered if tokens are split, and that of the GEMM's input.
    const auto gathered = static_cast<double>(training_.sequence_parallel ? tokens_ * hidden_ : 0);
    const auto inner = static_cast<double>(experts * rows * width);
    operators_.back().workspace_bytes = value_ * (whole_ + gathered + inner);
  }

  // With `width` output values per token; a gated one has twice as many inputs, the others a bias.
  void activation(const std::string& name, std::int64_t width) {
    const double values =
        static_cast<double>(tokens_ * model_.experts_per_token) * static_cast<double>(width);
    const double inputs = model_.is_gated() ? 2 : 1;
    elementwise(name, Pass::forward, (inputs + 1) * value_ * values, 1).saved_bytes =
        inputs * value_ * values;
    elementwise(name, Pass::backward_input, (2 * inputs + 1) * value_ * values, 1);
    if (!model_.is_gated()) elementwise("biases", Pass::backward_weight, value_ * values, 2);
  }

  // Each token's experts are chosen, and its values copied there and back.
  void route() {
    product("router", model_.experts, hidden_).parameters =
        static_cast<double>(model_.experts * hidden_);
    const double copies =
        static_cast<double>(tokens_ * model_.experts_per_token) * static_cast<double>(hidden_);
    // The experts' outputs are kept for the gradient of the router's weights.
    Operator& permute = elementwise("permute", Pass::forward, 4 * value_ * copies, 2);
    permute.saved_bytes = value_ * copies;
    permute.is_optional = true;
    elementwise("permute", Pass::backward_input, 4 * value_ * copies, 2).is_optional = true;
  }

  // ---- Around both parts of a block

  // Its input is kept here, its result by the GEMM that reads it.
  void norm(const std::string& name) {
    Operator& forward = elementwise(name, Pass::forward, 2 * value_ * whole_, 1);
    forward.saved_bytes = value_ * whole_;
    forward.part = &Recompute::norms;
    forward.remade_bytes = value_ * whole_;
    forward.parameters = static_cast<double>((is_gpt_ ? 2 : 1) * hidden_);
    elementwise(name, Pass::backward_input, 3 * value_ * whole_, 1);
    elementwise(name, Pass::backward_weight, 2 * value_ * whole_, 1);
  }

  // Bias and dropout, if any, and the residual addition.
  void add_back(const std::string& name) {
    const double mask = drops_ ? 1 : 0;
    elementwise(name + " added", Pass::forward, (3 * value_ + mask) * whole_, 1).saved_bytes =
        mask * whole_;
    elementwise(name + " added", Pass::backward_input, 3 * value_ * whole_, 1);
    if (drops_) {
      elementwise(name + " dropout", Pass::backward_input, (2 * value_ + 1) * whole_, 1);
    }
    if (is_gpt_) elementwise(name + " bias", Pass::backward_weight, value_ * whole_, 1);
  }

  const Model& model_;
  const Training& training_;
  const SoftwareSpec& software_;
  std::int64_t split_;
  std::int64_t tokens_;
  std::int64_t hidden_;
  std::int64_t heads_;  // total width
  double value_;
  double whole_;
  bool drops_;
  bool is_gpt_;
  std::vector<Operator> operators_;
};

}  // namespace

std::string_view operator_class_name(OperatorClass of) {
  switch (of) {
    case OperatorClass::matmul: return "GEMMs";
    case OperatorClass::attention: return "attention";
    case OperatorClass::elementwise: return "element-wise";
    case OperatorClass::embedding: return "embedding";
    case OperatorClass::loss: return "loss";
    case OperatorClass::tensor_parallel: return "tensor parallel";
    case OperatorClass::listed: return "listed";
    case OperatorClass::host: return "launching";
  }
  return {};
}

std::int64_t rank_parameters(const Model& model, int layer, int tensor_parallel) {
  if (tensor_parallel == 1) return model.layer_parameters(layer);
  Training training;
  training.tensor_parallel = tensor_parallel;
  double sum = 0;
  for (const Operator& one : layer_operators(model, layer, training)) sum += one.parameters;
  return std::llround(sum);
}

std::vector<Operator> layer_operators(const Model& model, int layer, const Training& training,
                                      const SoftwareSpec& software) {
  OperatorsBuilder builder(model, training, software);
  if (model.is_listed()) return builder.listed(model.list[static_cast<std::size_t>(layer)]);
  if (model.is_embedding(layer)) return builder.embedding();
  const bool is_head = model.is_head(layer);
  if (!is_head && model.architecture == Architecture::mlp) return builder.linear_block();
  std::vector<Operator> all = is_head ? builder.head() : builder.decoder_block();
  if (software.kernels) all = builder.listed_kernels(std::move(all), is_head);
  return training.fused_sums ? all : builder.with_separate_sums(std::move(all));
}

}  // namespace pipesim
