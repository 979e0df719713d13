#include "sim/cost/estimate/direct_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "traces/base/error.h"

namespace pipesim {
namespace {

constexpr std::int64_t gradient_bytes = 4;  // they are summed in fp32

std::int64_t numbers_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

CollectiveCosts collective_of(const DirectExchange& whole,
                              const std::vector<std::int64_t>& segments, bool side_by_side,
                              const ReplicaCosts& costs) {
  CollectiveCosts collective;
  const std::int64_t numbers = numbers_of(segments);
  collective.bytes = std::llround(whole.bytes);
  if (numbers == 0 || whole.steps == 0 || collective.bytes == 0) return {};
  collective.parts = std::ssize(segments);
  collective.side_by_side = side_by_side;
  collective.latency_ns = collective.parts * whole.steps * costs.latency_ns;
  if (collective.parts == 1) return collective;
  std::int64_t reached = 0;
  for (const std::int64_t segment : segments) {
    reached += segment;
    const double share = static_cast<double>(reached) / static_cast<double>(numbers);
    collective.part_ends.push_back(std::llround(share * whole.bytes));
  }
  collective.part_ends.back() = collective.bytes;
  return collective;
}

// Of two consecutive layers, or of the only one.
std::int64_t largest_neighbours(const std::vector<std::int64_t>& numbers) {
  std::int64_t largest = 0;
  std::int64_t before = 0;
  for (const std::int64_t own : numbers)
    largest = std::max(largest, std::exchange(before, own) + own);
  return largest;
}

std::int64_t part_of(std::int64_t whole, int shards) { return (whole + shards - 1) / shards; }

}  // namespace

std::vector<std::int64_t> reduced_segments(const std::vector<std::int64_t>& layer_parameters,
                                           const Training& training) {
  const bool by_layer = training.zero >= 2 && training.shards() > 1;
  std::vector<std::int64_t> cut(layer_parameters.rbegin(), layer_parameters.rend());
  if (!by_layer) cut = {numbers_of(layer_parameters)};
  std::int64_t most = largest_gradient_piece;
  if (by_layer) most = std::numeric_limits<std::int64_t>::max();
  if (training.bucket_bytes) most = *training.bucket_bytes;
  most = std::max<std::int64_t>(1, most / gradient_bytes);
  // Beyond the largest number of parts, parts are a little larger.
  constexpr std::int64_t max_parts = CollectiveCosts::max_parts;
  most = std::max(most, (numbers_of(layer_parameters) + max_parts - 1) / max_parts);
  std::vector<std::int64_t> segments;
  for (std::int64_t left : cut) {
    for (; left > 0; left -= std::min(left, most)) segments.push_back(std::min(left, most));
  }
  return segments;
}

bool reduces_in_turn(const Training& training) {
  return !training.bucket_bytes || (training.zero >= 2 && training.shards() > 1);
}

DirectExchange direct_reduction(double gradient_bytes, const Training& training) {
  const double sharers = training.shards();
  const double likes = static_cast<double>(training.data_parallel) / sharers;
  DirectExchange exchange;
  if (sharers > 1) exchange = {gradient_bytes * (sharers - 1) / sharers, 1};
  if (likes > 1) {
    exchange.bytes += 2 * gradient_bytes / sharers * (likes - 1) / likes;
    exchange.steps += 2;
  }
  return exchange;
}

DirectExchange direct_gather(double weight_bytes, const Training& training) {
  const double sharers = training.shards();
  if (sharers == 1) return {};
  return {weight_bytes * (sharers - 1) / sharers, 1};
}

void check_parameters_known(const Costs& costs, std::string_view where) {
  const auto tells = [](const StageCosts& stage) { return !stage.parameters.empty(); };
  if (std::ranges::all_of(costs.stages, tells)) return;
  throw input_error(fmt::format(
      "{}: the number of parameters that replicas exchange is missing; give each stage or "
      "layer its `parameters`",
      where));
}

void check_exchanges_known(const Costs& costs, std::string_view where) {
  if (!costs.replicas) {
    throw input_error(
        fmt::format("{}: the time of an exchange with replicas is missing; calibrate it from "
                    "a run with --data-parallel of 2 or more, or give `replicas`",
                    where));
  }
  check_parameters_known(costs, where);
  for (const StageCosts& stage : costs.stages) {
    if (!stage.unshard.exists() && !stage.reduce.exists()) continue;
    throw input_error(
        fmt::format("{}: both `replicas` and a stage's unshard or reduce say what replicas "
                    "exchange; keep one",
                    where));
  }
}

void split_states(const Training& training, Costs& costs) {
  const int shards = training.shards();
  for (StageCosts& stage : costs.stages) {
    if (training.zero >= 1) stage.optimizer_bytes = part_of(stage.optimizer_bytes, shards);
    if (training.zero >= 2) stage.gradient_bytes = part_of(stage.gradient_bytes, shards);
    if (training.zero >= 3) stage.weight_bytes = part_of(stage.weight_bytes, shards);
  }
  for (std::int64_t& ns : costs.optimizer_ns) ns = part_of(ns, shards);
}

void add_exchanges(const Training& training, const Placement& placement, Costs& costs) {
  const ReplicaCosts replicas = *costs.replicas;
  const bool gathers_each = training.zero == 3 && training.shards() > 1;
  const bool gathers_stepped = training.zero < 3 && training.shards() > 1;
  std::vector<double> stepped(static_cast<std::size_t>(placement.ranks()));  // bytes to gather
  for (int s = 0; s < placement.stages(); ++s) {
    StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
    const auto numbers = static_cast<double>(numbers_of(stage.parameters));
    stage.reduce = collective_of(direct_reduction(numbers * gradient_bytes, training),
                                 reduced_segments(stage.parameters, training),
                                 !reduces_in_turn(training), replicas);
    stage.reduce.holds_gradients = true;  // they are summed in place
    const DirectExchange gather =
        direct_gather(numbers * static_cast<double>(replicas.weight_bytes), training);
    if (gathers_each && training.gathers(placement.stages()) == Gather::pass) {
      // A layer computes once it has arrived.
      stage.unshard = collective_of(gather, stage.parameters, false, replicas);
      stage.unsharded_bytes = largest_neighbours(stage.parameters) * replicas.weight_bytes;
    } else if (gathers_each) {
      // A stage computes once all of it has arrived.
      const std::int64_t numbers_of_all = numbers_of(stage.parameters);
      stage.unshard = collective_of(gather, {numbers_of_all}, true, replicas);
      stage.unsharded_bytes = numbers_of_all * replicas.weight_bytes;
    }
    if (gathers_stepped) stepped[static_cast<std::size_t>(placement.rank_of(s))] += gather.bytes;
  }
  const Link link{0, replicas.bytes_per_second};
  costs.collective_links.assign(static_cast<std::size_t>(placement.ranks()), link);
  costs.reduce_gradients_ns.clear();  // sums are part of the exchange
  costs.replicas.reset();
  if (!gathers_stepped) return;
  costs.optimizer_ns.resize(stepped.size());
  for (std::size_t rank = 0; rank < stepped.size(); ++rank) {
    if (stepped[rank] == 0) continue;
    // Stage by stage.
    const auto stages = std::ssize(placement.stages_of(static_cast<int>(rank)));
    costs.optimizer_ns[rank] +=
        stages * replicas.latency_ns + costs.occupied_ns(link, std::llround(stepped[rank]));
  }
}

}  // namespace pipesim
