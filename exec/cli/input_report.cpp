#include "exec/cli/input_report.h"

#include <fmt/format.h>

#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/input_metrics_json.h"
#include "traces/print/input_report.h"

namespace pipesim::exec {
namespace {

std::string run_lines(const InputJob& job, const InputResult& result) {
  const InputRun& run = result.run;
  const int ranks = run.program.ranks();
  std::string text;
  if (job.training) {
    const RecommendationTraining& training = *job.training;
    text += fmt::format("model   {}: {}, batches of {} per rank, from {}\n",
                        printable(training.model.name),
                        plural(std::ssize(training.model.tables), "table"),
                        plural(training.batch_size, "sample"), printable(job.source->name()));
    // Nothing is left out of an infinite source.
    const std::string left_out =
        job.source->samples() ? left_out_note(*job.source, training.batch_size, ranks) : "";
    if (!left_out.empty()) text += fmt::format("        {}\n", left_out);
  }
  text += fmt::format("run     {}; transport {}\n", run.device, run.transport);
  if (run.program.batches < job.program.batches) {
    text += fmt::format("        the last {} of {} batches are shown\n", run.program.batches,
                        job.program.batches * job.epochs);
  } else if (job.epochs > 1)
    text += fmt::format("        the last of {} epochs is shown\n", job.epochs);
  if (run.program.accumulate > 1) {
    text += fmt::format("        the dense part steps after {}\n",
                        plural(run.program.accumulate, "batch", "batches"));
  }
  for (std::size_t epoch = 0; epoch < result.evaluations.size(); ++epoch) {
    text += fmt::format("loss    {:.6g} of {} after epoch {}\n", result.evaluations[epoch],
                        plural(job.evaluate, "other batch", "other batches"), epoch + 1);
  }
  if (result.difference) {
    text += result.difference->empty()
                ? "verify  losses, tables and dense part equal one rank's bit for bit\n"
                : fmt::format("verify  differs from one rank: {}\n", *result.difference);
  }
  if (job.training && ranks > result.processors) {
    text += fmt::format(
        "\n{} share {}: they take turns, so times are longer than those of as many devices.\n",
        plural(ranks, "rank"), plural(result.processors, "processor"));
  }
  return text;
}

}  // namespace

std::string input_run_report(const InputJob& job, const InputResult& result,
                             const Terminal& terminal) {
  if (result.run.spans.empty()) {
    return wrap(fmt::format("{}: the checkpoint has {} batches, all that were asked for: "
                            "nothing is left to do\nloss    {:.6g} at last\n",
                            job.program.name, *result.resumed_at, result.losses.back()),
                terminal.width);
  }
  return input_report(result.run, measure(result.run), terminal) + "\n" +
         wrap(run_lines(job, result), terminal.width);
}

std::string input_result_json(const InputJob& job, const InputResult& result) {
  Json json{{"format", "pipeexec-result"}, {"version", 1}};
  if (!result.run.spans.empty()) add_input_run(json, result.run, measure(result.run));
  json["resumed_at"] = result.resumed_at;
  json["processors"] = result.processors;
  if (job.training) {
    const RecommendationTraining& training = *job.training;
    json["data"] = job.source->name();
    json["seed"] = training.seed;
    json["learning_rate"] = training.learning_rate;
    json["table_optimizer"] = training.has_states() ? "adagrad" : "sgd";
    json["sharding"] = sharding_json(training.plan, training.model, training.ranks);
    json["epochs"] = job.epochs;
    json["losses"] = result.losses;
    if (job.evaluate > 0) json["evaluations"] = result.evaluations;
  }
  json["verify"] = nullptr;
  if (result.difference) {
    json["verify"] = {{"bitwise", result.difference->empty()}};
    if (!result.difference->empty()) json["verify"]["difference"] = *result.difference;
  }
  return json.dump(2) + "\n";
}

}  // namespace pipesim::exec
