// Any bytes as each of the files of input pipelines: an Error, or what every later step takes.
// Programs are written, read again and simulated, and so are they with calls in another order,
// which stand still where find_deadlock() says so; models, plans, costs and batches are written and
// read again; of runs the metrics add up.
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>

#include "exec/input_pipeline/input_batch.h"
#include "sim/input_pipeline/calibrate_input.h"
#include "sim/input_pipeline/input_estimate.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/simulate_input.h"
#include "sim/input_pipeline/predict/what_if_input.h"
#include "tests/files.h"
#include "tests/fuzz/memory_file.h"
#include "traces/base/error.h"
#include "traces/input_trace.h"
#include "traces/read/input_trace.h"

namespace pipesim {
namespace {

constexpr std::int64_t max_calls = 2000;  // that are simulated
constexpr int fuzz_ranks = 4;
constexpr int fuzz_ranks_per_node = 2;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_metrics(const InputRun& run) {
  const InputMetrics metrics = measure(run);
  require(metrics.ranks.size() == run.spans.size());
  for (const InputMetrics::Rank& rank : metrics.ranks) {
    const std::int64_t exposed =
        std::accumulate(rank.exposed.begin(), rank.exposed.end(), std::int64_t{0});
    const std::int64_t all =
        rank.busy_ns + exposed + rank.host_ns + rank.skew_ns + rank.drain_ns + rank.other_ns;
    require(all == metrics.makespan_ns);
  }
}

InputCosts some_costs(int ranks) {
  InputCosts costs;
  costs.links = {{"shared", 1'000'000'000}};
  costs.work.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Kind kind : input_kinds) {
      InputWork& work = costs.of(rank, kind);
      work.duration_ns = 3 + static_cast<std::int64_t>(input_index(kind)) + rank;
      if (!is_of_host(kind)) work.host_ns = 1;
    }
    costs.of(rank, Kind::IDS).bytes = 100 + rank;
    costs.of(rank, Kind::IDS).links = {0};
  }
  return costs;
}

// Whether it gets done.
bool is_simulated(const InputProgram& program) {
  try {
    check_metrics(simulate_input(program, some_costs(program.ranks())));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Neighbours change places, but for those of which one waits for the other.
void shuffle(InputCalls& calls, std::mt19937_64& random) {
  if (calls.size() < 2) return;
  for (int i = 0; i < 8; ++i) {
    const auto place = static_cast<std::uint32_t>(random() % (calls.size() - 1));
    if (std::ranges::count(calls[place + 1].after, place) > 0) continue;
    std::swap(calls[place], calls[place + 1]);
    for (std::size_t at = place + 2; at < calls.size(); ++at) {
      for (std::uint32_t& awaited : calls[at].after) {
        if (awaited == place || awaited == place + 1) awaited = 2 * place + 1 - awaited;
      }
      std::ranges::sort(calls[at].after);
    }
  }
}

void check_program(std::string_view text) {
  const InputProgram program = parse_input_program(text, "fuzz.program");
  require(!find_fault(program) && !find_deadlock(program));
  const std::string written = to_text(program);
  const InputProgram again = parse_input_program(written, "again");
  require(again.calls == program.calls && to_text(again) == written);
  if (program.size() > max_calls) return;
  require(is_simulated(program));
  std::mt19937_64 random(text.size());
  for (int i = 0; i < 4; ++i) {
    InputProgram other = program;
    shuffle(other.calls[random() % other.calls.size()], random);
    require(is_simulated(other) == !find_deadlock(other));
  }
}

void check_model(std::string_view text) {
  const RecommendationModel model = parse_recommendation_model(text, "fuzz.json");
  const std::string written = to_json(model);
  require(to_json(parse_recommendation_model(written, "again")) == written);
  const ShardingPlan plan = default_sharding(model, fuzz_ranks);
  static const Cluster cluster = find_cluster("dgx-a100");
  for (const TableOptimizer optimizer : {TableOptimizer::sgd, TableOptimizer::row_wise_adagrad}) {
    const InputCosts costs = estimate_input(model, plan, cluster, fuzz_ranks, 8, {}, optimizer);
    const InputProgram program =
        make_input_program({.name = "fused", .ranks = fuzz_ranks, .batches = 3, .stages = {}});
    check_metrics(simulate_input(program, costs));
  }
}

const RecommendationModel& two_tables() {
  static const RecommendationModel model = [] {
    RecommendationModel made{.name = "tiny", .title = "tiny"};
    made.dense_features = 2;
    made.bottom = {4};
    made.top = {1};
    made.tables = {{"user", 10, 4}, {"words", 3, 4, 3, IdCount::uniform}};
    return made;
  }();
  return model;
}

void check_plan(std::string_view text) {
  const RecommendationModel& model = two_tables();
  const auto read = [&](std::string_view plan) {
    return parse_sharding_plan(plan, "fuzz.json", model, fuzz_ranks, fuzz_ranks_per_node);
  };
  const ShardingPlan plan = read(text);
  require(read(to_json(plan, model, fuzz_ranks_per_node)) == plan);
  std::vector<std::int64_t> numbers(model.tables.size(), 0);
  for (const TablePiece& piece : pieces_of(plan, model, fuzz_ranks, fuzz_ranks_per_node)) {
    require(piece.rank >= 0 && piece.rank < fuzz_ranks && piece.numbers() > 0);
    numbers[static_cast<std::size_t>(piece.table)] += piece.numbers();
  }
  for (std::size_t table = 0; table < model.tables.size(); ++table) {
    const bool is_copied = plan.tables[table].sharding == ShardingType::data_parallel;
    const EmbeddingTable& whole = model.tables[table];
    require(numbers[table] == whole.rows * whole.width * (is_copied ? fuzz_ranks : 1));
  }
}

void check_costs_file(std::string_view text) {
  const InputCosts costs = parse_input_costs(text, "fuzz.json");
  require(parse_input_costs(to_json(costs), "again") == costs);
  if (costs.ranks() > fuzz_ranks) return;
  for (const InputFamily& family : all_input_families()) {
    const InputRun run = simulate_input(
        make_input_program(
            {.name = std::string(family.name), .ranks = costs.ranks(), .batches = 3}),
        costs);
    check_metrics(run);
    for (const InputMemory& memory : run.memory) require(memory.total() >= 0);
  }
}

void check_batches_file(std::string_view text) {
  const auto source = exec::parse_batches(text, "fuzz.txt", two_tables());
  const exec::InputBatch all = source->read(0, source->samples().value());
  const std::string written = exec::batches_to_text(all, two_tables());
  const auto again = exec::parse_batches(written, "again", two_tables());
  require(exec::batches_to_text(again->read(0, all.samples()), two_tables()) == written);
}

void check_trace(std::string_view text) {
  const testing::MemoryFile file(text);
  is_input_trace(file.path());
  const InputRun run = read_input_run(file.path());
  check_metrics(run);
  static const testing::TemporaryFolder folder;
  write_input_trace(run, folder / "run.json");
  require(read_input_run(folder / "run.json").spans == run.spans);
  if (run.program.size() > max_calls) return;
  const InputCosts costs = calibrate_input(run).costs;
  require(parse_input_costs(to_json(costs), "again") == costs);
  const InputBasis basis(run);
  basis.answer({.times = parse_input_changes("IDS=0.5,rank0=1000", "fuzz"), .program = {}});
  basis.answer({.times = {}, .program = "base"});
}

}  // namespace
}  // namespace pipesim

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto check : {check_program, check_model, check_plan, check_costs_file,
                           check_batches_file, check_trace}) {
    try {
      check(text);
    } catch (const Error&) {
    }
  }
  return 0;
}
