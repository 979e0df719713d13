#include "sim/cli/spread_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

std::vector<FlagHelp> all_spread_flags(SpreadFlags& flags) {
  return {{"--jitter", &flags.jitter, "5%|measured",
           "varies action times; reports the makespan's spread"},
          {"--seeds", &flags.seeds, "N", "number of random draws; default 100"},
          {"--slow-rank", &flags.slow_rank, "3:1.2", "rank 3 computes 1.2 times as long"}};
}

void add_spread_flags(CommandLine& command, SpreadFlags& flags) {
  command.add_flags("Jitter and stragglers", all_spread_flags(flags));
}

void add_slow_ranks(const SpreadFlags& flags, CostRequest& request) {
  if (flags.slow_rank) request.changes = parse_slow_ranks(*flags.slow_rank);
}

std::optional<SpreadQuestion> spread_question(const SpreadFlags& flags, const CostSource& source,
                                              std::int64_t actions) {
  SpreadQuestion question;
  if (flags.seeds) {
    question.seeds = parse_count(*flags.seeds, "--seeds");
    if (question.seeds > max_seeds) {
      throw input_error(
          fmt::format("--seeds {}: at most {} are drawn", *flags.seeds, format_count(max_seeds)));
    }
  }
  const Variation measured = source.measured_variation();
  if (!flags.jitter) {
    constexpr std::int64_t max_actions = 4'000'000;
    if (measured.varies() && actions * question.seeds <= max_actions) {
      question.variation = measured;
      return question;
    }
    if (flags.seeds) {
      throw input_error("--seeds: they are draws of --jitter; give that, too, such as --jitter 5%");
    }
    return std::nullopt;
  }
  if (*flags.jitter == "measured") {
    if (!measured.varies()) {
      throw input_error(
          "--jitter measured: the costs do not say what was measured; give --costs with a file "
          "that "
          "`pipesim calibrate` wrote");
    }
    question.variation = measured;
    return question;
  }
  if (*flags.jitter == "0") return std::nullopt;
  question.variation.deviation =
      static_cast<double>(parse_slowdown_ppm(*flags.jitter, "--jitter")) * 1e-6;
  if (question.variation.deviation > 1) {
    throw input_error(fmt::format(
        "--jitter {}: times vary by 100% at most, as a standard deviation", *flags.jitter));
  }
  if (!question.variation.varies()) return std::nullopt;
  return question;
}

std::string spread_report(const MakespanSpread& spread, const SpreadQuestion& question,
                          std::int64_t makespan_ns, int width) {
  const auto more = [&](std::int64_t ns) {
    return makespan_ns > 0
               ? fmt::format(" ({:+.1f} %)",
                             (static_cast<double>(ns) / static_cast<double>(makespan_ns) - 1) * 100)
               : "";
  };
  const std::string of = question.variation.quantiles_ppm.empty()
                             ? format_percent(question.variation.deviation) + " jitter"
                             : "the measured variation of actions";
  std::string out = fmt::format(
      "spread  p50 {}{}, p95 {}{}; {} of {}\n", format_time(spread.p50_ns), more(spread.p50_ns),
      format_time(spread.p95_ns), more(spread.p95_ns), plural(spread.seeds, "draw"), of);
  if (!spread.rank_shares.empty()) {
    constexpr std::size_t most = 6;
    std::vector<std::size_t> order(spread.rank_shares.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(),
                             [&](std::size_t rank) { return spread.rank_shares[rank]; });
    std::string shares;
    double rest = 1;
    for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
      const double share = spread.rank_shares[order[i]];
      rest -= share;
      shares += fmt::format("{}rank {} {:.0f} %", i == 0 ? "" : ", ", order[i], share * 100);
    }
    if (order.size() > most) {
      shares += fmt::format(", the other {} {:.0f} %", order.size() - most, rest * 100);
    }
    out += fmt::format("        caused by {}\n", shares);
  }
  return wrap(out, width);
}

}  // namespace pipesim::cli
