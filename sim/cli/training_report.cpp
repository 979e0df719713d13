#include "sim/cli/training_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/base/text.h"

namespace pipesim::cli {

std::string throughput_text(const CostModel& model, const Throughput& throughput) {
  if (!throughput.tokens_per_second) return {};
  const double rate = *throughput.tokens_per_second;
  std::string text = fmt::format(
      "{} {}/s", rate < 10 ? fmt::format("{:.2f}", rate) : format_count(std::llround(rate)),
      model.model().is_listed() ? "samples" : "tokens");
  if (throughput.mfu) text += fmt::format(", {:.0f} % MFU", *throughput.mfu * 100);
  return text;
}

std::string remedies_line(const CostModel& model, const Prediction& prediction,
                          std::int64_t memory_bytes, const OtherFlags& other) {
  const std::vector<Remedy> tried = find_remedies(model, memory_bytes, other);
  if (tried.empty()) return {};
  const auto cost = [&](const Remedy& remedy) {
    const auto now = static_cast<double>(prediction.metrics.makespan_ns);
    const double more = (static_cast<double>(remedy.outcome.time_ns) / now - 1) * 100;
    if (std::lround(more) == 0) return std::string("as fast");
    return fmt::format("{:.0f} % {}", std::abs(more), more > 0 ? "slower" : "faster");
  };
  const auto text = [&](const Remedy& remedy) {
    return fmt::format("{} ({}, {})", remedy.what, format_bytes(remedy.outcome.memory_bytes),
                       cost(remedy));
  };
  const auto fitting = std::ranges::count_if(
      tried, [&](const Remedy& remedy) { return remedy.outcome.memory_bytes <= memory_bytes; });
  if (fitting == 0) {
    const std::int64_t saved = prediction.peak_memory_bytes() - tried.front().outcome.memory_bytes;
    if (saved <= 0) return {};
    return fmt::format("        no change tried makes it fit; {} saves the most\n",
                       text(tried.front()));
  }
  constexpr std::ptrdiff_t most = 3;
  std::string line = "        would fit with ";
  for (std::ptrdiff_t i = 0; i < std::min(most, fitting); ++i) {
    line += (i == 0 ? "" : ", or ") + text(tried[static_cast<std::size_t>(i)]);
  }
  return line + "\n";
}

}  // namespace pipesim::cli
