// torchtitan's models, as its torchtitan/models/*/__init__.py had them by February 2026.
//
// Constants and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/cost/model.h"

namespace pipesim {

struct Flavor {
  std::string_view name, flavor;
  std::int64_t blocks = 0, hidden_size = 0, heads = 0, kv_heads = 0, mlp_size = 0;
  std::int64_t vocabulary_size = 0, rotary_base = 0;
  std::int64_t head_size = 0;  // if it is not hidden_size / heads
  bool tied = false;
  std::int64_t experts = 1, experts_per_token = 1, expert_size = 0, shared_size = 0;
  std::int64_t dense_first = 0;    // blocks without experts, before all that have some
  std::int64_t experts_every = 1;  // the last of so many blocks has some
  std::int64_t expert_groups = 1, groups_per_token = 0;
  std::int64_t query_rank = 0, kv_rank = 0;  // of latent attention
  std::int64_t window = 0;                   // of the first of two blocks
  std::int64_t chunk = 0;                    // of the last three of four blocks
  bool has_flex = false;                     // attention that context-parallel ranks can't share
};

// Null if there is none; "8B_flex" is an "8B" with another attention kernel.
const Flavor* find_flavor(std::string_view name, std::string_view flavor);
Model model_of(const Flavor& flavor, std::int64_t sequence);

}  // namespace pipesim
