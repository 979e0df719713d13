// Models and a cluster whose costs can be reckoned by hand.
#pragma once

#include <cstdint>

#include "sim/cost/estimate/training.h"

namespace pipesim::testing {

inline Model gpt(std::int64_t blocks, std::int64_t hidden, std::int64_t heads) {
  Model model;
  model.name = "gpt";
  model.blocks = blocks;
  model.hidden_size = hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.mlp_size = 4 * hidden;
  model.vocabulary_size = 51200;
  model.max_sequence_length = 8192;
  model.dropout_ppm = 100'000;
  return model;
}

inline Model llama(std::int64_t kv_heads) {
  Model model = gpt(4, 1024, 16);
  model.name = "llama";
  model.shape_as(Architecture::llama);
  model.kv_heads = kv_heads;
  model.mlp_size = 2816;
  model.dropout_ppm = 0;
  model.tied_head = false;
  return model;
}

// A device on which everything takes what its peak says.
inline DeviceSpec ideal_device() {
  DeviceSpec device;
  device.name = "ideal";
  device.flops_per_second.fill(1e14);
  device.memory_bytes = std::int64_t{80} << 30;
  device.memory_bytes_per_second = 1'000'000'000'000;
  return device;
}

inline Cluster ideal_cluster() {
  Cluster cluster;
  cluster.name = "ideal";
  cluster.device = ideal_device();
  cluster.devices_per_node = 8;
  cluster.node.collectives = {{2, 100'000'000'000, 10'000, {}}, {8, 200'000'000'000, 40'000, {}}};
  cluster.node.p2p_bytes_per_second = 100'000'000'000;
  cluster.network.cards_per_node = 8;
  cluster.network.card_bytes_per_second = 25'000'000'000;
  return cluster;
}

inline Training training(std::int64_t micro_batch, std::int64_t sequence, int tensor_parallel = 1) {
  Training result;
  result.micro_batch_size = micro_batch;
  result.sequence_length = sequence;
  result.tensor_parallel = tensor_parallel;
  return result;
}

}  // namespace pipesim::testing
