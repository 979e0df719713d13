// Collects a layer's operators, one after another, in the order of its forward. Private to the
// three sources that add them: operators.cpp, attention_operators.cpp, expert_operators.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/estimate/operators.h"
#include "sim/cost/estimate/rounding.h"

namespace pipesim {

// Sizes: `tokens_` T of the microbatch on a context-parallel rank, `hidden_` h, `heads_` the total
// width of its heads' queries, `value_` bytes per value. Activations that tensor parallelism does
// not split have `whole_` values per rank: all Th, or with sequence parallelism its part.
class OperatorsBuilder {
 public:
  // `kind`: of the block that is built.
  OperatorsBuilder(const Model& model, const Training& training, const SoftwareSpec& software,
                   const BlockKind& kind);

  std::vector<Operator> listed(const ListedLayer& layer);
  std::vector<Operator> embedding();
  std::vector<Operator> head();
  std::vector<Operator> linear_block();
  std::vector<Operator> decoder_block();
  // What a layer that predicts a further token has before its block, and its head without the
  // matrix, which is the model's.
  std::vector<Operator> prediction_entry();
  std::vector<Operator> prediction_head();

  // Kernels that move bytes as the software lists them, instead of those counted, whose memory
  // stays; and products as it runs them.
  std::vector<Operator> listed_kernels(std::vector<Operator> counted, bool is_head);
  // Weight gradients are written as the products' results, and added to their sums by a kernel
  // each.
  std::vector<Operator> with_separate_sums(std::vector<Operator> fused);

 private:
  static constexpr double fused_loss_bytes = 4;  // per logit, each way

  void split_products();

  Operator& append(std::string name, OperatorClass of, Pass pass);
  Operator& memory(std::string name, OperatorClass of, Pass pass, double bytes, int kernels);
  Operator& elementwise(std::string name, Pass pass, double bytes, int kernels) {
    return memory(std::move(name), OperatorClass::elementwise, pass, bytes, kernels);
  }

  // ---- GEMMs with weights

  // How a GEMM's input is kept. Most read activations that tensor parallelism does not split; some
  // what another GEMM keeps already. Experts' inputs are copies that every rank holds whole.
  enum Options : std::uint8_t {
    usual = 0,
    split_input = 1,
    hides_reduction = 2,
    copied_input = 4,
    kept_input = 8
  };
  // The input (tokens x inner) times (inner x columns), with both gradients. Returns the forward,
  // which keeps its input; the reference is valid until another operator is added.
  Operator& product(const std::string& name, std::int64_t columns, std::int64_t inner,
                    Options options = usual) {
    return products(name, 1, tokens_, columns, inner, options);
  }
  Operator& products(const std::string& name, std::int64_t batch, std::int64_t rows,
                     std::int64_t columns, std::int64_t inner, Options options);
  // A GEMM's weights, with a bias for each output or none.
  static double weights(std::int64_t inner, std::int64_t columns, bool has_bias) {
    return static_cast<double>(inner * columns + (has_bias ? columns : 0));
  }

  // ---- Communication

  Operator* exchange(std::string name, CollectiveKind kind, Across across, Pass pass, double bytes);
  Operator* collective(std::string name, CollectiveKind kind, Pass pass, double bytes) {
    return exchange(std::move(name), kind, Across::tensor, pass, bytes);
  }
  // Bytes of a value gathered for a block's GEMMs.
  double gathered_value() const;
  // Sums of all tokens over the ranks: an all-reduce, or with sequence parallelism a reduce-scatter
  // and an all-gather.
  void reduce(const std::string& name, Pass pass, bool is_hidden, double gathered);
  // Leaves a split part of the block: its sum in the forward, and the sum of the gradients at its
  // entrance in the backward.
  void leave_split(const std::string& name);
  // With sequence parallelism inputs are kept in parts, and gathered again for
  // their weights' gradients.
  void gather_input(const std::string& name, double value);

  // ---- Attention

  std::int64_t split_heads() const { return model_.heads / split_; }
  // Keys and values that more ranks than heads of them share are copied.
  std::int64_t split_kv_heads() const { return divide_up(model_.kv_heads, split_); }
  void project();
  void project_latent(const LatentAttention& latent);
  void norm_heads();
  void rotate(std::int64_t width);
  void exchange_context();
  // Pairs of tokens that a rank's queries see, over all sequences and one head.
  double pairs() const;
  void attend();
  void attend_fused();
  void attend_unfused();
  // Of what the heads made, by a product of the block's input.
  void gate_attention();

  // ---- MLP

  void mlp(const std::string& name, std::int64_t width);
  // `values` that are put out; a gated activation has twice as many inputs, the others a bias.
  void activation(const std::string& name, double values);
  // Gives the last gradient its workspace, in addition to all saved tensors: the first gradients
  // of a block's backward, the incoming one, gathered if tokens are split, and that of the GEMM's
  // input, of so many values.
  void end_with(double values);

  // ---- Experts

  void experts();
  void route();
  void dispatch();
  void compute_experts();
  void permute();
  void combine();
  void share();
  // Sends copies to their experts, or back.
  void exchange_copies(const std::string& name, Pass pass, bool is_towards_experts);

  // ---- Around both parts of a block

  // Its input is kept here, its result by the GEMM that reads it.
  void norm(const std::string& name);
  // Of so many values, in vectors of `width`, inside a part of a block.
  void inner_norm(const std::string& name, std::int64_t width, double values);
  // Bias and dropout, if any, and the residual addition.
  void add_back(const std::string& name, bool has_bias);

  // What `add` adds is a module that can be computed again as a whole.
  template <typename Add>
  void within(Recompute::Part module, Add add) {
    const std::size_t first = operators_.size();
    add();
    for (std::size_t i = first; i < operators_.size(); ++i) operators_[i].module = module;
  }

  const Model& model_;
  const Training& training_;
  const SoftwareSpec& software_;
  const BlockKind& kind_;
  std::int64_t split_;
  std::int64_t tokens_;
  std::int64_t hidden_;
  std::int64_t heads_;  // total width
  double value_;
  double whole_;
  // Of what experts' products read and keep: 8 bits, with a scale of 32 for each 128 of them.
  double input_value_;
  bool drops_;
  ExpertRows rows_;        // of a block with experts
  double mlp_values_ = 0;  // that the activations of a block put out
  std::vector<Operator> operators_;
};

}  // namespace pipesim
