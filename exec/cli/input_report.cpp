#include "exec/cli/input_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exec/device/devices.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/input_pipeline/input_metrics_json.h"
#include "traces/print/columns.h"
#include "traces/print/picture.h"
#include "traces/print/tables.h"

namespace pipesim::exec {
namespace {

std::string input_verdict(const InputRun& run, const InputMetrics& metrics,
                          const Terminal& terminal) {
  const InputProgram& program = run.program;
  std::string what = fmt::format(
      "{}, {} x {}: {} a batch", printable(program.name), plural(program.ranks(), "rank"),
      plural(program.batches, "batch", "batches"), format_time(metrics.steady_iteration_ns));
  if (run.batch_size > 0) {
    what += fmt::format("; {} samples/s", format_count(std::llround(metrics.samples_per_second)));
  }
  return bold(wrap(what, terminal.width), terminal.colour) + "\n";
}

// Of each rank shown, by kind: what its compute stream did, waited for, and what was hidden.
std::string kinds_table(const InputMetrics& metrics, int width) {
  const TableUnit unit = table_unit(metrics.makespan_ns);
  std::vector<std::string> labels{""};
  for (int kind = 0; kind < input_kind_count; ++kind) {
    labels.emplace_back(input_kind_name(static_cast<InputKind>(kind)));
  }
  for (const char* other : {"host", "other ranks", "end"}) labels.emplace_back(other);
  std::vector<ColumnGroup> groups;
  for (const int r : shown_ranks(static_cast<int>(metrics.ranks.size()))) {
    const InputMetrics::Rank& rank = metrics.ranks[static_cast<std::size_t>(r)];
    Column busy{"busy", {}}, exposed{"exposed", {}}, hidden{"hidden", {}};
    for (std::size_t kind = 0; kind < input_kind_count; ++kind) {
      busy.cells.push_back(unit.text(rank.busy_by_kind[kind]));
      exposed.cells.push_back(unit.text(rank.exposed[kind]));
      hidden.cells.push_back(unit.text(std::max<std::int64_t>(
          0, rank.total[kind] - rank.busy_by_kind[kind] - rank.exposed[kind])));
    }
    for (const std::int64_t waited : {rank.host_ns, rank.skew_ns, rank.drain_ns}) {
      exposed.cells.push_back(unit.text(waited));
      for (Column* none : {&busy, &hidden}) none->cells.push_back(unit.text(0));
    }
    groups.push_back({fmt::format("rank {}, {}", r, unit.name), {busy, exposed, hidden}});
  }
  return table(labels, groups, static_cast<std::size_t>(width));
}

std::string run_lines(const InputJob& job, const InputResult& result) {
  const InputRun& run = result.run;
  const int ranks = run.program.ranks();
  std::string text;
  if (job.training) {
    const RecommendationTraining& training = *job.training;
    text += fmt::format("model   {}: {}, batches of {} a rank, from {}\n",
                        printable(training.model.name),
                        plural(std::ssize(training.model.tables), "table"),
                        plural(training.batch_size, "sample"), printable(job.source->name()));
    // Of a source without end nothing is.
    const std::string left_out =
        job.source->samples() ? left_out_note(*job.source, training.batch_size, ranks) : "";
    if (!left_out.empty()) text += fmt::format("        {}\n", left_out);
  }
  text += fmt::format("run     {}; transport {}\n", run.device, run.transport);
  if (job.epochs > 1) text += fmt::format("        shown is the last of {} epochs\n", job.epochs);
  if (run.program.accumulate > 1) {
    text += fmt::format("        the dense part steps after {}\n",
                        plural(run.program.accumulate, "batch", "batches"));
  }
  if (!result.losses.empty()) {
    text += fmt::format("loss    {:.4f} at first, {:.4f} at last\n", result.losses.front(),
                        result.losses.back());
  }
  for (std::size_t epoch = 0; epoch < result.evaluations.size(); ++epoch) {
    text += fmt::format("        {:.4f} of {} after epoch {}\n", result.evaluations[epoch],
                        plural(job.evaluate, "other batch", "other batches"), epoch + 1);
  }
  if (result.difference) {
    text += result.difference->empty()
                ? "verify  losses, tables and dense part equal those of one rank, bit by bit\n"
                : fmt::format("verify  not those of one rank: {}\n", *result.difference);
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
  const InputMetrics metrics = measure(result.run);
  return input_verdict(result.run, metrics, terminal) + "\n" +
         kinds_table(metrics, terminal.width) + "\n" + wrap(run_lines(job, result), terminal.width);
}

std::string input_result_json(const InputJob& job, const InputResult& result) {
  const InputRun& run = result.run;
  const InputMetrics metrics = measure(run);
  Json json{{"format", "pipeexec-input-result"},
            {"version", 1},
            {"input_pipeline", run.program.name},
            {"batches", run.program.batches},
            {"accumulate", run.program.accumulate}};
  if (run.batch_size > 0) json["batch_size"] = run.batch_size;
  json["device"] = run.device;
  json["transport"] = run.transport;
  json["processors"] = result.processors;
  if (job.training) {
    const RecommendationTraining& training = *job.training;
    json["model"] = training.model.name;
    json["data"] = job.source->name();
    json["seed"] = training.seed;
    json["learning_rate"] = training.learning_rate;
    json["table_optimizer"] = training.has_states() ? "adagrad" : "sgd";
    json["sharding"] = Json::verbatim(to_json(training.plan, training.model, training.ranks));
    json["epochs"] = job.epochs;
    json["losses"] = result.losses;
    if (job.evaluate > 0) json["evaluations"] = result.evaluations;
  }
  json["makespan_ns"] = metrics.makespan_ns;
  json["steady_iteration_ns"] = metrics.steady_iteration_ns;
  json["samples_per_second"] =
      run.batch_size > 0 ? Json(metrics.samples_per_second) : Json(nullptr);
  json["exposed_ns"] = input_exposed_json(metrics);
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    Json own = input_rank_json(metrics.ranks[rank], static_cast<int>(rank));
    if (!run.memory.empty()) {
      own["peak_memory_bytes"] = run.memory[rank].total();
      own["memory_bytes"] = input_memory_json(run.memory[rank]);
    }
    ranks.push_back(std::move(own));
  }
  json["ranks"] = std::move(ranks);
  json["verify"] = nullptr;
  if (result.difference) {
    json["verify"] = {{"bitwise", result.difference->empty()}};
    if (!result.difference->empty()) json["verify"]["difference"] = *result.difference;
  }
  return json.dump(2) + "\n";
}

}  // namespace pipesim::exec
