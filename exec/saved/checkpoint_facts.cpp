#include "exec/saved/checkpoint_facts.h"

#include <fmt/format.h>

#include <limits>

#include "traces/base/error.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

std::int64_t count_in(const JsonCursor& value) { return value.integer(0, max_iterations); }

// Null stands for NaN or infinity, as in a diverged training.
void append_losses(const JsonCursor& list, std::vector<double>& losses) {
  for (const JsonCursor& item : list.array()) {
    losses.push_back(item.is_null() ? std::numeric_limits<double>::quiet_NaN() : item.number());
  }
}

int ranks_in(JsonMembers& members, std::string_view key) {
  return static_cast<int>(members.integer_or(key, 1, 1, max_count));
}

SavedLayout layout_in(const JsonCursor& value, TrainingKind kind) {
  JsonMembers members(value);
  SavedLayout layout;
  if (kind == TrainingKind::input_pipeline) {
    layout.program = members.required("input_pipeline").string();
    layout.replicas = ranks_in(members, "ranks");
    return layout;
  }
  layout.program = members.required("schedule").string();
  layout.stages = ranks_in(members, "pipeline_parallel");
  layout.replicas = ranks_in(members, "data_parallel");
  layout.shards = ranks_in(members, "tensor_parallel");
  layout.zero = static_cast<int>(members.integer_or("zero", 0, 0, 3));
  return layout;
}

}  // namespace

CheckpointFacts facts_of(const FoundCheckpoint& checkpoint) {
  const std::string file = fmt::format("{}/{}", checkpoint.path, manifest_name);
  const JsonValue document = parse_json(checkpoint.manifest.training, file);
  JsonMembers members(JsonCursor(document, file, "training"));
  CheckpointFacts facts;
  const JsonCursor kind = members.required("kind");
  const bool is_input = kind.string() == "input-pipeline";
  if (!is_input && kind.string() != "pipeline") kind.fail("is not a known kind");
  facts.kind = is_input ? TrainingKind::input_pipeline : TrainingKind::pipeline;

  const JsonCursor model = members.required("model");
  facts.model_json = json_text(model.value());
  facts.model_name = JsonMembers(model).required("name").string();
  if (!is_input) facts.model = parse_model(facts.model_json, file);

  members.optional("seed", [&](const JsonCursor& value) { facts.seed = value.string(); });
  members.optional(is_input ? "data" : "text", [&](const JsonCursor& value) {
    facts.data = JsonMembers(value).required("name").string();
  });
  members.optional("layout",
                   [&](const JsonCursor& value) { facts.layout = layout_in(value, facts.kind); });
  members.optional("imported", [&](const JsonCursor& value) {
    facts.imported = JsonMembers(value).required("name").string();
  });
  facts.step = count_in(members.required(is_input ? "epoch" : "step"));
  facts.passes = count_in(members.required(is_input ? "batch" : "passes"));
  for (const char* list : {"warmup_losses", "losses"}) {
    members.optional(list, [&](const JsonCursor& value) { append_losses(value, facts.losses); });
  }
  return facts;
}

}  // namespace pipesim::exec
