#include "sim/input_pipeline/predict/input_request.h"

#include <algorithm>
#include <utility>

#include "sim/input_pipeline/predict/simulate_input.h"

namespace pipesim {
namespace {

// A pipeline is steady after this many batches: `auto` simulates no more.
constexpr int batches_to_judge = 10;

InputCosts costs_with(const InputTraining& training, const ShardingPlan& plan, int ranks) {
  return estimate_input(training.model, plan, training.cluster, ranks, training.batch_size,
                        training.software, training.optimizer);
}

std::int64_t fullest(const std::vector<InputMemory>& memory) {
  std::int64_t most = 0;
  for (const InputMemory& rank : memory) most = std::max(most, rank.total());
  return most;
}

PlanChoice choose_plan(const InputRequest& request, int ranks,
                       const std::optional<std::int64_t>& cap) {
  const InputTraining& training = *request.training;
  if (training.sharding == "default") return {default_sharding(training.model, ranks), {}, 0};
  if (training.sharding != "auto") {
    return {read_sharding_plan(training.sharding, training.model, ranks,
                               training.cluster.devices_per_node),
            {},
            0};
  }
  InputProgramRequest judged = request.program;
  judged.ranks = ranks;
  judged.batches = std::min(judged.batches, batches_to_judge);
  const InputProgram program = make_input_program(judged);
  return choose_sharding(
      training.model, ranks, training.cluster.devices_per_node, [&](const ShardingPlan& plan) {
        const InputRun run = simulate_input(program, costs_with(training, plan, ranks));
        const std::int64_t peak = fullest(run.memory);
        return PlanValue{cap ? std::max<std::int64_t>(peak - *cap, 0) : 0,
                         measure(run).steady_iteration_ns, peak};
      });
}

}  // namespace

std::int64_t InputPrediction::peak_memory_bytes() const { return fullest(run.memory); }

std::optional<InputMemoryLack> InputPrediction::lack() const {
  if (!memory_cap_bytes) return std::nullopt;
  return find_memory_lack(run.memory, *memory_cap_bytes);
}

InputPrediction predict_input(const InputRequest& request) {
  InputPrediction prediction;
  const InputProgram program = choose_input_program(request.program);
  prediction.memory_cap_bytes = request.memory_cap_bytes;
  if (request.training) {
    const InputTraining& training = *request.training;
    if (!prediction.memory_cap_bytes) {
      prediction.memory_cap_bytes = training.cluster.device.memory_bytes;
    }
    PlanChoice choice = choose_plan(request, program.ranks(), prediction.memory_cap_bytes);
    prediction.costs = costs_with(training, choice.plan, program.ranks());
    prediction.plan = std::move(choice.plan);
    prediction.plans_evaluated = choice.evaluated;
  } else {
    prediction.costs = request.costs.value();
  }
  prediction.run = simulate_input(program, prediction.costs);
  if (request.training) {
    prediction.run.model = request.training->model.name;
    prediction.run.cluster = request.training->cluster.name;
  }
  prediction.run.costs = to_json(prediction.costs);
  prediction.metrics = measure(prediction.run);
  return prediction;
}

std::vector<InputPrediction> predict_all_inputs(const InputRequest& request) {
  std::vector<InputPrediction> all;
  for (const InputFamily& family : all_input_families()) {
    InputRequest one = request;
    one.program.name = family.name;
    all.push_back(predict_input(one));
  }
  return all;
}

}  // namespace pipesim
