// `pipesim plan` with random flags, some of them absurd: whatever it is asked, it ends in time,
// with an answer or with one sentence.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::Outcome;

// How many plans are tried; more by PIPESIM_HOSTILE_PLANS.
int hostile_plans() {
  const char* text = std::getenv("PIPESIM_HOSTILE_PLANS");
  return text == nullptr ? 40 : std::atoi(text);
}

using Texts = std::vector<std::string>;

class HostilePlan {
 public:
  HostilePlan(unsigned seed, const std::string& model_file) : random_(seed), file_(model_file) {}

  // After the program's name.
  Texts arguments() {
    Texts all{"plan"};
    const auto add = [&](const char* flag, const Texts& values) {
      all.emplace_back(flag);
      all.push_back(pick(values));
    };
    const Texts numbers{"1",    "2",      "3",       "4",      "7",         "8",
                        "12",   "16",     "30",      "64",     "100",       "512",
                        "4096", "720720", "1000003", "999999", "1000000000"};
    const Texts times{"0s", "1ns", "1us", "1ms", "5ms", "20ms", "60ms", "100ms", "150ms", "300ms"};
    add("--model", {"gpt2-small", "gpt2-xl", "gpt3-1.3b", "gpt3-175b", "llama-3-8b", file_});
    add("--cluster", {"dgx-a100", "dgx-h100", "a100-ethernet"});
    add("--devices",
        chance(4) ? Texts{"1..1000000000", "4,8,16", "2..64", "1,1000000000,7"} : numbers);
    add("--global-batch", numbers);
    add("--budget", times);
    if (chance(2)) add("--threads", {"1", "2", "3", "1000000000"});
    if (chance(3)) add("--top", {"1", "3", "1000000000"});
    if (chance(3)) add("--objective", {"time", "memory", "devices"});
    if (chance(3)) add("--memory-cap", {"1B", "1MiB", "1GiB", "8GiB", "80GiB", "1000TiB"});
    if (chance(3)) add("--sequence-length", {"1", "2", "256", "1000000"});
    for (int narrowings = below(3); narrowings > 0; --narrowings) add("--only", only_);
    if (chance(4)) {
      add("--why", {"--schedule 1f1b --stages 4", "--schedule zb-h2 --stages 1 --zero 1",
                    "--schedule interleaved --stages 2 --virtual-stages 3", "--stages 1", ""});
    } else if (chance(6)) {
      add("--export", {"megatron", "torchtitan"});
    }
    if (chance(3)) all.emplace_back("--json");
    return all;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  bool chance(int one_of) { return below(one_of) == 0; }
  std::string pick(const Texts& values) { return values[random_() % values.size()]; }

  std::mt19937 random_;
  std::string file_;
  Texts only_{"schedule=1f1b",
              "schedule=zb-h2",
              "schedule=interleaved-pytorch",
              "schedule=gpipe,bfs",
              "schedule=dualpipe,zb-v",
              "stages=1",
              "stages=1,2,4",
              "vpp=1,2",
              "vpp=5",
              "tp=1,8",
              "dp=1",

              "mbs=1",
              "mbs=2,4",
              "sp=on",
              "recompute=full",
              "recompute=none,norms+activation",
              "zero=1,3",
              "zero=2",
              "shard-over=node",
              "gather=once",
              "bucket-bytes=25MB",
              "overlap-gather=on",

              "="};
};

TEST(HostilePlans, EndWithAnAnswerOrASentence) {
  const testing::TemporaryFolder folder;
  const std::string model = folder / "absurd.json";
  write_file(model,
             R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
                 "intermediate_size": 128, "num_attention_heads": 8, "num_hidden_layers": 100000,
                 "max_position_embeddings": 512, "vocab_size": 1000, "hidden_act": "silu"})");
  const int plans = hostile_plans();
  int answers = 0;
  double longest_over = 0;
  for (int i = 0; i < plans; ++i) {
    HostilePlan plan(static_cast<unsigned>(i), model);
    const Texts arguments = plan.arguments();
    std::string line;
    for (const std::string& one : arguments) line += " '" + one + "'";
    SCOPED_TRACE(line);
    // Far more than any budget: what goes on without end fails.
    Texts command{"/usr/bin/env", "timeout", "60", PIPESIM_COMMAND};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = testing::run_command(command);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    for (std::size_t a = 0; a + 1 < arguments.size(); ++a) {
      if (arguments[a] != "--budget") continue;
      const double budget = static_cast<double>(parse_time_ns(arguments[a + 1], "budget")) * 1e-9;
      longest_over = std::max(longest_over, took.count() - 1.1 * budget);
    }
    ASSERT_GE(outcome.status, 0);
    ASSERT_LE(outcome.status, 2) << outcome.err;
    if (outcome.status != 0) {
      testing::expect_one_sentence(outcome, "pipesim", line, outcome.status, "");
    } else {
      ++answers;
      EXPECT_NE(outcome.out, "");
      if (arguments.back() == "--json") {
        EXPECT_TRUE(testing::Json::parse(outcome.out).is_object());
      }
    }
    if (HasFailure()) return;
  }
  std::printf("%d plans, %d with an answer; the longest took %.0f ms more than 1.1 budgets\n",
              plans, answers, longest_over * 1e3);
}

}  // namespace
}  // namespace pipesim
