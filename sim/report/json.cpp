#include "sim/report/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "sim/report/comparison_tables.h"
#include "sim/report/exposures.h"
#include "sim/report/words.h"
#include "traces/base/json.h"
#include "traces/metrics_json.h"

namespace pipesim {
namespace {

// The same for both sides.
template <typename Value>
Json of_both(const Comparison& comparison, Value value) {
  Json json;
  for (const Side side : both_sides) json[side_keys[side]] = value(comparison.sides[side]);
  return json;
}

Json divergence(const Comparison& comparison) {
  if (!comparison.divergence) return nullptr;
  const Divergence& parting = *comparison.divergence;
  const auto text = [](const std::optional<Action>& action) {
    return action ? Json(operation_name(*action)) : Json(nullptr);
  };
  return {{"after", text(parting.last_common)},
          {"predicted", text(parting.next[predicted_side])},
          {"measured", text(parting.next[measured_side])}};
}

Json gap_json(const Comparison& comparison) {
  Json gap;
  gap["total"] = comparison.gap.total_ns();
  for (std::size_t i = 0; i < term_count; ++i) gap[term_names[i]] = comparison.gap.terms[i];
  return gap;
}

Json causes_json(const Comparison& comparison) {
  Json list = Json::array();
  for (const RootCause& cause : comparison.root_causes) {
    Json one;
    one["rank"] = cause.rank < 0 ? Json(nullptr) : Json(cause.rank);
    if (cause.to_rank) one["to_rank"] = *cause.to_rank;
    one["stage"] = cause.stage;
    one["kind"] = cause.backward_stage       ? Json("OVERLAP_F_B")
                  : cause.kind == Kind::IDLE ? Json("host")
                  : cause.kind               ? Json(kind_name(*cause.kind))
                                             : Json(nullptr);
    if (cause.backward_stage) one["backward_stage"] = *cause.backward_stage;
    one["microbatch"] = cause.microbatch;
    one["term"] = term_names[static_cast<std::size_t>(cause.term)];
    one["effect_ns"] = cause.effect_ns;
    one["error_ns"] = cause.error_ns;
    one["alone_ns"] = cause.alone_ns;
    one["why"] = cause.why;
    list.append(one);
  }
  return list;
}

}  // namespace

Json quantiles_json(const Quantiles& values) {
  return {{"p10", values.p10}, {"p50", values.p50}, {"p90", values.p90}, {"count", values.count}};
}

std::string comparison_json(const RecordedRun& predicted, const RecordedRun& measured,
                            const Comparison& comparison) {
  Json json;
  json["format"] = "pipesim-comparison";
  json["version"] = 1;
  json["files"] = {{"predicted", predicted.name}, {"measured", measured.name}};
  json["sources"] = {{"predicted", name_of(predicted.about.source)},
                     {"measured", name_of(measured.about.source)}};
  json["verdict"] = verdict_of(comparison);
  if (!comparison.unpaired.empty()) json["unpaired"] = comparison.unpaired;
  json["makespan_ns"] =
      of_both(comparison, [](const SideResult& side) { return Json(side.makespan_ns); });
  json["gap_ns"] = gap_json(comparison);
  json["matched"] = comparison.counts.matched;
  json["unmatched"] = {{"predicted", comparison.counts.unmatched[predicted_side]},
                       {"measured", comparison.counts.unmatched[measured_side]}};
  json["identified"] = identified_name(std::max(predicted.identified, measured.identified));
  json["operation_error"] = {{"mean_abs_fraction", nullptr}, {"p50", nullptr}, {"p90", nullptr}};
  if (const auto& errors = comparison.duration_errors) {
    json["operation_error"] = {
        {"mean_abs_fraction", errors->mean_abs}, {"p50", errors->p50}, {"p90", errors->p90}};
  }
  json["wire_times"] = of_both(comparison, [](const SideResult& side) -> Json {
    const WireTimes& wire = side.wire;
    return {{"messages", wire.messages()}, {"told", wire.told},
            {"as_usual", wire.as_usual},   {"seen_late", wire.seen_late},
            {"one_end", wire.one_end},     {"not_recorded", wire.not_recorded}};
  });
  json["conformance"] = {{"in_order", comparison.in_order}, {"swapped", comparison.swapped.size()}};
  Json swapped = Json::array();
  for (const OperationId id : comparison.swapped) {
    swapped.push_back(operation_name(comparison.operations.actions[id]));
  }
  json["conformance"]["actions"] = std::move(swapped);
  json["root_causes"] = causes_json(comparison);
  json["noise"] = {{"effect_ns", comparison.noise.effect_ns},
                   {"ranks", comparison.noise.ranks},
                   {"taken_fraction", comparison.noise.preempted_fraction}};
  json["iteration_ns"] = quantiles_json(comparison.iterations);
  json["bubble_fraction"] =
      of_both(comparison, [](const SideResult& side) { return Json(side.global_bubble); });
  json["critical_path"] = of_both(comparison, [](const SideResult& side) -> Json {
    const CriticalPath& times = side.critical_path;
    return {
        {"compute_ns", times.compute_ns}, {"p2p_ns", times.p2p_ns}, {"other_ns", times.other_ns}};
  });
  json["critical_path"]["parting"] = divergence(comparison);
  for (const Side side : both_sides) {
    json["ranks"][side_keys[side]] = to_json(rank_table(comparison, side));
  }
  const auto add = [&](const ReportTable& table) { json[table.key] = to_json(table); };
  add(kind_table(comparison));
  add(collective_table(comparison));
  if (!comparison.saves.empty()) add(save_table(comparison));
  if (predicted.inputs) {
    add_exposures(json, exposures_of(*predicted.inputs, *measured.inputs),
                  predicted.inputs->program);
  }
  add(clock_table(measured, comparison));
  json["warnings"] = {{"predicted", warnings_json(predicted.warnings)},
                      {"measured", warnings_json(measured.warnings)}};
  return json.dump(2) + "\n";
}

std::string operations_csv(const Comparison& comparison) {
  const Operations& operations = comparison.operations;
  std::string out =
      "action,stage,kind,microbatch,rank_predicted,rank_measured,"
      "absolute_start_ns_predicted,absolute_start_ns_measured,start_ns_predicted,"
      "start_ns_measured,slot_predicted,slot_measured,idle_ns_predicted,"
      "idle_ns_measured,duration_ns_predicted,duration_ns_measured,slack_ns_predicted,slack_ns_"
      "measured,own_ns,launch_ns,"
      "communication_ns,inherited_ns,swapped\n";
  // The index in its rank's list, and how long the rank was idle before; none for transfers.
  struct Place {
    std::int64_t slot = -1;
    std::int64_t idle_ns = 0;
  };
  std::array<std::vector<Place>, 2> places;
  std::array<std::int64_t, 2> zero{};
  for (const Side side : both_sides) {
    places[side].resize(operations.size());
    for (const auto& list : operations.lists[side]) {
      std::int64_t busy_until = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Occurrence& own = operations.sides[side][list[i]];
        places[side][list[i]] = {static_cast<std::int64_t>(i),
                                 std::max<std::int64_t>(0, own.start_ns - busy_until)};
        busy_until = std::max(busy_until, own.end_ns);
      }
    }
    zero[side] = comparison.sides[side].start_ns;
  }
  std::vector<bool> swapped(operations.size(), false);
  for (const OperationId id : comparison.swapped) swapped[id] = true;
  // Both sides of one column, empty where a side does not have the operation.
  const auto put = [&](OperationId id, auto value) {
    for (const Side side : both_sides) {
      out += ',';
      if (operations.sides[side][id].exists()) {
        fmt::format_to(std::back_inserter(out), "{}", value(side));
      }
    }
  };
  for (OperationId id = 0; id < operations.size(); ++id) {
    const Action& action = operations.actions[id];
    fmt::format_to(std::back_inserter(out), "{},{},{},", operation_name(action), action.stage,
                   is_host_call(action) ? "CALL" : kind_name(action.kind));
    if (action.microbatch != no_microbatch) out += std::to_string(action.microbatch);
    const auto own = [&](Side side) -> const Occurrence& { return operations.sides[side][id]; };
    put(id, [&](Side side) { return own(side).rank; });
    put(id, [&](Side side) { return own(side).start_ns + zero[side]; });
    put(id, [&](Side side) { return own(side).start_ns; });
    const bool on_a_rank = !operations.transfers(id);
    put(id, [&](Side side) {
      return on_a_rank ? std::to_string(places[side][id].slot) : std::string();
    });
    put(id, [&](Side side) {
      return on_a_rank ? std::to_string(places[side][id].idle_ns) : std::string();
    });
    put(id, [&](Side side) { return own(side).duration_ns(); });
    put(id, [&](Side side) { return comparison.sides[side].played.slack_ns[id]; });
    if (operations.matched(id) && !operations.transfers(id)) {
      const Lateness& late = comparison.lateness[id];
      fmt::format_to(std::back_inserter(out), ",{},{},{},{}", late.own_ns, late.launch_ns,
                     late.communication_ns, late.inherited_ns);
    } else {
      out += ",,,,";
    }
    out += swapped[id] ? ",1\n" : ",0\n";
  }
  return out;
}

}  // namespace pipesim
