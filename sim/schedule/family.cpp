#include "sim/schedule/family.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/schedule/families/families.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

char to_lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

void object_to(const Family& family, const Shape& shape) {
  if (family.objection == nullptr) return;
  if (const std::string objection = family.objection(shape); !objection.empty()) {
    throw input_error(fmt::format("{} {}", family.name, objection));
  }
}

}  // namespace

const std::vector<Family>& all_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> list;
    for (const auto& part :
         {families::naive(), families::gpipe(), families::one_f_one_b(), families::interleaved(),
          families::breadth_first(), families::zero_bubble(), families::zb_v(),
          families::controllable_memory(), families::dual_pipe_v(), families::dual_pipe()}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return all;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Family& family : all_families()) names.emplace_back(family.name);
  return names;
}

const Family& family(std::string_view name) {
  const auto is_meant = [&](std::string_view other) {
    return std::ranges::equal(name, other, {}, to_lower, to_lower);
  };
  for (const Family& family : all_families()) {
    if (is_meant(family.name) || std::ranges::any_of(family.aliases, is_meant)) return family;
  }
  throw input_error(unknown_name("schedule", name, schedule_names()) +
                    "; a file's name ends in .csv or .program");
}

Placement Family::usual_placement(int ranks, int chunks, int microbatches) const {
  if (placement == both_ways) return Placement::both_ways(ranks, microbatches);
  return Placement::parse(placement, ranks, chunks);
}

Shape resolve_shape(const Family& family, const ScheduleRequest& request) {
  Shape shape;
  shape.ranks = request.ranks;
  shape.microbatches = request.microbatches;
  shape.chunks = request.chunks.value_or(family.default_chunks);
  if (shape.chunks != 1 && family.placement == both_ways) {
    throw input_error(
        fmt::format("--virtual-stages {}: {} itself sets the chunks of a rank; omit it",
                    shape.chunks, family.name));
  }
  if (shape.chunks != family.default_chunks && !family.many_chunks) {
    throw input_error(fmt::format(
        "--virtual-stages {}: {} has {} chunk{} per rank; interleaved and bfs take any number",
        shape.chunks, family.name, family.default_chunks == 1 ? "one" : "two",
        family.default_chunks == 1 ? "" : "s"));
  }
  if (request.group && !family.takes_group) {
    throw input_error(fmt::format("--group: only interleaved has groups, not {}", family.name));
  }
  if (request.overlap_experts && !family.takes_group) {
    throw input_error(
        fmt::format("--overlap-experts: only interleaved has it, not {}", family.name));
  }
  shape.group = request.group.value_or(shape.ranks);
  shape.overlap_experts = request.overlap_experts;
  // Bidirectional families object to shapes without such a placement.
  if (family.placement == both_ways) object_to(family, shape);
  if (request.placement && family.placement == both_ways) {
    throw input_error(
        fmt::format("--placement: {} itself places the stages; omit it", family.name));
  }
  shape.placement = request.placement
                        ? Placement::parse(*request.placement, shape.ranks, shape.chunks)
                        : family.usual_placement(shape.ranks, shape.chunks, shape.microbatches);
  shape.position.assign(static_cast<std::size_t>(shape.placement.ranks()), -1);
  int next = 0;
  for (const int rank : shape.placement.rank_of_stage()) {
    int& position = shape.position[static_cast<std::size_t>(rank)];
    if (position < 0) position = next++;
  }
  if (!shape.placement.even() ||
      shape.placement.chunks() != shape.chunks * shape.placement.copies()) {
    throw input_error(
        fmt::format("--placement: {} needs {} on every rank, as --virtual-stages says", family.name,
                    plural(shape.chunks, "chunk")));
  }
  object_to(family, shape);
  return shape;
}

Schedule generate(const Family& family, const Shape& shape) {
  Schedule schedule{std::string(family.name), shape.microbatches, shape.placement, {}};
  const std::size_t slots = static_cast<std::size_t>(shape.placement.stages()) *
                            static_cast<std::size_t>(shape.microbatches);
  schedule.actions.reserve(slots * (family.splits_backward ? 3 : 2));
  if (family.all_actions != nullptr) {
    family.all_actions(shape, schedule.actions);
    return schedule;
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    schedule.actions.add_rank();
    family.actions(shape, rank, schedule.actions);
  }
  return schedule;
}

Schedule generate(const ScheduleRequest& request) {
  const Family& chosen = family(request.name);
  return generate(chosen, resolve_shape(chosen, request));
}

}  // namespace pipesim
