#include "exec/cli/known_names.h"

#include "sim/cost/model.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/recommendation_model.h"
#include "sim/schedule/family.h"

namespace pipesim::exec {

std::vector<KnownNames> known_names() {
  std::vector<std::string> schedules;
  for (const Family& family : all_families()) schedules.emplace_back(family.name);
  std::vector<std::string> models;
  for (const Model& model : known_models()) models.push_back(model.name);
  std::vector<std::string> recommendation_models;
  for (const auto& model : known_recommendation_models()) {
    recommendation_models.push_back(model.name);
  }
  std::vector<std::string> input_pipelines;
  for (const InputFamily& family : all_input_families()) input_pipelines.emplace_back(family.name);
  return {{"--schedule", schedules},
          {"--model", models},
          {"pipeexec --model", recommendation_models},
          {"--recompute", {"selective", "attention", "norms", "activation"}},
          {"--device", {"cpu", "emulated", "cuda", "hip"}},
          {"--transport", {"mpi", "tcp", "local", "nccl", "rccl"}},
          {"--input-pipeline", input_pipelines},
          {"--table-optimizer", {"sgd", "adagrad"}}};
}

}  // namespace pipesim::exec
