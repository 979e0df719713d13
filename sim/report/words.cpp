#include "sim/report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "traces/base/text.h"

namespace pipesim {
namespace {

std::string order_in_words(const Comparison& comparison) {
  const auto swapped = static_cast<std::int64_t>(comparison.swapped.size());
  if (swapped == 0) return fmt::format("all {} as planned", plural(comparison.in_order, "action"));
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(comparison.swapped.size(), 6); ++i) {
    names +=
        (i == 0 ? "" : ", ") + operation_name(comparison.operations.actions[comparison.swapped[i]]);
  }
  return fmt::format("{} of {} not in the planned order: {}{}", swapped,
                     comparison.in_order + swapped, names, swapped > 6 ? ", ..." : "");
}

std::string matches_in_words(const RecordedRun& predicted, const RecordedRun& measured,
                             const Comparison& comparison) {
  const MatchCounts& counts = comparison.counts;
  std::string text =
      fmt::format("{}, identities {}", plural(counts.matched, "action"),
                  identified_name(std::max(predicted.identified, measured.identified)));
  for (const Side side : both_sides) {
    if (counts.unmatched[side] > 0) {
      text += fmt::format("; {} only {}", counts.unmatched[side], side_name(comparison, side));
    }
  }
  return text;
}

void add_memory(const Comparison& comparison, std::vector<Fact>& facts) {
  for (const Side side : both_sides) {
    const auto& peaks = comparison.sides[side].peaks;
    if (peaks.empty()) continue;
    const auto fullest = std::ranges::max_element(peaks, {}, &MemoryPeak::total);
    facts.push_back(
        {"memory",
         fmt::format("{}: at most {}, on rank {}{}", side_name(comparison, side),
                     format_bytes(fullest->total), fullest - peaks.begin(),
                     comparison.operations.of_inputs()    ? ""  // not recorded
                     : fullest->action.kind == Kind::IDLE ? " in no action"
                                                          : " in " + to_text(fullest->action))});
  }
}

void add_clocks(const RecordedRun& measured, const Comparison& comparison,
                std::vector<Fact>& facts) {
  for (std::size_t rank = 0; rank < comparison.clocks.size(); ++rank) {
    const ClockShift& clock = comparison.clocks[rank];
    if (clock.ahead_ns == 0) continue;
    facts.push_back({"clocks", fmt::format("rank {}'s is {} {} the others, give or take {}; "
                                           "corrected here",
                                           rank, format_time(std::abs(clock.ahead_ns)),
                                           clock.ahead_ns > 0 ? "ahead of" : "behind",
                                           format_time(clock.uncertainty_ns))});
  }
  std::int64_t uncertainty = 0;
  for (const RecordedClock& clock : measured.about.clocks) {
    uncertainty = std::max(uncertainty, clock.uncertainty_ns);
  }
  if (uncertainty > 0) {
    facts.push_back({"clocks", fmt::format("times of different ranks are comparable to within {}",
                                           format_time(uncertainty))});
  }
}

// F, I, W and B that only one side has: then makespans are for different work.
std::string different_work(const Comparison& comparison) {
  const Operations& operations = comparison.operations;
  std::array<std::int64_t, 2> alone{};
  for (OperationId id = 0; id < operations.size(); ++id) {
    if (operations.matched(id) || !is_compute(operations.actions[id].kind)) continue;
    ++alone[operations.sides[predicted_side][id].exists() ? predicted_side : measured_side];
  }
  if (alone[0] + alone[1] == 0) return {};
  return fmt::format(
      " The runs do not do the same work: of F, I, W and B {} {} only in the {}, {} only in the "
      "{}.",
      alone[predicted_side], alone[predicted_side] == 1 ? "is" : "are",
      side_noun(comparison, predicted_side), alone[measured_side],
      side_noun(comparison, measured_side));
}

}  // namespace

std::string noise_text(const Comparison& comparison) {
  if (comparison.operations.of_inputs()) return "variation from batch to batch";
  if (comparison.noise.preempted_fraction < disturbed)
    return "variation between its own iterations";
  return fmt::format("other processes used its processors for {} of its compute time",
                     format_percent(comparison.noise.preempted_fraction));
}

std::string verdict_of(const Comparison& comparison) {
  const std::int64_t predicted = comparison.sides[predicted_side].makespan_ns;
  const std::int64_t measured = comparison.sides[measured_side].makespan_ns;
  const std::int64_t gap = measured - predicted;
  const double fraction = fraction_of(gap, predicted);
  std::string both =
      fmt::format("{} {}, {} {}", side_name(comparison, measured_side), format_time(measured),
                  side_name(comparison, predicted_side), format_time(predicted));
  const std::string work = different_work(comparison);
  const bool predicts = comparison.sources[predicted_side] == Source::predicted &&
                        comparison.sources[measured_side] != Source::predicted;
  if (gap == 0 && work.empty()) {
    return (predicts ? "The prediction is exact: " : "Both are alike: ") + both + ".";
  }
  std::string by = "as long";
  if (gap != 0) by = format_time(std::abs(gap)) + (gap > 0 ? " longer" : " shorter");
  if (gap != 0 && predicted > 0) by += " (" + with_percent(fraction) + ")";
  if (predicted > 0 && std::abs(fraction) < 0.01 && work.empty()) {
    return fmt::format("{}: {}, {}.", predicts ? "The prediction holds" : "Both are nearly alike",
                       both, by);
  }
  both.front() = static_cast<char>(both.front() - 'a' + 'A');
  std::string sentence = fmt::format("{}: {}.", both, by);
  if (!comparison.unpaired.empty()) {
    return sentence + fmt::format(" Actions are not compared: {}.", comparison.unpaired);
  }
  if (is_uncalibrated(comparison)) {
    return sentence +
           fmt::format(
               " The prediction is not calibrated, and durations are off by {} in the median; "
               "calibrate first: pipesim calibrate TRACE -o costs.json.",
               format_percent(comparison.duration_errors->p50)) +
           work;
  }
  const auto& causes = comparison.root_causes;
  const std::int64_t noise_ns = comparison.noise.effect_ns;
  if (2 * std::abs(noise_ns) > std::abs(gap) && gap != 0) {
    sentence += fmt::format(" Most of it is noise ({}): {}.", signed_time(noise_ns),
                            noise_text(comparison));
  } else if (!causes.empty() && causes.front().effect_ns != 0) {
    sentence += fmt::format(" The largest cause: {} ({}).", causes.front().why,
                            signed_time(causes.front().effect_ns));
  }
  return sentence + work;
}

std::string minus_of(const Comparison& comparison) {
  return fmt::format("{} minus {}", side_name(comparison, measured_side),
                     side_name(comparison, predicted_side));
}

bool concerns(Term term, const Comparison& comparison) {
  // Input pipelines are compared by one program and one clock.
  const bool is_of_all = term == Term::compute || term == Term::transfer || term == Term::launch;
  if (comparison.operations.of_inputs()) return is_of_all;
  return term != Term::exchange || !comparison.collectives.rows.empty();
}

bool is_uncalibrated(const Comparison& comparison) {
  constexpr double far_off = 0.1;
  return comparison.sources[predicted_side] == Source::predicted &&
         comparison.sources[measured_side] != Source::predicted && !comparison.costs_from.empty() &&
         comparison.costs_from != "calibration" && comparison.duration_errors &&
         comparison.duration_errors->p50 >= far_off;
}

ShownCauses shown_causes(const Comparison& comparison, std::size_t most) {
  const std::int64_t least_ns = comparison.sides[measured_side].makespan_ns / 200;
  const std::int64_t gap_ns = std::abs(comparison.gap.total_ns());
  ShownCauses shown;
  const auto is_worth_it = [&](const RootCause& cause) {
    return std::max(std::abs(cause.effect_ns), std::abs(cause.alone_ns)) >= least_ns;
  };
  const auto& all = comparison.root_causes;
  const bool is_any = std::ranges::any_of(all, is_worth_it);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_most = !is_any && i == 0 && 2 * std::abs(all[i].effect_ns) >= gap_ns;
    if (shown.places.size() < most && (is_worth_it(all[i]) || is_most)) {
      const bool is_less = std::abs(all[i].effect_ns) < std::abs(comparison.noise.effect_ns);
      if (is_less && !shown.noise_before) shown.noise_before = shown.places.size();
      shown.places.push_back(i);
    } else {
      ++shown.others;
      shown.others_ns += all[i].effect_ns;
    }
  }
  return shown;
}

std::string ShownCauses::others_text() const {
  return fmt::format("{} {}", others, others == 1 ? "other" : "others");
}

std::string_view label_of(const StageKind& row) {
  if (row.kind == Kind::IDLE) return "CALL";
  return row.is_cell ? "OVERLAP_F_B" : kind_name(row.kind);
}

std::string_view without_causes(const Comparison& comparison) {
  return comparison.gap.total_ns() == 0 ? "No cause: no action differs."
                                        : "No single stage, rank or link accounts for it.";
}

std::string_view identified_name(Identified identified) {
  switch (identified) {
    case Identified::exact: return "exact";
    case Identified::annotated: return "annotated";
    default: return "inferred";
  }
}

std::string_view meaning_of(Term term) {
  switch (term) {
    case Term::order: return "ranks run their actions in a different order";
    case Term::compute: return "compute durations differ";
    case Term::transfer: return "transfer durations differ, once both ends are ready";
    case Term::wait: return "transfers start later after their data is ready";
    case Term::exchange: return "waits for replicas differ";
    case Term::launch: return "actions start later than they could";
    case Term::unmodelled: return "actions found in one trace only";
    default: return "clock offsets between ranks";
  }
}

std::string parting_of(const Comparison& comparison) {
  if (!comparison.divergence) return "Both follow the same actions.";
  const Divergence& parting = *comparison.divergence;
  const auto name = [&](const Action& action) {
    const bool has_rank = comparison.operations.of_inputs();  // which is its stage
    return operation_name(action) + (has_rank ? fmt::format(" on rank {}", action.stage) : "");
  };
  const auto next = [&](Side side) {
    return parting.next[side] ? "with " + name(*parting.next[side]) : std::string("no further");
  };
  return fmt::format(
      "They part {}: {} continues {}, {} {}.",
      parting.last_common ? "after " + name(*parting.last_common) : std::string("at the start"),
      side_name(comparison, predicted_side), next(predicted_side),
      side_name(comparison, measured_side), next(measured_side));
}

std::string wire_in_words(const Comparison& comparison, Side side) {
  const WireTimes& wire = comparison.sides[side].wire;
  if (wire.told == wire.messages()) return {};
  std::string text = fmt::format("{}: time on the wire is told from waiting for {} of {}",
                                 side_name(comparison, side), format_count(wire.told),
                                 plural(wire.messages(), "message"));
  const auto add = [&](std::int64_t count, std::string_view one, std::string_view many) {
    if (count > 0) text += fmt::format("; {} {}", format_count(count), count == 1 ? one : many);
  };
  add(wire.as_usual, "arrived at a busy rank, and is taken to be as fast as others",
      "arrived at busy ranks, and are taken to be as fast as others");
  add(wire.seen_late, "arrived at a busy rank, and may have been faster than recorded",
      "arrived at busy ranks, and may have been faster than recorded");
  add(wire.one_end, "has one end in the files, and includes the wait for the other",
      "have one end in the files, and include the wait for the other");
  add(wire.not_recorded, "is not recorded: it counts as launch",
      "are not recorded: they count as launch");
  return text;
}

std::vector<Fact> facts_of(const RecordedRun& predicted, const RecordedRun& measured,
                           const Comparison& comparison) {
  std::vector<Fact> facts;
  if (comparison.unpaired.empty()) {
    facts = {{"order", order_in_words(comparison)},
             {"matched", matches_in_words(predicted, measured, comparison)}};
  }
  if (const auto& errors = comparison.duration_errors) {
    facts.push_back(
        {"durations", fmt::format("off by {} on average, {} in the median, {} at p90",
                                  format_percent(errors->mean_abs), format_percent(errors->p50),
                                  format_percent(errors->p90))});
  }
  for (const Side side : both_sides) {
    const std::string wire = wire_in_words(comparison, side);
    if (!wire.empty()) facts.push_back({"transfers", wire});
  }
  const Quantiles& all = comparison.iterations;
  if (all.count >= 2) {
    facts.push_back({side_name(comparison, measured_side),
                     fmt::format("{}: p10 {}, median {}, p90 {}; the median one is compared",
                                 plural(all.count, "iteration"), format_time(all.p10),
                                 format_time(all.p50), format_time(all.p90))});
  }
  add_memory(comparison, facts);
  add_clocks(measured, comparison, facts);
  return facts;
}

}  // namespace pipesim
