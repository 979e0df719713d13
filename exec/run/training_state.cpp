#include "exec/run/training_state.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "exec/checkpoint/hash.h"
#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::string_view pipeline_kind = "pipeline";

// Sequences of all replicas.
std::int64_t sequences_of(const TrainingJob& training) {
  return training.tokens() / training.sequence_length;
}

// Checks a checkpoint's training against the one that resumes it.
class Check {
 public:
  explicit Check(const std::string& path) : path_(path) {}

  template <typename T>
  void same(std::string_view what, const T& saved, const T& own, std::string_view remedy) const {
    if (saved == own) return;
    refuse(fmt::format("was made with {} {}, not {}; {}", what, saved, own, remedy));
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw input_error(fmt::format("{}: {}", printable(path_), why));
  }

 private:
  const std::string& path_;
};

void check_model(const Check& check, const JsonCursor& cursor, const Model& own) {
  const Model saved = parse_model(json_text(cursor.value()), cursor.file());
  Model likewise = own;
  likewise.name = saved.name;
  if (to_json(saved) == to_json(likewise)) return;
  if (saved.name != own.name) {
    check.refuse(fmt::format("is for model {}, not {}", quote(saved.name), quote(own.name)));
  }
  check.refuse(fmt::format("is for another model {}, with {} blocks of {} numbers, not {} of {}",
                           quote(saved.name), saved.blocks, saved.hidden_size, own.blocks,
                           own.hidden_size));
}

std::vector<double> numbers_of(const JsonCursor& list) {
  std::vector<double> numbers;
  // The loss of a diverged training may be NaN or infinite, null in JSON.
  for (const JsonCursor& item : list.array()) {
    numbers.push_back(item.is_null() ? std::numeric_limits<double>::quiet_NaN() : item.number());
  }
  return numbers;
}

int count_of(const JsonCursor& value) {
  return static_cast<int>(value.integer(0, std::int64_t{2} * max_count));
}

}  // namespace

TrainingState state_after(const TrainingJob& training, int iterations,
                          std::vector<double> warmup_losses, std::vector<double> losses) {
  TrainingState state{iterations, 0, 0, std::move(warmup_losses), std::move(losses)};
  if (iterations == 0) return state;
  const TrainingJob::Pass last = training.pass(iterations - 1);
  state.step = last.step + (last.is_last() ? 1 : 0);
  state.passes = last.is_last() ? 0 : last.index + 1;
  return state;
}

Manifest manifest_of(const TrainingJob& training, const TrainingState& state) {
  Json json;
  json["kind"] = pipeline_kind;
  json["model"] = Json::verbatim(to_json(training.model));
  json["seed"] = std::to_string(training.seed);  // readers of JSON have 53 bits
  json["text"] = {{"name", training.text.name()},
                  {"bytes", training.text.bytes().size()},
                  {"hash", hash_of(training.text.bytes())}};
  json["sequence_length"] = training.sequence_length;
  json["sequences"] = sequences_of(training);
  json["learning_rate"] = training.learning_rate;
  json["warmup"] = training.warmup;
  json["accumulate"] = training.accumulate;
  json["step"] = state.step;
  json["passes"] = state.passes;
  json["warmup_losses"] = state.warmup_losses;
  json["losses"] = state.losses;
  json["layout"] = {{"schedule", training.program.name},
                    {"layers", training.layout},
                    {"pipeline_parallel", training.program.ranks()},
                    {"data_parallel", training.data_parallel},
                    {"tensor_parallel", training.tensor_parallel},
                    {"zero", training.zero}};
  Manifest manifest;
  manifest.iteration = state.iteration;
  manifest.training = json.dump();
  return manifest;
}

TrainingState state_of(const FoundCheckpoint& checkpoint, const TrainingJob& training) {
  const std::string file = fmt::format("{}/{}", checkpoint.path, manifest_name);
  const Check check(checkpoint.path);
  const JsonValue document = parse_json(checkpoint.manifest.training, file);
  JsonMembers members(JsonCursor(document, file, "training"));
  if (members.required("kind").string() != pipeline_kind) {
    check.refuse("is from a training with an input pipeline; give the same --input-pipeline");
  }
  check_model(check, members.required("model"), training.model);
  if (checkpoint.manifest.iteration == 0) return {};  // imported weights, without training so far
  check.same("--seed", members.required("seed").string(), std::to_string(training.seed),
             "give the same seed");
  JsonMembers text(members.required("text"));
  const std::string& name = text.required("name").string();
  const bool same_text = text.required("hash").string() == hash_of(training.text.bytes());
  if (!same_text) {
    check.refuse(
        fmt::format("was trained on another text, {}; give --data as it had", quote(name)));
  }
  check.same("--sequence-length", members.required("sequence_length").integer(1, max_count),
             training.sequence_length, "give the same");
  check.same("--warmup", count_of(members.required("warmup")), training.warmup,
             "they count from the start of training");
  check.same("--accumulate", count_of(members.required("accumulate")), training.accumulate,
             "give the same");
  TrainingState state;
  state.iteration = static_cast<int>(
      std::min<std::int64_t>(checkpoint.manifest.iteration, std::int64_t{2} * max_count));
  state.step = count_of(members.required("step"));
  state.passes = count_of(members.required("passes"));
  state.warmup_losses = numbers_of(members.required("warmup_losses"));
  state.losses = numbers_of(members.required("losses"));
  const std::int64_t sequences = members.required("sequences").integer(1, max_bytes);
  if (state.passes > 0) {
    check.same("a batch of", sequences, sequences_of(training),
               "within a step it must be the same; give --global-batch");
  }
  // A last step may have had fewer passes than other steps.
  const TrainingState expected = state_after(training, state.iteration, {}, {});
  if (state.iteration < training.warmup + training.iterations &&
      (expected.step != state.step || expected.passes != state.passes)) {
    check.refuse(fmt::format(
        "ended within a step of {}: after {} it has done {}, not {}; give --iterations so that it "
        "ends as it did",
        plural(training.accumulate, "pass", "passes"), plural(state.iteration, "iteration"),
        plural(state.step, "step"), expected.step));
  }
  return state;
}

}  // namespace pipesim::exec
