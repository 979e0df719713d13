#include "sim/cli/rank_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "sim/cost/estimate/rank_groups.h"
#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

constexpr std::int64_t most_ranks = 1 << 18;
// Of so many ranks, text has all groups and all members of small ones.
constexpr std::int64_t few_ranks = 64;

// Checked as for a prediction, but a schedule is only needed for its number of ranks.
CostModel asked_training(const PredictFlags& flags) {
  const ModelFlags& model = flags.costs.model;
  if (!model.model || !model.cluster) {
    throw input_error(
        "--list-ranks: it lists the ranks of a model's training on a cluster; give --model and "
        "--cluster");
  }
  if (flags.schedule.schedule) return *prepare(flags, {}).prepared.model;
  if (!flags.schedule.stages) {
    throw input_error(
        "--list-ranks: the number of pipeline ranks is missing; give --stages, or a --schedule "
        "FILE");
  }
  const CostRequest costs = cost_request(flags.costs);
  const auto& training = std::get<TrainingRequest>(costs.costs);
  std::vector<std::string> notes;
  CostModel found = training.with_ranks(parse_count(*flags.schedule.stages, "--stages"),
                                        training.devices ? &notes : nullptr);
  tell(model, notes);
  return found;
}

Json on_one_line(const Json& json) { return Json::verbatim(json.dump()); }

// Where a rank is.
struct PlacedRank {
  std::int64_t node, device;
  Coordinates at;
  Coordinates of_experts;
  std::int64_t first_expert, last_expert;
};

class RankList {
 public:
  explicit RankList(const CostModel& model)
      : model_(model),
        training_(model.training()),
        has_experts_(model.model().has_experts()),
        mesh_(training_.mesh(training_.pipeline_parallel)) {
    if (mesh_.ranks() > most_ranks) {
      throw input_error(fmt::format("--list-ranks: {} are more than a list has, {}; use fewer",
                                    plural(mesh_.ranks(), "rank"), format_count(most_ranks)));
    }
    if (has_experts_) experts_ = training_.expert_mesh(training_.pipeline_parallel);
    groups_ = rank_groups(training_, training_.pipeline_parallel, has_experts_);
  }

  Json json() const {
    Json json{{"format", "pipesim-ranks"}, {"version", 1}};
    json["ranks"] = Json::array();
    for (std::int64_t rank = 0; rank < mesh_.ranks(); ++rank) {
      const PlacedRank one = place(rank);
      Json own{{"rank", rank},           {"node", one.node},
               {"device", one.device},   {"pipeline", one.at.pipeline},
               {"data", one.at.data},    {"context", one.at.context},
               {"tensor", one.at.tensor}};
      if (has_experts_) {
        own.add("expert_block", one.of_experts.expert);
        own.add("experts", std::vector{one.first_expert, one.last_expert});
        own.add("expert_part", one.of_experts.tensor);
        own.add("expert_replica", one.of_experts.data);
      }
      json["ranks"].push_back(on_one_line(own));
    }
    json["groups"] = Json::object();
    for (const RankGroups& kind : groups_) {
      Json all = Json::array();
      for (const RankGroup& group : kind.groups) {
        std::vector<std::int64_t> members;
        for (std::int64_t i = 0; i < group.count; ++i) members.push_back(group[i]);
        all.push_back(on_one_line(members));
      }
      json["groups"].add(kind.key, std::move(all));
    }
    return json;
  }

  std::string text(int width) const {
    std::string out = wrap(heading(), width) + "\n\n" + rank_table(width) + "\n";
    std::size_t margin = 0;
    for (const RankGroups& kind : groups_) margin = std::max(margin, kind.name.size() + 2);
    for (const RankGroups& kind : groups_) {
      out += fmt::format("{:<{}}", kind.name, margin) + group_lines(kind, margin, width);
    }
    return out;
  }

 private:
  PlacedRank place(std::int64_t rank) const {
    const std::int64_t per_node = model_.cluster().devices_per_node;
    PlacedRank one{rank / per_node, rank % per_node, mesh_.coordinates_of(rank), {}, 0, 0};
    if (!has_experts_) return one;
    one.of_experts = experts_.coordinates_of(rank);
    const std::int64_t each = model_.model().experts / training_.expert_parallel;
    one.first_expert = one.of_experts.expert * each;
    one.last_expert = one.first_expert + each - 1;
    return one;
  }

  std::string heading() const {
    const std::int64_t nodes = place(mesh_.ranks() - 1).node + 1;
    std::string text =
        fmt::format("{} on {} of {}: {} pipeline x {} data x {} context x {} tensor",
                    plural(mesh_.ranks(), "rank"), plural(nodes, "node"),
                    printable(model_.cluster().name), mesh_.size(Axis::pipeline),
                    mesh_.size(Axis::data), mesh_.size(Axis::context), mesh_.size(Axis::tensor));
    if (!has_experts_) return text;
    return text + fmt::format("\nexperts: {} pipeline x {} x {} x {}", mesh_.size(Axis::pipeline),
                              plural(experts_.size(Axis::data), "replica"),
                              plural(experts_.size(Axis::expert), "block"),
                              plural(experts_.size(Axis::tensor), "part"));
  }

  std::string rank_table(int width) const {
    std::vector<std::string> labels{"rank"};
    std::vector<ColumnGroup> groups{
        {"", {{"node", {}}, {"device", {}}}},
        {"", {{"pipeline", {}}, {"data", {}}, {"context", {}}, {"tensor", {}}}},
        {"", {{"experts", {}}, {"part", {}}, {"replica", {}}}}};
    if (!has_experts_) groups.pop_back();
    for (std::int64_t rank = 0; rank < mesh_.ranks(); ++rank) {
      labels.push_back(std::to_string(rank));
      const PlacedRank one = place(rank);
      const auto put = [&](std::size_t group, const std::vector<std::int64_t>& values) {
        std::vector<Column>& columns = groups[group].columns;
        for (std::size_t c = 0; c < values.size(); ++c) {
          columns[columns.size() - values.size() + c].cells.push_back(std::to_string(values[c]));
        }
      };
      put(0, {one.node, one.device});
      put(1, {one.at.pipeline, one.at.data, one.at.context, one.at.tensor});
      if (!has_experts_) continue;
      groups[2].columns[0].cells.push_back(
          members({one.first_expert, 1, one.last_expert - one.first_expert + 1}));
      put(2, {one.of_experts.tensor, one.of_experts.data});
    }
    return table(labels, groups, static_cast<std::size_t>(width));
  }

  // "0-3", "0, 4, 8", "0, 4, ..., 60".
  std::string members(const RankGroup& group) const {
    if (group.count == 1) return std::to_string(group.first);
    if (group.stride == 1) return fmt::format("{}-{}", group.first, group.last());
    const std::int64_t most = mesh_.ranks() <= few_ranks ? 8 : 4;
    if (group.count > most) {
      return fmt::format("{}, {}, ..., {}", group[0], group[1], group.last());
    }
    std::string text = std::to_string(group.first);
    for (std::int64_t i = 1; i < group.count; ++i) text += fmt::format(", {}", group[i]);
    return text;
  }

  // Broken between groups; lines after the first begin at the margin.
  std::string group_lines(const RankGroups& kind, std::size_t margin, int width) const {
    const std::size_t size = kind.groups.size();
    std::string out = fmt::format("{} of {}", size, kind.groups.front().count);
    if (kind.groups.front().count == 1) return out + "\n";
    const std::size_t shown = mesh_.ranks() <= few_ranks ? size : std::min<std::size_t>(size, 6);
    std::size_t at = margin + out.size();
    for (std::size_t i = 0; i <= shown; ++i) {
      if (i == shown && shown == size) break;
      const std::string one =
          i < shown ? members(kind.groups[i])
                    : fmt::format("{} more, all with --json",
                                  format_count(static_cast<std::int64_t>(size - shown)));
      const std::string_view before = i == 0 ? ":  " : " | ";
      if (at + before.size() + one.size() + 2 > static_cast<std::size_t>(width)) {
        out += (i == 0 ? ":\n" : " |\n") + std::string(margin, ' ') + one;
        at = margin + one.size();
      } else {
        out += std::string(before) + one;
        at += before.size() + one.size();
      }
    }
    return out + "\n";
  }

  const CostModel& model_;
  const Training& training_;
  bool has_experts_;
  Mesh mesh_;
  Mesh experts_;
  std::vector<RankGroups> groups_;
};

}  // namespace

std::string rank_list(const PredictFlags& flags, bool as_json, int width) {
  const CostModel model = asked_training(flags);
  const RankList list(model);
  return as_json ? list.json().dump(2) + "\n" : list.text(width);
}

}  // namespace pipesim::cli
