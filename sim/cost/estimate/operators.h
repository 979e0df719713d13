// The operators of a layer: what one microbatch has each tensor-parallel rank
// compute, move and keep.
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
  matmul,       // products with weights
  attention,    // scores, softmax, their product with the values
  elementwise,  // norms, activations, dropout, additions
  embedding,
  loss,             // the cross entropy of logits
  tensor_parallel,  // communication between tensor-parallel ranks
  listed,           // a layer given by its own numbers
  host,             // the device waits for kernels to be launched
};
inline constexpr int operator_class_count = 8;
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
  bool is_padded = false;    // by software, to dimensions that fit

  double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(rows) *
           static_cast<double>(columns) * static_cast<double>(inner);
  }
};

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };

struct Operator {
  std::string name;
  OperatorClass of = OperatorClass::elementwise;
  Pass pass = Pass::forward;
  // One of these says how long it takes: a product; communication of so many
  // bytes (the whole, not a rank's part) over the tensor-parallel ranks; a
  // time; or else its FLOPs and bytes alone.
  std::optional<MatrixProduct> product;
  std::optional<CollectiveKind> collective;
  std::optional<std::int64_t> time_ns;
  double flops = 0;
  double bytes = 0;  // through memory; of a collective: that are reduced or gathered
  int kernels = 1;
  double saved_bytes = 0;      // kept for the backward
  double residue_bytes = 0;    // kept from the input's gradient to the weight's
  double workspace_bytes = 0;  // beside what was kept, while the backward runs
  // Of a forward that may be computed again: with which part, and how much of what its layer
  // keeps need not be kept then.
  Recompute::Part part = nullptr;
  double part_share = 1;  // of its time
  double remade_bytes = 0;
  double parameters = 0;          // that this rank holds
  bool is_score_traffic = false;  // bytes of the matrix of scores
  bool hides_reduction = false;   // a weight gradient that a reduction may run beside
  bool is_hidden = false;         // a reduction that may
};

// Parameters of a layer that each of so many tensor-parallel ranks has.
std::int64_t rank_parameters(const Model& model, int layer, int tensor_parallel);

// Of one layer of the model, by pass, in the order of the forward. With
// `head_is_tied`, the head's matrix is counted as the embedding's.
std::vector<Operator> layer_operators(const Model& model, int layer, const Training& training,
                                      const SoftwareSpec& software = {});

}  // namespace pipesim
