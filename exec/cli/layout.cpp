#include "exec/cli/layout.h"

#include "sim/cost/describe_layout.h"
#include "sim/cost/estimate/operators.h"

namespace pipesim::exec {
namespace {

// The memory and messages of a training, as costs.
Costs bytes_of_training(const TrainingJob& training, const std::vector<std::int64_t>& parameters) {
  Costs costs;
  const std::vector<std::int64_t> messages = training.message_bytes();
  const bool is_rounded = training.precision != Number::float32;
  const auto each =
      static_cast<std::int64_t>(sizeof(float)) + (is_rounded ? bytes_of(training.precision) : 0);
  for (std::size_t stage = 0; stage < parameters.size(); ++stage) {
    StageCosts& own = costs.stages.emplace_back();
    own.weight_bytes = parameters[stage] * each;
    own.output_bytes = messages[stage];
  }
  const Model& model = training.model;
  if (model.tied_head) {
    GroupCosts& tied = costs.tied_gradients.emplace();
    tied.bytes = model.vocabulary_size / training.tensor_parallel * model.hidden_size *
                 static_cast<std::int64_t>(sizeof(float));
  }
  return costs;
}

}  // namespace

PipelineLayout layout_of(const Task& task) {
  const TrainingJob& training = task.training;
  const Training replicas = training.replicas();
  if (training.costs) {
    LayoutFacts facts{task.title, training.program, *training.costs};
    facts.layers = task.emulated_layers;
    return describe_layout(facts);
  }
  std::vector<std::int64_t> parameters;
  for (int stage = 0; stage < training.program.stages(); ++stage) {
    std::int64_t& sum = parameters.emplace_back(0);
    const int first = training.first_layer(stage);
    for (int i = 0; i < training.layout[static_cast<std::size_t>(stage)]; ++i) {
      sum += rank_parameters(training.model, first + i, training.tensor_parallel);
    }
  }
  const Costs costs = bytes_of_training(training, parameters);
  // Two copies of a tied matrix on one rank count once in the model.
  const Model& model = training.model;
  const Placement& placement = training.program.placement;
  if (model.tied_head && placement.has(placement.rank_of(0), placement.stages() - 1)) {
    parameters.back() -= model.vocabulary_size / training.tensor_parallel * model.hidden_size;
  }
  LayoutFacts facts{task.title, training.program, costs};
  facts.layers = training.layout;
  facts.model = &model;
  facts.parameters = parameters;
  facts.training = &replicas;
  return describe_layout(facts);
}

}  // namespace pipesim::exec
