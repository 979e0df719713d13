#include "sim/input_pipeline/predict/what_if_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/input_pipeline/calibrate_input.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/simulate_input.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr double largest_time_factor = 1000;

double exposed_part(const InputMetrics& metrics) {
  if (metrics.makespan_ns == 0) return 0;
  double busy = 0;
  for (const InputMetrics::Rank& rank : metrics.ranks) busy += static_cast<double>(rank.busy_ns);
  return 1 - busy / static_cast<double>(metrics.makespan_ns) /
                 static_cast<double>(metrics.ranks.size());
}

InputTimeChange parse_input_change(std::string_view text, std::string_view where) {
  const auto refuse = [&](std::string_view why) {
    throw input_error(
        fmt::format("{}: {}: {}; a change is a kind, a rank or both, and a factor: "
                    "IDS=0.5, LOOKUP@rank1=2, rank0=1.1",
                    where, quote(text), why));
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse("it has no factor");
  InputTimeChange change;
  const std::string_view factor = text.substr(equals + 1);
  const char* const end = factor.data() + factor.size();
  const auto [at, failed] = std::from_chars(factor.data(), end, change.factor);
  if (failed != std::errc() || at != end ||
      !(change.factor >= 0 && change.factor <= largest_time_factor)) {
    refuse("the factor is not a number from 0 to 1000");
  }
  for (const std::string_view part : split(text.substr(0, equals), '@')) {
    constexpr std::string_view rank = "rank";
    if (part.starts_with(rank) && !change.rank) {
      const std::string_view number = part.substr(rank.size());
      change.rank = number == "0" ? 0 : parse_count(number, fmt::format("{}: rank", where));
    } else if (const auto kind = parse_input_kind(part); kind && !change.kind) {
      change.kind = *kind;
    } else {
      refuse(fmt::format("{} is neither a kind of action nor a rank", quote(part)));
    }
  }
  return change;
}

// A time too long to simulate stays so, within 64 bits.
std::int64_t scaled(std::int64_t time, double factor) {
  return std::llround(std::min(static_cast<double>(time) * factor, 0x1p62));
}

void apply(const InputTimeChange& change, InputCosts& costs) {
  if (change.rank && *change.rank >= costs.ranks()) {
    throw input_error(fmt::format("--scale: there is no rank {} among {}; give one from 0 to {}",
                                  *change.rank, plural(costs.ranks(), "rank"), costs.ranks() - 1));
  }
  for (int rank = 0; rank < costs.ranks(); ++rank) {
    if (change.rank.value_or(rank) != rank) continue;
    for (const Kind kind : input_kinds) {
      if (change.kind.value_or(kind) != kind) continue;
      InputWork& work = costs.of(rank, kind);
      work.duration_ns = scaled(work.duration_ns, change.factor);
    }
  }
}

}  // namespace

std::vector<InputTimeChange> parse_input_changes(std::string_view text, std::string_view where) {
  std::vector<InputTimeChange> changes;
  for (const std::string_view part : split(text, ',')) {
    changes.push_back(parse_input_change(strip(part), where));
  }
  return changes;
}

InputBasis::InputBasis(const InputRun& run) : own_(run.program) {
  InputCalibration calibration = calibrate_input(run);
  costs_ = std::move(calibration.costs);
  notes_ = std::move(calibration.notes);
  const InputMetrics measured = measure(run);
  as_it_ran_ = simulated({});
  as_it_ran_.steady_ns = measured.steady_iteration_ns;
  as_it_ran_.samples_per_second = measured.samples_per_second;
  as_it_ran_.exposed = exposed_part(measured);
}

InputBasis::Answer InputBasis::simulated(const InputWhatIf& question) const {
  InputProgram program = own_;
  if (question.program) {
    InputProgramRequest request;
    request.name = *question.program;
    request.ranks = own_.ranks();
    request.batches = own_.batches;
    request.accumulate = std::min(own_.accumulate, own_.batches);
    program = choose_input_program(request);
  }
  InputCosts costs = costs_;
  for (const InputTimeChange& change : question.times) apply(change, costs);
  const InputMetrics metrics = measure(simulate_input(program, costs));
  return {program.name, metrics.steady_iteration_ns, metrics.steady_iteration_ns,
          metrics.samples_per_second, exposed_part(metrics)};
}

InputBasis::Answer InputBasis::answer(const InputWhatIf& question) const {
  Answer answer = simulated(question);
  if (as_it_ran_.predicted_ns > 0) {
    const double correction =
        static_cast<double>(as_it_ran_.steady_ns) / static_cast<double>(as_it_ran_.predicted_ns);
    answer.steady_ns = scaled(answer.predicted_ns, correction);
    if (correction > 0) answer.samples_per_second /= correction;
  }
  return answer;
}

}  // namespace pipesim
