// What reports advise, against what the commands that they print give.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "tests/random_schedule.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using namespace testing;

// A line of what limits a prediction, with the command below it.
struct AdviceLine {
  double gain_ns = 0;
  std::string what, command;
};

std::vector<AdviceLine> advice_of(const std::string& text) {
  std::vector<AdviceLine> all;
  const std::size_t head = text.find("Limited by, and the time saved per iteration without it, ");
  if (head == std::string::npos) return all;
  const auto lines = lines_of(text.substr(head));
  const double unit = lines[0].ends_with(", ms:") ? 1e6 : 1e3;
  for (std::size_t i = 1; i < lines.size() && !lines[i].empty(); ++i) {
    constexpr std::size_t margin = 20;
    const bool starts = lines[i].find_first_not_of(' ') < margin;
    std::string own = lines[i].substr(margin);
    own.erase(0, own.find_first_not_of(' '));
    if (own.ends_with(" \\")) own.resize(own.size() - 2);
    if (starts) {
      all.push_back({std::stod(lines[i]) * unit, own, ""});
    } else if (all.back().command.empty() && !own.starts_with("pipesim ")) {
      all.back().what += " " + own;
    } else {
      all.back().command += (all.back().command.empty() ? "" : " ") + own;
    }
  }
  return all;
}

// 300 random predictions and runs: whoever runs the command of a line gets what the line says.
TEST(Advice, OfAPredictionIsWhatItsCommandGives) {
  std::mt19937_64 random(5);
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return std::string(values.begin()[pick(random, 0, std::ssize(values) - 1)]);
  };
  int switches = 0, schedules = 0, fillings = 0;
  std::map<std::string, int> flags;
  for (int i = 0; i < 180; ++i) {
    const std::string line = fmt::format(
        "--schedule {} --stages {} {} --model {} --cluster {} --tensor-parallel {} --recompute {} "
        "--attention {} --gradient-bytes {}",
        one_of({"1f1b", "gpipe", "zb-h1", "interleaved"}), one_of({"2", "4"}),
        one_of({"--microbatches 4", "--microbatches 12",
                "--microbatches 8 --data-parallel 2 --bucket-bytes off",
                "--devices 16 --global-batch 64", "--devices 32 --global-batch 128 --zero 1"}),
        one_of({"gpt3-1.3b", "llama-2-7b", "gpt2-large"}), one_of({"dgx-a100", "dgx-h100"}),
        one_of({"1", "2", "2 --tensor-overlap reductions", "2 --tensor-overlap off"}),
        one_of({"none", "selective", "full"}), one_of({"fused", "unfused"}), one_of({"2", "4"}));
    SCOPED_TRACE(line);
    const std::string text = output_of(line);
    const double now = json_of(line)["makespan_ns"].get<double>();
    for (const AdviceLine& one : advice_of(text)) {
      SCOPED_TRACE(one.what);
      const bool is_comparison = one.command.starts_with("pipesim schedules");
      if (one.command.empty() || is_comparison || one.what.starts_with("uneven stages")) continue;
      const Json with = json_of(one.command.substr(8));
      double saved = now - with["makespan_ns"].get<double>();
      if (one.what.starts_with("filling")) {
        saved += now;  // for twice the microbatches
        ++fillings;
        // Of replicas, they share no more exchanges and steps.
        if (line.find("--devices") != std::string::npos) continue;
      } else {
        const std::string held = format_bytes(with["peak_memory_bytes"]);
        EXPECT_NE(one.what.find(held), std::string::npos) << held;
        ++(one.what.starts_with("--") ? switches : schedules);
        for (const std::string& word : words(one.what)) ++flags[word];
      }
      EXPECT_NEAR(saved, one.gain_ns, 0.01 * one.gain_ns);
    }
  }
  EXPECT_GT(switches, 100);
  for (const char* flag : {"--recompute", "--attention", "--micro-batch-size", "--tensor-overlap",
                           "--zero", "--gradient-bytes", "--virtual-stages", "--tensor-parallel",
                           "--bucket-bytes", "--fused-loss", "--sequence-parallel"}) {
    EXPECT_GT(flags[flag], 0) << flag;
  }
  EXPECT_GT(schedules, 50);
  EXPECT_GT(fillings, 50);
}

// The same of a run that was recorded: of several iterations, too, which follow each other.
TEST(Advice, OfARunIsWhatItsCommandGives) {
  const TemporaryFolder folder;
  const std::string trace = folder / "run.json";
  std::mt19937_64 random(7);
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return std::string(values.begin()[pick(random, 0, std::ssize(values) - 1)]);
  };
  const auto times = [&](std::int64_t stages, std::int64_t least) {
    std::string list;
    for (std::int64_t i = 0; i < stages; ++i) {
      list += fmt::format("{}{}us", list.empty() ? "" : ",", pick(random, least, least * 3 / 2));
    }
    return list;
  };
  int schedules = 0, fillings = 0;
  for (int i = 0; i < 120; ++i) {
    const std::int64_t ranks = pick(random, 2, 4);
    const std::int64_t chunks = pick(random, 1, 2);
    const std::int64_t groups = pick(random, 1, 3);
    std::string line = fmt::format(
        "--stages {} --microbatches {} --forward {} --backward {} --activation-bytes {} "
        "--p2p-latency {} --p2p {} --iterations {} ",
        ranks, groups * (chunks > 1 ? ranks : 4), times(ranks * chunks, 1000),
        times(ranks * chunks, 2000), one_of({"1MiB", "300KiB"}), one_of({"0us", "50us", "300us"}),
        one_of({"async", "fifo"}), one_of({"1", "3"}));
    line += chunks > 1 ? "--schedule interleaved --virtual-stages 2"
                       : "--schedule " + one_of({"1f1b", "gpipe", "zb-h1", "zb-h2"});
    SCOPED_TRACE(line);
    output_of(line + " --quiet --trace " + trace);
    for (const AdviceLine& one : advice_of(output_of("report " + trace))) {
      if (!one.command.starts_with("pipesim whatif ")) continue;
      SCOPED_TRACE(one.what);
      const Json with = json_of(one.command.substr(8));
      const Json& row = with["rows"][0];
      const double ran = with["as_it_ran"]["makespan_ns"].get<double>();
      double saved = ran - row["makespan_ns"].get<double>();
      if (one.what.starts_with("filling")) {
        saved += ran;  // for twice the microbatches
        ++fillings;
      } else {
        EXPECT_NE(one.what.find(format_bytes(row["peak_memory_bytes"])), std::string::npos) << row;
        const bool needs_no_more = one.what.find("no more memory") != std::string::npos;
        EXPECT_TRUE(!needs_no_more ||
                    row["peak_memory_bytes"] <= with["as_it_ran"]["peak_memory_bytes"]);
        ++schedules;
      }
      EXPECT_NEAR(saved, one.gain_ns, 0.01 * one.gain_ns);
    }
  }
  EXPECT_GT(schedules, 50);
  EXPECT_GT(fillings, 50);
}

}  // namespace
}  // namespace pipesim
