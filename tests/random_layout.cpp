#include "tests/random_layout.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "sim/cost/model.h"
#include "sim/schedule/csv.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"

namespace pipesim::testing {

std::string RandomLayout::text() const {
  std::string text;
  for (const std::string& flag : flags) text += (text.empty() ? "" : " ") + flag;
  return text;
}

RandomLayout random_layout(std::mt19937_64& random, const TemporaryFolder& folder) {
  constexpr int max_ranks = 8;
  const Schedule schedule = random_schedule(random);
  const std::string program = folder / "program.csv";
  write_file(program, to_csv(schedule));
  const bool is_llama = random() % 2 == 0;
  Model model =
      tiny_model(schedule.stages() + 2, is_llama ? Architecture::llama : Architecture::gpt);
  model.kv_heads = model.heads;
  model.tied_head = random() % 2 == 0;
  model.vocabulary_size = 256;
  const std::string model_file = folder / "model.json";
  write_file(model_file, to_json(model));

  RandomLayout layout;
  const int most = max_ranks / schedule.ranks();
  const int shards = most >= 2 && random() % 2 == 0 ? 2 : 1;
  const auto replicas = static_cast<int>(pick(random, 1, most / shards));
  layout.ranks = replicas * shards * schedule.ranks();
  layout.flags = {"--schedule",
                  program,
                  "--model",
                  model_file,
                  "--micro-batch-size",
                  "2",
                  "--sequence-length",
                  "4",
                  "--iterations",
                  "3",
                  "--warmup",
                  "0",
                  "--tensor-parallel",
                  std::to_string(shards),
                  "--data-parallel",
                  std::to_string(replicas),
                  "--verify",
                  "--json"};
  const auto add = [&](const std::string& flag, const std::string& value) {
    layout.flags.push_back(flag);
    layout.flags.push_back(value);
  };
  if (shards > 1 && random() % 2 == 0) layout.flags.emplace_back("--sequence-parallel");
  if (random() % 2 == 0) {
    constexpr std::array<const char*, 4> ways{"full", "selective", "norms,activation",
                                              "attention,norms,activation"};
    add("--recompute", ways[static_cast<std::size_t>(pick(random, 0, 3))]);
  }
  if (random() % 2 == 0) add("--accumulate", std::to_string(pick(random, 1, 3)));
  if (replicas == 1) return layout;
  const auto zero = pick(random, 0, 3);
  add("--zero", std::to_string(zero));
  if (zero == 3 && random() % 2 == 0) {
    constexpr std::array<const char*, 3> ways{"window", "pass", "once"};
    add("--gather", ways[static_cast<std::size_t>(pick(random, 0, 2))]);
  }
  auto block = static_cast<int>(pick(random, 1, replicas));
  while (replicas % block != 0) ++block;
  if (zero > 0 && random() % 2 == 0) add("--shard-over", std::to_string(block));
  if (random() % 2 == 0) add("--bucket-bytes", std::to_string(pick(random, 1, 3000)) + "B");
  return layout;
}

int random_layouts(int usual) {
  const char* text = std::getenv("PIPESIM_RANDOM_LAYOUTS");
  return text == nullptr ? usual : std::atoi(text);
}

}  // namespace pipesim::testing
