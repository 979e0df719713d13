#include "sim/cost/recut.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "sim/cost/stage_sum.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t StageCosts::*divided[] = {
    &StageCosts::forward_ns,           &StageCosts::backward_input_ns,
    &StageCosts::backward_weight_ns,   &StageCosts::optimizer_ns,
    &StageCosts::reduce_gradients_ns,  &StageCosts::activation_bytes,
    &StageCosts::weight_residue_bytes, &StageCosts::weight_bytes,
    &StageCosts::gradient_bytes,       &StageCosts::optimizer_bytes,
    &StageCosts::unsharded_bytes};

// The sum of the first `index` of `count` parts of a total.
std::int64_t up_to(std::int64_t total, std::int64_t count, std::int64_t index) {
  return total / count * index + total % count * index / count;
}

std::int64_t piece_of(std::int64_t total, std::int64_t count, std::int64_t index) {
  return up_to(total, count, index + 1) - up_to(total, count, index);
}

// Each part has its own steps: a step's time goes with it.
CollectiveCosts piece_of(const CollectiveCosts& whole, std::int64_t count, std::int64_t index) {
  CollectiveCosts part = whole;
  part.bytes = piece_of(whole.bytes, count, index);
  if (!part.exists()) return {};
  part.parts = std::max<std::int64_t>(1, piece_of(whole.parts, count, index));
  part.latency_ns = up_to(whole.latency_ns, whole.parts, part.parts);
  part.part_ends.clear();
  return part;
}

// Layers that are cut in two are in both parts.
std::vector<std::int64_t> piece_of(const std::vector<std::int64_t>& layers, std::int64_t count,
                                   std::int64_t index) {
  const std::int64_t total = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  const std::int64_t begin = up_to(total, count, index);
  const std::int64_t end = up_to(total, count, index + 1);
  std::vector<std::int64_t> part;
  std::int64_t at = 0;
  for (const std::int64_t layer : layers) {
    const std::int64_t own = std::min(end, at + layer) - std::max(begin, at);
    if (own > 0) part.push_back(own);
    at += layer;
  }
  if (part.empty() && !layers.empty()) part.push_back(0);
  return part;
}

StageCosts piece_of(const StageCosts& whole, std::int64_t count, std::int64_t index) {
  StageCosts part = whole;  // messages, output and workspace are not divided
  for (const auto field : divided) part.*field = piece_of(whole.*field, count, index);
  if (whole.overlap_ns) part.overlap_ns = piece_of(*whole.overlap_ns, count, index);
  part.unshard = piece_of(whole.unshard, count, index);
  part.reduce = piece_of(whole.reduce, count, index);
  part.parameters = piece_of(whole.parameters, count, index);
  return part;
}

// Appends the sum of the parts.
void add_joined(std::span<const StageCosts> parts, const std::string& whose,
                std::vector<StageCosts>& cuts) {
  if (parts.size() == 1) {
    cuts.push_back(parts.front());
    return;
  }
  StageSum sum(whose + ": merged stages", "use smaller costs or more stages");
  for (const StageCosts& part : parts) sum.add(part);
  cuts.push_back(sum.costs());
  StageCosts& all = cuts.back();
  std::int64_t overlap_ns = 0;
  bool overlaps = false;
  for (const StageCosts& part : parts) {
    overlaps = overlaps || part.overlap_ns;
    overlap_ns += part.overlap_ns.value_or(part.duration_ns(Kind::F) + part.duration_ns(Kind::B));
    all.forward_messages_ns = std::max(all.forward_messages_ns, part.forward_messages_ns);
    all.backward_messages_ns = std::max(all.backward_messages_ns, part.backward_messages_ns);
    for (const auto field : {&StageCosts::unshard, &StageCosts::reduce}) {
      (all.*field).side_by_side |= (part.*field).side_by_side;
      (all.*field).holds_gradients |= (part.*field).holds_gradients;
    }
  }
  if (overlaps) all.overlap_ns = std::min(overlap_ns, max_time_ns);
}

// Distributes ranks' optimizer and reduction times over their stages. Left unchanged for a wrong
// number of ranks, which Costs::check() refuses.
void hand_out(std::vector<std::int64_t>& by_rank, std::int64_t StageCosts::*field,
              const Placement& placement, std::vector<StageCosts>& stages) {
  if (std::ssize(by_rank) != placement.ranks()) return;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::vector<int>& own = placement.stages_of(static_cast<int>(rank));
    for (std::size_t i = 0; i < own.size(); ++i) {
      stages[static_cast<std::size_t>(own[i])].*field +=
          piece_of(by_rank[rank], std::ssize(own), static_cast<std::int64_t>(i));
    }
  }
  // The mean of two copies.
  for (StageCosts& stage : stages) stage.*field /= placement.copies();
  by_rank.clear();
}

}  // namespace

std::vector<StageCosts> recut(const std::vector<StageCosts>& stages, int count,
                              const std::string& whose) {
  const auto given = static_cast<int>(stages.size());
  if (count == given) return stages;
  const int common = std::gcd(given, count);
  const int parts_of_stage = count / common;
  const int parts_of_cut = given / common;
  std::vector<StageCosts> parts;
  for (const StageCosts& stage : stages) {
    for (int i = 0; i < parts_of_stage; ++i) parts.push_back(piece_of(stage, parts_of_stage, i));
  }
  std::vector<StageCosts> cuts;
  for (std::size_t at = 0; at < parts.size(); at += static_cast<std::size_t>(parts_of_cut)) {
    add_joined(std::span(parts).subspan(at, static_cast<std::size_t>(parts_of_cut)), whose, cuts);
  }
  return cuts;
}

CostsFile recut(CostsFile file, const Placement& given, const Placement& wanted) {
  if (given == wanted) return file;
  std::vector<StageCosts>& stages = file.costs.stages;
  hand_out(file.costs.optimizer_ns, &StageCosts::optimizer_ns, given, stages);
  hand_out(file.costs.reduce_gradients_ns, &StageCosts::reduce_gradients_ns, given, stages);
  stages = recut(stages, wanted.stages(), file.name);
  sum_closing(wanted, file.costs);
  return file;
}

}  // namespace pipesim
