// Which parts of a block's forward are recomputed for its backward, instead of being kept.
//
// A plain value and pure functions; any thread. Errors are input errors, in the words of the
// command line.
#pragma once

#include <string>
#include <string_view>

#include "sim/cost/model.h"

namespace pipesim {

// Its parts are what Megatron-LM calls core_attn, layernorm, moe_act, mla_up_proj, mlp,
// shared_experts and moe (--recompute-modules, in megatron/core/transformer/
// transformer_config.py); moe_act is any MLP's here.
struct Recompute {
  // One of the parts below; null: none.
  using Part = bool Recompute::*;

  bool full = false;        // the whole forward, from the block's input on; excludes parts
  int blocks = 0;           // of each virtual stage, its first ones, with `full`; 0: all
  bool attention = false;   // the core: scores, softmax, dropout, their product with the values
  bool norms = false;       // outputs of norms
  bool activation = false;  // outputs of the activation
  // Every second GEMM with weights, as in torchtitan's selective recomputation by operator: keys,
  // attention's output projection, in a gated MLP the half that is not gated.
  bool products = false;
  // Modules from what they read on, with their exchanges.
  bool latent = false;   // of latent attention the projections to queries, keys and values
  bool mlp = false;      // of blocks without experts
  bool shared = false;   // experts that every token goes through
  bool experts = false;  // routed ones, with the router; as well as shared ones

  bool operator==(const Recompute&) const = default;
  bool exists() const { return *this != Recompute(); }
  bool includes(Part part) const {
    return full || (part != nullptr && (this->*part || (part == &Recompute::shared && experts)));
  }
};

// "none", "full", "full:4" (the first 4 blocks of each virtual stage), or names of parts separated
// by commas; "selective" is another name for attention.
Recompute parse_recompute(std::string_view text);
// As it is parsed; attention alone is "selective".
std::string recompute_name(const Recompute& recompute);
// Its parts for display: "attention, norms and activation".
std::string recompute_words(const Recompute& recompute);
// Refuses parts that the model's layers lack.
void check_recompute(const Recompute& recompute, const Model& model);

}  // namespace pipesim
