// The object, times in nanoseconds from the iteration's start, of both sides in their order:
//
//   sides, nouns       what each is called, alone and in a sentence
//   ranks, all_ranks   those shown; how many there are. Of input pipelines: streams of ranks
//   names              of those shown
//   kinds, colours     names of kinds, by number, and of their colours
//   words              what each colour means
//   staged             whether actions are named with their stage
//   makespan_ns        of each side
//   zero_ns            of each side: the iteration's start in its trace
//   operations         rows [kind, stage, microbatch or -1, of each side null or
//                      [rank, slot, start, end, slack, sender], lateness, opener];
//                      of a transfer the rank is the receiver's, slot is -1, and
//                      the sender is given; lateness is null or [own, launch,
//                      communication, inherited]; opener: the row of the forward
//                      that shares a cell with this backward, or -1
//   blocks             instead of operations: rows [side, rank, slot, count,
//                      start, end, [busy, by colour: forward, backward, weight, other, neutral],
//                      own error,
//                      largest lateness, first action, last action]
//   critical           of each side rows along its critical path
//   causes             of each cause the rows that it is about
//   memory             of each side, of each rank shown, [time, bytes, ...] in turn
#include "sim/report/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/draw/colours.h"
#include "traces/print/action_label.h"
#include "traces/print/picture.h"

namespace pipesim {
namespace {

constexpr std::size_t max_operations = 20'000;
constexpr std::size_t max_rows = 64;
constexpr std::int64_t blocks_in_a_row = 600;  // at least, of equal width
constexpr std::size_t max_points = 400;        // per memory curve
constexpr std::size_t causes_shown = 4;        // whose ranks are always shown
constexpr std::int64_t no_row = -1;

// Colours of the page, by colour_of(): that of a kind is one of them.
constexpr std::array<std::pair<std::string_view, const Colour*>, 5> page_colours{
    {{"forward", &colours::forward},
     {"backward", &colours::backward},
     {"weight", &colours::weight_gradient},
     {"other", &colours::other},
     {"neutral", &colours::neutral}}};
std::size_t page_colour_of(Kind kind) {
  const Rgb own = colour_of(kind).light;
  const auto found = std::ranges::find_if(
      page_colours, [&](const auto& named) { return named.second->light == own; });
  return static_cast<std::size_t>(found - page_colours.begin());
}

// The rank at which an operation is drawn: for a transfer its receiver.
std::int32_t rank_of(const Operations& operations, const Occurrence& own, OperationId id) {
  return operations.transfers(id) ? own.to_rank : own.rank;
}

// ---- Memory

// At most max_points of (time, bytes), with the highest of each stretch of time.
Json reduced(const std::vector<std::pair<std::int64_t, std::int64_t>>& curve) {
  Json flat = Json::array();
  const auto put = [&](const auto& point) {
    flat.push_back(point.first);
    flat.push_back(point.second);
  };
  if (curve.size() <= max_points) {
    for (const auto& point : curve) put(point);
    return flat;
  }
  constexpr std::int64_t stretches = max_points / 2;
  const std::int64_t first = curve.front().first;
  const std::int64_t width = (curve.back().first - first) / stretches + 1;
  for (std::size_t i = 0; i < curve.size();) {
    const std::int64_t stretch = (curve[i].first - first) / width;
    std::size_t highest = i;
    std::size_t last = i;
    for (; i < curve.size() && (curve[i].first - first) / width == stretch; ++i) {
      if (curve[i].second > curve[highest].second) highest = i;
      last = i;
    }
    put(curve[highest]);
    if (last != highest) put(curve[last]);
  }
  return flat;
}

Json memory_curves(const RecordedRun& run, const Comparison& comparison, Side side,
                   const std::vector<std::size_t>& shown) {
  Json curves = Json::array();
  if (run.samples.empty()) return curves;
  const bool shifted = side == measured_side;
  for (const std::size_t list : shown) {
    const auto rank = static_cast<int>(list);
    std::vector<std::pair<std::int64_t, std::int64_t>> curve;
    if (rank < run.ranks) {
      const std::int64_t ahead =
          shifted ? comparison.clocks[static_cast<std::size_t>(rank)].ahead_ns : 0;
      for (const MemorySample& sample : run.samples) {
        const std::int64_t time = sample.time_ns - comparison.sides[side].start_ns - ahead;
        if (sample.rank != rank || time > comparison.sides[side].played.makespan_ns) continue;
        const std::int64_t bytes = sample.states.total() + sample.working.total();
        // Only the last earlier value counts.
        if (time <= 0) curve.clear();
        curve.emplace_back(std::max<std::int64_t>(time, 0), bytes);
      }
    }
    curves.push_back(reduced(curve));
  }
  return curves;
}

// ---- Operations, and blocks of them

class Drawing {
 public:
  Drawing(const Comparison& comparison, std::vector<std::size_t> shown)
      : comparison_(comparison), operations_(comparison.operations), shown_(std::move(shown)) {
    index();
    std::size_t all = 0;
    std::size_t transfers = 0;
    for (OperationId id = 0; id < operations_.size(); ++id) {
      if (!is_pictured(id)) continue;
      ++all;
      if (operations_.transfers(id)) ++transfers;
    }
    with_transfers_ = all <= max_operations;
    merged_ = all - transfers > max_operations;
  }

  void add_to(Json& json) {
    if (merged_) {
      json["blocks"] = blocks();
    } else {
      json["operations"] = rows();
    }
    json["critical"] = Json::array();
    for (const Side side : both_sides) {
      json["critical"].push_back(rows_of(comparison_.sides[side].played.critical_path, {side}));
    }
    json["causes"] = Json::array();
    for (const RootCause& cause : comparison_.root_causes) {
      json["causes"].push_back(rows_of(cause.operations, {predicted_side, measured_side}));
    }
  }

  std::string left_out(std::size_t all_rows) const {
    std::string text;
    if (shown_.size() < all_rows) {
      text = fmt::format(
          "The picture shows {} of {} {}: an even choice, and those of the "
          "worst causes. ",
          shown_.size(), all_rows, operations_.of_inputs() ? "streams" : "ranks");
    }
    if (!with_transfers_) text += "Transfers are left out: there are too many. ";
    if (merged_) {
      text += fmt::format(
          "Neighbouring actions of a rank are drawn as one block, of {} or less, "
          "which shows their shares. ",
          format_time(block_ns()));
    }
    if (!text.empty()) text.pop_back();
    return text;
  }

 private:
  // Indexes the lists, cells, and consumers of transfers.
  void index() {
    is_shown_.resize(std::max(operations_.lists[0].size(), operations_.lists[1].size()));
    for (const std::size_t list : shown_) is_shown_[list] = true;
    opener_.assign(operations_.size(), no_operation);
    consumer_.assign(operations_.size(), no_operation);
    for (const Side side : both_sides) {
      slots_[side].assign(operations_.size(), -1);
      list_of_[side].assign(operations_.size(), 0);
      rows_[side].assign(operations_.size(), no_row);
      for (std::size_t number = 0; number < operations_.lists[side].size(); ++number) {
        const auto& list = operations_.lists[side][number];
        for (std::size_t i = 0; i < list.size(); ++i) {
          slots_[side][list[i]] = static_cast<std::int64_t>(i);
          list_of_[side][list[i]] = number;
          const OperationId before = i > 0 ? list[i - 1] : no_operation;
          if (i > 0 && operations_.opens_cell[before]) opener_[list[i]] = before;
        }
      }
      for (OperationId id = 0; id < operations_.size(); ++id) {
        const OperationId input = operations_.sides[side][id].input;
        if (input != no_operation && operations_.transfers(input)) consumer_[input] = id;
      }
    }
  }

  // The list that an operation is drawn with: a transfer is with its receiver's.
  std::size_t list_of(Side side, OperationId id) const {
    if (!operations_.transfers(id)) return list_of_[side][id];
    return static_cast<std::size_t>(operations_.sides[side][id].to_rank);
  }
  bool is_pictured(OperationId id) const {
    return std::ranges::any_of(both_sides, [&](Side side) {
      return operations_.sides[side][id].exists() && is_shown_[list_of(side, id)];
    });
  }

  Json rows() {
    Json rows = Json::array();
    for (OperationId id = 0; id < operations_.size(); ++id) {
      if (!is_pictured(id) || (operations_.transfers(id) && !with_transfers_)) continue;
      for (const Side side : both_sides) {
        rows_[side][id] = static_cast<std::int64_t>(rows.size());
      }
      rows.push_back(row(id));
    }
    for (OperationId id = 0; id < operations_.size(); ++id) {
      const std::int64_t at = rows_[predicted_side][id];
      if (at != no_row && opener_[id] != no_operation) {
        rows[static_cast<std::size_t>(at)].back() = rows_[predicted_side][opener_[id]];
      }
    }
    return rows;
  }

  Json row(OperationId id) const {
    const Action& action = operations_.actions[id];
    Json row{is_host_call(action) ? kind_count + action.number : static_cast<int>(action.kind),
             action.stage, action.microbatch};
    for (const Side side : both_sides) {
      const Occurrence& own = operations_.sides[side][id];
      if (!own.exists()) {
        row.push_back(nullptr);
        continue;
      }
      row.push_back({list_of(side, id), slots_[side][id], own.start_ns, own.end_ns,
                     comparison_.sides[side].played.slack_ns[id]});
      if (operations_.transfers(id)) row.back().push_back(own.rank);
    }
    if (has_lateness(id)) {
      const Lateness& late = comparison_.lateness[id];
      row.push_back({late.own_ns, late.launch_ns, late.communication_ns, late.inherited_ns});
    } else {
      row.push_back(nullptr);
    }
    row.push_back(no_row);
    return row;
  }

  bool has_lateness(OperationId id) const {
    return operations_.matched(id) && !operations_.transfers(id);
  }

  std::int64_t block_ns() const {
    const auto& sides = comparison_.sides;
    return std::max(sides[predicted_side].played.makespan_ns,
                    sides[measured_side].played.makespan_ns) /
               blocks_in_a_row +
           1;
  }

  Json blocks() {
    Json blocks = Json::array();
    for (const Side side : both_sides) {
      const auto& lists = operations_.lists[side];
      const auto& occurrences = operations_.sides[side];
      for (const std::size_t number : shown_) {
        if (number >= lists.size()) continue;
        const auto& list = lists[number];
        for (std::size_t begin = 0; begin < list.size();) {
          const std::int64_t until = occurrences[list[begin]].start_ns + block_ns();
          std::size_t end = begin + 1;
          while (end < list.size() && occurrences[list[end]].end_ns <= until) ++end;
          for (std::size_t i = begin; i < end; ++i) {
            rows_[side][list[i]] = static_cast<std::int64_t>(blocks.size());
          }
          blocks.push_back(block(side, number, begin, end));
          begin = end;
        }
      }
    }
    return blocks;
  }

  Json block(Side side, std::size_t number, std::size_t begin, std::size_t end) const {
    const auto& list = operations_.lists[side][number];
    const auto& occurrences = operations_.sides[side];
    std::array<std::int64_t, page_colours.size()> busy{};
    std::int64_t own_ns = 0;
    std::int64_t late_ns = 0;
    std::int64_t end_ns = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const OperationId id = list[i];
      const Kind kind = operations_.actions[id].kind;
      const std::int64_t duration = occurrences[id].duration_ns();
      // The backward of a cell has all its time.
      const std::int64_t forward = opener_[id] == no_operation ? 0 : duration / 2;
      busy[0] += forward;
      busy[page_colour_of(kind)] += duration - forward;
      end_ns = std::max(end_ns, occurrences[id].end_ns);
      if (!has_lateness(id)) continue;
      const std::int64_t late = comparison_.lateness[id].total_ns();
      own_ns += comparison_.lateness[id].own_ns;
      if (std::abs(late) > std::abs(late_ns)) late_ns = late;
    }
    return {static_cast<int>(side),
            number,
            begin,
            end - begin,
            occurrences[list[begin]].start_ns,
            end_ns,
            busy,
            own_ns,
            late_ns,
            operation_name(operations_.actions[list[begin]]),
            operation_name(operations_.actions[list[end - 1]])};
  }

  // The rows of operations, each once; for a transfer that is not drawn, that of its consumer.
  Json rows_of(const std::vector<OperationId>& ids, std::initializer_list<Side> sides) const {
    std::vector<std::int64_t> rows;
    for (OperationId id : ids) {
      if (operations_.transfers(id) && !with_transfers_) id = consumer_[id];
      if (id == no_operation) continue;
      for (const Side side : sides) {
        if (rows_[side][id] != no_row) rows.push_back(rows_[side][id]);
      }
    }
    std::ranges::sort(rows);
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
  }

  const Comparison& comparison_;
  const Operations& operations_;
  std::vector<std::size_t> shown_;  // lists
  std::vector<bool> is_shown_;      // by list
  bool with_transfers_ = true;
  bool merged_ = false;
  std::array<std::vector<std::int64_t>, 2> slots_;   // by operation: index in its list,
  std::array<std::vector<std::size_t>, 2> list_of_;  // and which that is
  std::array<std::vector<std::int64_t>, 2> rows_;    // by operation: where it is in the object
  std::vector<OperationId> opener_;                  // of a cell's backward
  std::vector<OperationId> consumer_;                // of a transfer
};

// A rank's lists of operations: one, or of an input pipeline each stream's that anything runs on.
std::vector<std::size_t> lists_of(const Operations& operations, int rank) {
  if (!operations.of_inputs()) return {static_cast<std::size_t>(rank)};
  std::vector<std::size_t> lists;  // both sides have the same
  for (int stream = 0; stream < input_stream_count; ++stream) {
    const std::size_t list = Operations::input_list(rank, static_cast<InputStream>(stream));
    if (!operations.lists[predicted_side][list].empty()) lists.push_back(list);
  }
  return lists;
}

// Of the worst ones.
std::vector<int> ranks_of_causes(const Comparison& comparison) {
  const Operations& operations = comparison.operations;
  const auto& causes = comparison.root_causes;
  std::vector<int> ranks;
  for (std::size_t i = 0; i < std::min(causes.size(), causes_shown); ++i) {
    const auto& about = causes[i].operations;
    if (about.empty()) continue;
    const auto& measured = operations.sides[measured_side][about.front()];
    const Occurrence& own =
        measured.exists() ? measured : operations.sides[predicted_side][about.front()];
    ranks.push_back(own.rank);
    ranks.push_back(rank_of(operations, own, about.front()));
  }
  return ranks;
}

}  // namespace

std::vector<int> pictured_ranks(const Comparison& comparison) {
  const Operations& operations = comparison.operations;
  const std::size_t ranks =
      std::max(comparison.sides[0].ranks.size(), comparison.sides[1].ranks.size());
  std::vector<int> shown;
  if (ranks <= max_rows && operations.size() <= max_operations) {
    for (std::size_t r = 0; r < ranks; ++r) shown.push_back(static_cast<int>(r));
    return shown;
  }
  shown = shown_ranks(static_cast<int>(ranks));
  for (const int rank : ranks_of_causes(comparison)) shown.push_back(rank);
  std::ranges::sort(shown);
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  return shown;
}

std::vector<int> few_ranks(const Comparison& comparison, std::size_t streams) {
  const Operations& operations = comparison.operations;
  const std::size_t of_rank = lists_of(operations, 0).size();
  std::vector<int> ranks = pictured_ranks(comparison);
  if (ranks.size() * of_rank <= streams) return ranks;
  // Those of the causes, the first, and an even choice of the others.
  const std::size_t room = std::max<std::size_t>(1, streams / of_rank);
  std::vector<int> wanted = ranks_of_causes(comparison);
  wanted.push_back(0);
  for (std::size_t i = 1; i < room; ++i) {
    wanted.push_back(ranks[i * (ranks.size() - 1) / (room - 1)]);
  }
  ranks.clear();
  for (const int rank : wanted) {
    if (ranks.size() < room && std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

ComparisonPicture comparison_picture(const RecordedRun& predicted, const RecordedRun& measured,
                                     const Comparison& comparison) {
  std::vector<std::size_t> shown;
  for (const int rank :
       predicted.inputs ? few_ranks(comparison, max_rows) : pictured_ranks(comparison)) {
    const std::vector<std::size_t> own = lists_of(comparison.operations, rank);
    shown.insert(shown.end(), own.begin(), own.end());
  }
  const auto& lists = comparison.operations.lists;
  const std::size_t all_rows =
      comparison.operations.of_inputs()
          ? static_cast<std::size_t>(std::ranges::count_if(
                lists[predicted_side], [](const auto& list) { return !list.empty(); }))
          : std::max(lists[0].size(), lists[1].size());
  Drawing drawing(comparison, shown);
  Json json;
  json["ranks"] = shown;
  json["all_ranks"] = all_rows;
  json["names"] = Json::array();
  for (const std::size_t list : shown) {
    json["names"].push_back(comparison.operations.list_name(list));
  }
  json["kinds"] = Json::array();
  json["colours"] = Json::array();
  for (int kind = 0; kind < kind_count; ++kind) {
    const auto own = static_cast<Kind>(kind);
    json["kinds"].push_back(kind_name(own));
    json["colours"].push_back(page_colours[page_colour_of(own)].first);
  }
  json["staged"] = !predicted.inputs;
  for (const Kind called : input_kinds) {  // by the host
    if (!predicted.inputs) break;
    json["kinds"].push_back("call " + std::string(kind_name(called)));
    json["colours"].push_back(page_colours[page_colour_of(Kind::IDLE)].first);
  }
  if (predicted.inputs) {
    json["words"] = {"dense part", "rows of tables", "exchange", "copy", "host"};
  } else {
    json["words"] = {"forward", "backward, input gradient", "weight gradient",
                     "optimizer, reduction", "checkpoint"};
  }
  for (const Side side : both_sides) {
    json["sides"].push_back(side_name(comparison, side));
    json["nouns"].push_back(side_noun(comparison, side));
    json["makespan_ns"].push_back(comparison.sides[side].played.makespan_ns);
    json["zero_ns"].push_back(comparison.sides[side].start_ns);
  }
  drawing.add_to(json);
  json["memory"] = {memory_curves(predicted, comparison, predicted_side, shown),
                    memory_curves(measured, comparison, measured_side, shown)};
  return {json.dump(), drawing.left_out(all_rows)};
}

}  // namespace pipesim
