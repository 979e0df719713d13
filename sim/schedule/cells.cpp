#include "sim/schedule/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// The placement, if every stage is on one rank for the first half of the microbatches and on
// another for the second.
std::optional<Placement> with_copies(const Schedule& schedule) {
  std::int32_t stages = 0;
  std::int32_t microbatches = 0;
  for (const Action& action : schedule.actions.all()) {
    if (!takes_microbatch(action.kind)) continue;
    stages = std::max(stages, action.stage + 1);
    microbatches = std::max(microbatches, action.microbatch + 1);
  }
  const std::int64_t count = schedule.actions.size();
  if (microbatches % 2 != 0 || stages > count || microbatches > count ||
      schedule.ranks() > stages) {
    return std::nullopt;
  }
  std::array<std::vector<int>, 2> homes;
  for (std::vector<int>& own : homes) own.assign(static_cast<std::size_t>(stages), -1);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    for (const Action& action : schedule.actions[rank]) {
      if (!takes_microbatch(action.kind)) continue;
      const std::size_t copy = action.microbatch < microbatches / 2 ? 0 : 1;
      int& home = homes[copy][static_cast<std::size_t>(action.stage)];
      if (home >= 0 && home != rank) return std::nullopt;
      home = rank;
    }
  }
  for (std::size_t stage = 0; stage < homes[0].size(); ++stage) {
    if (homes[0][stage] < 0 || homes[1][stage] < 0 || homes[0][stage] == homes[1][stage]) {
      return std::nullopt;
    }
  }
  return Placement(std::move(homes[0]), std::move(homes[1]), microbatches);
}

}  // namespace

void read_joined(std::string_view cell, const std::function<Action(std::string_view text)>& read,
                 const std::function<void(const Action&)>& add,
                 const std::function<void(const std::string& rule)>& fail) {
  const std::size_t close = cell.find(')');
  const std::string_view type =
      close == std::string_view::npos ? std::string_view{} : cell.substr(close + 1);
  const bool overlap = type == "OVERLAP_F_B";
  if (!overlap && type != "BATCH_P2P") {
    fail(fmt::format("{} must end in )OVERLAP_F_B or )BATCH_P2P", quote(cell)));
  }
  const auto parts = split(cell.substr(1, close - 1), ';');
  if (overlap && parts.size() != 2) {
    fail(fmt::format("{} joins {}; OVERLAP_F_B takes a forward and a backward", quote(cell),
                     plural(static_cast<std::int64_t>(parts.size()), "action")));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Action action = read(strip(parts[i]));
    if (!overlap && !is_transfer(action.kind)) {
      fail(fmt::format("{} in a BATCH_P2P is neither SEND nor RECV", quote(parts[i])));
    }
    action.joined = i + 1 < parts.size();
    add(action);
  }
}

void infer_shape(Schedule& schedule, const std::string& file, const FailAt& fail_at) {
  const std::int64_t count = schedule.actions.size();
  std::int32_t highest_microbatch = -1;
  std::vector<int> rank_of_stage;
  struct Place {
    int rank = 0;
    std::size_t index = 0;
  };
  Place of_highest;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto list = std::as_const(schedule).actions[rank];
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].kind == Kind::IDLE) continue;
      if (list[i].microbatch > highest_microbatch) {
        highest_microbatch = list[i].microbatch;
        of_highest = {rank, i};
      }
      const auto stage = static_cast<std::size_t>(list[i].stage);
      if (list[i].stage >= count) {
        fail_at(rank, i,
                fmt::format("stage {} in a file of {}: stages are numbered from 0 without gaps",
                            stage, plural(count, "action")));
      }
      if (stage >= rank_of_stage.size()) rank_of_stage.resize(stage + 1, -1);
      int& owner = rank_of_stage[stage];
      if (owner >= 0 && owner != rank) {
        if (std::optional<Placement> found = with_copies(schedule)) {
          schedule.microbatches = found->microbatches();
          schedule.placement = std::move(*found);
          return;
        }
        fail_at(rank, i,
                fmt::format("stage {} is on rank {} too; a stage lives on one rank, or each "
                            "stage on two, of which one has the first half of the microbatches",
                            stage, owner));
      }
      owner = rank;
    }
  }
  const auto gap = std::ranges::find(rank_of_stage, -1);
  if (gap != rank_of_stage.end()) {
    const auto missing = static_cast<std::int32_t>(gap - rank_of_stage.begin());
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      const auto list = std::as_const(schedule).actions[rank];
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind == Kind::IDLE || list[i].stage < missing) continue;
        fail_at(rank, i,
                fmt::format("{}, but no rank holds stage {}; stages are numbered without gaps",
                            to_text(list[i]), missing));
      }
    }
  }
  if (highest_microbatch >= count) {
    fail_at(of_highest.rank, of_highest.index,
            fmt::format("microbatch {} in a file of {}; microbatches are numbered from 0",
                        highest_microbatch, plural(count, "action")));
  }
  schedule.microbatches = highest_microbatch + 1;
  schedule.placement = Placement(std::move(rank_of_stage));
  if (schedule.microbatches == 0) {
    throw input_error(fmt::format("{}: holds no F; a schedule needs a microbatch", file));
  }
}

}  // namespace pipesim
