// The operators of a layer: what each tensor-parallel rank computes, moves and keeps for one
// microbatch.
//
// Sources: Korthikanti et al., arXiv 2205.05198 (FLOPs, activation bytes);
// Shoeybi et al., arXiv 1909.08053 (tensor parallelism). Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/estimate/training.h"
#include "sim/cost/hardware/software.h"
#include "sim/cost/model.h"

namespace pipesim {

enum class OperatorClass : std::uint8_t {
  matmul,       // GEMMs with weights
  attention,    // scores, softmax, their product with the values
  elementwise,  // norms, activations, dropout, additions
  embedding,
  loss,             // the cross entropy of logits
  tensor_parallel,  // communication between tensor-parallel ranks
  context_parallel,
  expert_parallel,
  listed,  // a layer given by numbers
  host,    // the device waits for kernel launches
};
inline constexpr int operator_class_count = 10;
std::string_view operator_class_name(OperatorClass of);

enum class Pass : std::uint8_t { forward, backward_input, backward_weight };
inline constexpr int pass_count = 3;

// `batch` products (rows x inner) (inner x columns).
struct MatrixProduct {
  std::int64_t batch = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  bool accumulates = false;  // onto fp32
  bool is_padded = false;    // by software, to aligned dimensions

  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(rows) *
           static_cast<double>(columns) * static_cast<double>(inner);
  }
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  ring,  // each rank's part goes around to all others, a step at a time
};
// The ranks that exchange: those of one part of a layer, a sequence, a block's experts, an expert.
enum class Across : std::uint8_t { tensor, context, experts, expert_parts };

// Of a block with experts: what runs before tokens are sent to them, on the way, there, and on the
// way back.
enum class ExpertPhase : std::uint8_t { around, dispatch, experts, combine };

struct Operator {
  std::string name;
  OperatorClass of = OperatorClass::elementwise;
  Pass pass = Pass::forward;
  // One of these determines its time: a GEMM; communication of so many bytes (the whole, not a
  // rank's part; of an all-to-all what a rank sends, to itself included) over ranks; a time; or
  // else its FLOPs and bytes.
  std::optional<MatrixProduct> product;
  std::optional<CollectiveKind> collective;
  Across across = Across::tensor;
  std::optional<std::int64_t> time_ns;
  double flops = 0;
  double bytes = 0;  // through memory; for a collective: reduced or gathered
  int kernels = 1;
  double saved_bytes = 0;      // kept for the backward
  double residue_bytes = 0;    // kept from the input gradient to the weight gradient
  double workspace_bytes = 0;  // in addition to those, while the backward runs
  // For a forward that may be recomputed: with which part, and how many of its layer's saved bytes
  // need not be kept then.
  Recompute::Part part = nullptr;
  double part_share = 1;  // of its time
  double remade_bytes = 0;
  // The module that it is a part of, which may be computed again as a whole, from what it reads on.
  Recompute::Part module = nullptr;
  bool is_entrance = false;             // keeps what its module reads
  double parameters = 0;                // held by this rank
  double expert_parameters = 0;         // of those, of routed experts
  bool is_score_traffic = false;        // bytes of the matrix of scores
  bool hides_reduction = false;         // a weight gradient that may overlap a reduction
  bool is_hidden = false;               // a reduction that may
  bool is_optional = false;             // of some models: never in software's list of kernels
  bool hides_behind_attention = false;  // a step at a time
  ExpertPhase phase = ExpertPhase::around;
  bool is_deduplicated = false;  // a token goes once to each node, and there once to each rank
  bool is_of_head = false;
  Traffic traffic = Traffic::stream;  // of listed kernels
  bool ends_block =
      false;  // the last of its block: not computed again by software that stops early
};

// Parameters of a layer on each of so many tensor-parallel ranks.
std::int64_t rank_parameters(const Model& model, int layer, int tensor_parallel);

// Of one layer of the model, by pass, in the order of the forward. With
// `head_is_tied`, the head's matrix is counted as the embedding's.
std::vector<Operator> layer_operators(const Model& model, int layer, const Training& training,
                                      const SoftwareSpec& software = {});

}  // namespace pipesim
