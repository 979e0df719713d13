#include "sim/cost/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "sim/cost/layout.h"
#include "sim/cost/stage_sum.h"
#include "sim/schedule/schedule.h"
#include "traces/base/error.h"
#include "traces/base/rate.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Nanoseconds times bytes need more than 64 bits.
__extension__ using Product = __int128;

}  // namespace

std::int64_t CollectiveCosts::bytes_of(std::int64_t part) const {
  if (part_ends.empty()) return share_of(bytes, parts, part);
  const auto at = static_cast<std::size_t>(part);
  return part_ends[at] - (at == 0 ? 0 : part_ends[at - 1]);
}

std::int64_t CollectiveCosts::lead_ns(std::int64_t time_ns, std::int64_t first_parts) const {
  if (part_ends.empty()) {
    return time_ns / parts * first_parts + (time_ns % parts * first_parts + parts - 1) / parts;
  }
  if (first_parts == 0) return 0;
  const Product of_bytes = Product{time_ns} * part_ends[static_cast<std::size_t>(first_parts) - 1];
  return static_cast<std::int64_t>((of_bytes + bytes - 1) / bytes);
}

const Link& Costs::link(int from_rank, int to_rank) const {
  const auto found = edges.find({from_rank, to_rank});
  return found == edges.end() ? p2p : found->second;
}

Link Costs::collective_link(int rank) const {
  return collective_links.empty() ? Link() : collective_links[static_cast<std::size_t>(rank)];
}

std::int64_t Costs::occupied_ns(const Link& link, std::int64_t bytes) const {
  std::int64_t longest = 0;
  if (link.bytes_per_second) longest = pipesim::occupied_ns(bytes, *link.bytes_per_second);
  for (const int index : link.through) {
    const std::int64_t rate = shared_links[static_cast<std::size_t>(index)].bytes_per_second;
    longest = std::max(longest, pipesim::occupied_ns(bytes, rate));
  }
  return longest;
}

std::int64_t Costs::group_ns(Kind blocking_collective, const Placement& placement) const {
  const auto& costs = group_costs(blocking_collective);
  if (!costs || group_of(blocking_collective, placement).size() == 1) return 0;
  return costs->latency_ns + occupied_ns(costs->link(), costs->bytes);
}

std::vector<StageFootprint> Costs::footprints(const Placement& placement) const {
  std::vector<StageFootprint> result(static_cast<std::size_t>(placement.stages()));
  for (std::size_t s = 0; s < result.size(); ++s) {
    result[s].activation_bytes = stages[s].activation_bytes;
    result[s].weight_residue_bytes = stages[s].weight_residue_bytes;
    result[s].unsharded_bytes = stages[s].unsharded_bytes;
    result[s].workspace_bytes = stages[s].workspace_bytes;
    if (s == 0) continue;
    const int at = static_cast<int>(s);
    if (placement.rank_of(at - 1) == placement.rank_of(at)) continue;
    const std::int64_t bytes = stages[s - 1].output_bytes;
    result[s - 1].forward_output_bytes = bytes;
    result[s - 1].backward_input_bytes = bytes;
    result[s].forward_input_bytes = bytes;
    result[s].backward_output_bytes = bytes;
  }
  return result;
}

std::int64_t part_of_chunk(std::int64_t of_rank_ns, int chunk, int chunks) {
  const std::int64_t part = of_rank_ns / chunks;
  return chunk == chunks - 1 ? of_rank_ns - part * (chunks - 1) : part;
}

StageCosts usual_stage_costs(int chunk, int chunks) {
  constexpr std::int64_t rank_ns = 1'000'000;
  StageCosts usual;
  usual.forward_ns = part_of_chunk(rank_ns, chunk, chunks);
  usual.backward_input_ns = usual.backward_weight_ns = usual.forward_ns;
  return usual;
}

bool exchanges_bytes(const std::vector<StageFootprint>& footprints) {
  return std::ranges::any_of(
      footprints, [](const StageFootprint& stage) { return stage.forward_output_bytes > 0; });
}

std::vector<StateBytes> Costs::states(const Placement& placement) const {
  std::vector<StateBytes> result(static_cast<std::size_t>(placement.ranks()));
  for (int stage = 0; stage < placement.stages(); ++stage) {
    for (int copy = 0; copy < placement.copies(); ++copy) {
      StateBytes& rank = result[static_cast<std::size_t>(placement.rank_of(stage, copy))];
      const StageCosts& own = of(stage, copy, placement);
      rank.weights += own.weight_bytes;
      rank.gradients += own.gradient_bytes;
      rank.optimizer += own.optimizer_bytes;
    }
  }
  return result;
}

void Costs::check(const Placement& placement, int microbatches, std::string_view where,
                  int iterations) const {
  const int own_entries = static_cast<int>(stages.size());
  if (own_entries != placement.stages() && own_entries != placement.stages() * placement.copies()) {
    throw input_error(fmt::format(
        "{}: costs for {} but the schedule has {} ({} per rank); give one entry per virtual stage",
        where, plural(static_cast<std::int64_t>(stages.size()), "virtual stage"),
        plural(placement.stages(), "virtual stage"), placement.chunks()));
  }
  const auto check_ranks = [&](const std::vector<std::int64_t>& values, std::string_view key) {
    if (!values.empty() && static_cast<int>(values.size()) != placement.ranks()) {
      throw input_error(
          fmt::format("{}: {} has {} but the schedule has {}", where, key,
                      plural(static_cast<std::int64_t>(values.size()), "entry", "entries"),
                      plural(placement.ranks(), "rank")));
    }
  };
  check_ranks(optimizer_ns, "optimizer_ns");
  check_ranks(reduce_gradients_ns, "reduce_gradients_ns");
  if (!collective_links.empty() && static_cast<int>(collective_links.size()) != placement.ranks()) {
    throw input_error(
        fmt::format("{}: collectives has {} but the schedule has {}", where,
                    plural(static_cast<std::int64_t>(collective_links.size()), "entry", "entries"),
                    plural(placement.ranks(), "rank")));
  }
  const auto reduces = [](const StageCosts& stage) { return stage.reduce.exists(); };
  if (!reduce_gradients_ns.empty() && std::ranges::any_of(stages, reduces)) {
    throw input_error(fmt::format(
        "{}: both reduce_gradients_ns and a stage's reduce give a reduction's time; keep one",
        where));
  }
  const auto is_listed = [&](int index) {
    return index >= 0 && static_cast<std::size_t>(index) < shared_links.size();
  };
  for (std::size_t rank = 0; rank < collective_links.size(); ++rank) {
    if (std::ranges::all_of(collective_links[rank].through, is_listed)) continue;
    throw input_error(fmt::format(
        "{}: collectives of rank {} go through a link that does not exist", where, rank));
  }
  for (const auto* group : {&tied_gradients, &gradient_norm}) {
    if (!*group || std::ranges::all_of((*group)->through, is_listed)) continue;
    throw input_error(fmt::format("{}: {} goes through a link that does not exist", where,
                                  group == &tied_gradients ? "tied_gradients" : "gradient_norm"));
  }
  for (const auto& [edge, link] : edges) {
    if (!std::ranges::all_of(link.through, is_listed)) {
      throw input_error(fmt::format("{}: p2p edge {}->{} goes through a link that does not exist",
                                    where, edge.first, edge.second));
    }
    if (edge.first >= placement.ranks() || edge.second >= placement.ranks()) {
      throw input_error(
          fmt::format("{}: p2p edge {}->{} names a rank that the schedule, with {}, does not have",
                      where, edge.first, edge.second, plural(placement.ranks(), "rank")));
    }
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const Kind kind : {Kind::F, Kind::I}) {
      const std::int64_t ns = stages[s].duration_ns(kind);
      if (ns <= max_time_ns || stages[s].messages_ns() == 0) continue;
      throw input_error(
          fmt::format("{}: stage {}: {} with its messages takes {} ns, more than {} ns; use "
                      "smaller costs",
                      where, s % static_cast<std::size_t>(placement.stages()), kind_name(kind), ns,
                      max_time_ns));
    }
  }
  // No path is longer than all actions in sequence, and no rank holds more than all activations at
  // once.
  const long double slowed = 1 + static_cast<long double>(compute_slowdown_ppm) / 1e6L;
  long double time = 0;
  long double bytes = 0;
  for (std::size_t entry = 0; entry < stages.size(); ++entry) {
    const StageCosts& stage = stages[entry];
    const int s = static_cast<int>(entry) % placement.stages();
    time += slowed * (static_cast<long double>(stage.duration_ns(Kind::F)) +
                      static_cast<long double>(stage.duration_ns(Kind::B)) +
                      static_cast<long double>(stage.overlap_ns.value_or(0)));
    bytes += static_cast<long double>(stage.activation_bytes) +
             static_cast<long double>(stage.weight_residue_bytes) +
             static_cast<long double>(stage.weight_bytes) +
             static_cast<long double>(stage.gradient_bytes) +
             static_cast<long double>(stage.optimizer_bytes) +
             static_cast<long double>(stage.unsharded_bytes) +
             static_cast<long double>(stage.workspace_bytes);
    for (const CollectiveCosts* collective : {&stage.unshard, &stage.reduce}) {
      if (!collective->exists()) continue;
      // The end of each part is rounded up.
      time += static_cast<long double>(max_collectives(1)) *
              (static_cast<long double>(collective->latency_ns) +
               static_cast<long double>(
                   occupied_ns(collective_link(placement.rank_of(s)), collective->bytes)) +
               static_cast<long double>(collective->parts));
    }
    if (s + 1 == placement.stages()) continue;
    const int a = placement.rank_of(s);
    const int b = placement.rank_of(s + 1);
    if (a == b) continue;
    bytes += 4 * static_cast<long double>(stage.output_bytes);  // both directions, at both ends
    for (const Link* one : {&link(a, b), &link(b, a)}) {
      time += static_cast<long double>(one->latency_ns) +
              static_cast<long double>(occupied_ns(*one, stage.output_bytes));
    }
  }
  time *= microbatches;
  bytes *= microbatches;
  for (const auto* values : {&optimizer_ns, &reduce_gradients_ns}) {
    for (const std::int64_t value : *values) time += static_cast<long double>(value);
  }
  for (const auto* group : {&tied_gradients, &gradient_norm}) {
    if (!*group) continue;
    time += static_cast<long double>((*group)->latency_ns) +
            static_cast<long double>(occupied_ns((*group)->link(), (*group)->bytes));
  }
  if (save && !save->bytes.empty()) {
    if (std::ssize(save->bytes) != placement.ranks()) {
      throw input_error(
          fmt::format("{}: save.bytes has {} but the schedule has {}", where,
                      plural(static_cast<std::int64_t>(save->bytes.size()), "entry", "entries"),
                      plural(placement.ranks(), "rank")));
    }
    time += static_cast<long double>(save->publish_ns);
    for (const std::int64_t own : save->bytes) {
      time += static_cast<long double>(save->storage_ns(own)) +
              static_cast<long double>(save->copy_ns(own));
      bytes += static_cast<long double>(save->writers) * static_cast<long double>(own);
    }
  }
  time *= iterations;
  constexpr auto limit = static_cast<long double>(std::numeric_limits<std::int64_t>::max()) / 2;
  if (time > limit || bytes > limit) {
    throw input_error(fmt::format(
        "{}: the {} of all actions together exceed what 64 bits hold; use smaller costs or fewer "
        "{}",
        where, time > limit ? "times" : "bytes", iterations > 1 ? "iterations" : "microbatches"));
  }
}

void fill_save_bytes(const Placement& placement, const std::vector<std::int64_t>& parameters,
                     int replicas, int tensor_parallel, Costs& costs) {
  constexpr std::int64_t bytes_of_parameter = 12;
  SaveCosts& save = *costs.save;
  if (!save.bytes.empty()) return;
  save.bytes.assign(static_cast<std::size_t>(placement.ranks()), 0);
  for (std::size_t s = 0; s < static_cast<std::size_t>(placement.stages()); ++s) {
    const StageCosts& stage = costs.stages[s];
    std::int64_t bytes = stage.weight_bytes + stage.optimizer_bytes;
    if (!parameters.empty()) {
      bytes = bytes_of_parameter * parameters[s];
    } else if (!stage.parameters.empty()) {
      bytes = bytes_of_parameter *
              std::accumulate(stage.parameters.begin(), stage.parameters.end(), std::int64_t{0});
    }
    // The first of two copies is saved.
    save.bytes[static_cast<std::size_t>(placement.rank_of(static_cast<int>(s)))] += bytes;
  }
  for (std::int64_t& bytes : save.bytes) bytes = (bytes + replicas - 1) / replicas;
  save.writers = std::int64_t{replicas} * tensor_parallel;
}

namespace {

// A message takes compute of its receiver, in the action that needs it.
void add_receiving(std::int64_t receive_ns, const Placement& placement,
                   std::vector<StageCosts>& stages) {
  const int most = std::min(placement.stages(), static_cast<int>(stages.size()));
  for (int stage = 1; stage < most; ++stage) {
    if (placement.rank_of(stage) == placement.rank_of(stage - 1)) continue;
    stages[static_cast<std::size_t>(stage)].forward_messages_ns += receive_ns;
    stages[static_cast<std::size_t>(stage) - 1].backward_messages_ns += receive_ns;
  }
}

}  // namespace

Costs CostsFile::resolve(const Placement& placement,
                         const std::optional<std::vector<int>>& layout) const {
  Costs result = costs;
  const auto ranks = static_cast<std::size_t>(placement.ranks());
  if (optimizer_ns) result.optimizer_ns.assign(ranks, *optimizer_ns);
  if (reduce_gradients_ns) result.reduce_gradients_ns.assign(ranks, *reduce_gradients_ns);
  if (collective_link) result.collective_links.assign(ranks, *collective_link);
  if (save_bytes) result.save->bytes.assign(ranks, *save_bytes);
  if (layers.empty()) {
    if (layout) {
      throw input_error(fmt::format(
          "--layout: {} gives costs by stage; only costs by layer can be laid out", name));
    }
    add_receiving(receive_ns, placement, result.stages);
    return result;
  }
  const std::vector<int> sizes =
      resolve_layout(layout, static_cast<int>(layers.size()), placement.stages(), name);
  const StageCosts* next = layers.data();
  for (const int size : sizes) {
    StageSum stage(name + ": the layers of a stage", "use smaller costs or more stages");
    for (const StageCosts* const end = next + size; next != end; ++next) stage.add(*next);
    result.stages.push_back(stage.costs());
  }
  sum_closing(placement, result);
  add_receiving(receive_ns, placement, result.stages);
  return result;
}

}  // namespace pipesim
