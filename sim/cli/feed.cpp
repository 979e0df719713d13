// `pipesim feed`: predicts an overlapped input pipeline.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/cli/commands.h"
#include "sim/cli/input_pipeline_report.h"
#include "sim/cli/outputs.h"
#include "sim/cli/seed.h"
#include "sim/input_pipeline/predict/input_limits.h"
#include "sim/input_pipeline/predict/input_request.h"
#include "sim/input_pipeline/predict/input_result_json.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/input_trace.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

constexpr int default_batches = 16;
constexpr std::int64_t default_batch_size = 4096;

struct FeedFlags {
  Flag input_pipeline, ranks, batches, batch_size, stages, sharding, table_optimizer, seed;
  Flag model, cluster, costs, accumulate, memory_cap, trace, figure, export_file;
  bool compare = false;
  bool json = false;
  bool quiet = false;
};

InputTraining training_of(const FeedFlags& flags) {
  if (!flags.cluster) {
    throw input_error(
        "--cluster is missing: what the model runs on; `pipesim clusters` lists them");
  }
  InputTraining training;
  training.model = read_recommendation_model(*flags.model);
  training.cluster = find_cluster(*flags.cluster);
  training.batch_size =
      flags.batch_size ? parse_count(*flags.batch_size, "--batch-size") : default_batch_size;
  if (flags.sharding) training.sharding = *flags.sharding;
  if (flags.table_optimizer) {
    training.optimizer = parse_table_optimizer(*flags.table_optimizer, "--table-optimizer");
  }
  if (flags.seed) training.software.seed = parse_seed(*flags.seed, "--id-seed");
  return training;
}

InputRequest request_of(const FeedFlags& flags) {
  InputRequest request;
  InputProgramRequest& program = request.program;
  program.name = flags.input_pipeline.value_or("sparse-dist");
  const bool from_file = names_input_program_file(program.name);
  // A file's program has its own ranks and batches.
  program.batches = from_file ? 0 : default_batches;
  program.ranks = from_file ? 0 : 8;
  if (flags.ranks) program.ranks = parse_count(*flags.ranks, "--ranks");
  if (flags.batches) program.batches = parse_count(*flags.batches, "--batches");
  if (flags.accumulate) {
    if (from_file) throw input_error("--accumulate: the program's file sets it");
    program.accumulate = parse_count(*flags.accumulate, "--accumulate");
  }
  if (flags.stages) {
    if (program.name != "staged" && !flags.compare) {
      throw input_error("--input-stages: only --input-pipeline staged takes stages");
    }
    program.stages = parse_input_stages(*flags.stages, "--input-stages");
  }
  if (flags.memory_cap) {
    request.memory_cap_bytes = parse_bytes(*flags.memory_cap, "--memory-cap");
  }
  if (flags.costs) {
    if (flags.model)
      throw input_error("--model and --costs both give the times of actions; keep one");
    for (const auto& [name, flag] :
         {std::pair<std::string_view, const Flag&>{"--cluster", flags.cluster},
          {"--batch-size", flags.batch_size},
          {"--sharding", flags.sharding},
          {"--table-optimizer", flags.table_optimizer},
          {"--id-seed", flags.seed}}) {
      if (flag) throw input_error(fmt::format("{}: it has no effect with --costs", name));
    }
    request.costs = read_input_costs(*flags.costs);
    if (flags.memory_cap && request.costs->holdings.empty()) {
      throw input_error(fmt::format(
          "--memory-cap: {} has no holdings, which give each rank's memory; add them, or omit it",
          *flags.costs));
    }
    if (!flags.ranks && !from_file) program.ranks = request.costs->ranks();
    return request;
  }
  if (!flags.model) {
    throw input_error(
        "--model is missing: dlrm-mini, dlrm-dcnv2 or a file; or give --costs with each "
        "action's time");
  }
  request.training = training_of(flags);
  return request;
}

// Refuses to predict a run that would not fit.
void refuse_lack(const InputRequest& request, const InputPrediction& prediction) {
  const auto lack = prediction.lack();
  if (!lack) return;
  const std::string all_the_same = "; a larger --memory-cap predicts it anyway";
  if (!request.training) {
    throw input_error(fmt::format("rank {} lacks {} of memory{}", lack->rank,
                                  format_bytes(lack->bytes), all_the_same));
  }
  const InputTraining& training = *request.training;
  throw input_error(
      to_text(*lack, prediction.run.memory, training.model, *prediction.plan, training.cluster) +
      all_the_same);
}

void compare_all(const InputRequest& request, const FeedFlags& flags) {
  if (flags.trace || flags.export_file || flags.figure) {
    throw input_error(
        fmt::format("{}: --compare writes no file; omit one of them", flags.trace    ? "--trace"
                                                                      : flags.figure ? "--figure"
                                                                                     : "--export"));
  }
  const std::string& name = request.program.name;
  if (names_input_program_file(name)) {
    throw input_error("--compare takes input pipelines by name, not a file");
  }
  const std::vector<std::string> known = input_family_names();
  if (std::ranges::find(known, name) == known.end()) {
    throw input_error(unknown_name("input pipeline", name, known));
  }
  const std::vector<InputPrediction> all = predict_all_inputs(request);
  if (flags.json) {
    print(input_programs_json(request, all));
  } else if (!flags.quiet) {
    print(input_programs_report(request, all, standard_output()));
  }
}

void run(const FeedFlags& flags) {
  const Flag& name = flags.input_pipeline;
  check_outputs(
      {{"--input-pipeline", name && names_input_program_file(*name) ? name : Flag()},
       {"--model", file_of(flags.model)},
       {"--cluster", file_of(flags.cluster)},
       {"--costs", flags.costs},
       {"--sharding", flags.sharding && *flags.sharding != "auto" ? flags.sharding : Flag()},
       {"--trace", flags.trace, true},
       {"--figure", flags.figure, true},
       {"--export", flags.export_file, true}});
  const InputRequest request = request_of(flags);
  std::optional<Progress> progress(std::in_place);
  progress->show("simulating");
  if (flags.compare) {
    compare_all(request, flags);
    return;
  }
  std::optional<OutputFile> trace, exported;
  if (flags.trace) trace.emplace(*flags.trace, flags.trace->ends_with(".gz"));
  if (flags.export_file) exported.emplace(*flags.export_file);
  FigureFile figure(flags.figure);
  const InputPrediction prediction = predict_input(request);
  refuse_lack(request, prediction);
  if (trace) write_input_trace(prediction.run, *trace);
  if (exported) exported->write(to_text(prediction.run.program));
  if (figure.is_wanted()) figure.write({{"", {panel_of(prediction.run)}, ""}});
  if (trace) trace->commit();
  if (exported) exported->commit();
  if (flags.quiet && !flags.json) return;
  const std::vector<InputLimit> limits = find_input_limits(prediction.run.program, prediction.costs,
                                                           prediction.metrics.steady_iteration_ns);
  progress.reset();
  if (flags.json) {
    print(input_result_json(request, prediction, limits));
    return;
  }
  print(input_prediction_report(prediction, limits, standard_output()));
  if (trace) {
    print(fmt::format("Trace: {} (open it in ui.perfetto.dev)\n", printable(trace->path())));
  }
  print(figure.told());
  if (exported) print(fmt::format("Program: {}\n", printable(exported->path())));
}

}  // namespace

void set_up_feed(CommandLine& command) {
  auto flags = std::make_shared<FeedFlags>();
  command.add_flags(
      "Input pipeline",
      {{"--input-pipeline", &flags->input_pipeline, "NAME|FILE",
        "see below for all; default sparse-dist", input_family_names},
       {"--ranks", &flags->ranks, "N", "ranks of the input pipeline; default 8"},
       {"--batches", &flags->batches, "N", "batches per rank; default 16"},
       {"--input-stages", &flags->stages, "LIST", "stages of staged; default copy,dist"},
       {"--accumulate", &flags->accumulate, "K", "optimizer step every K batches; default 1"},
       {"--compare", &flags->compare, "compares all input pipelines"}});
  command.add_flags(
      "What its actions take",
      {{"--model", &flags->model, "NAME|FILE.json", "dlrm-mini, dlrm-dcnv2 or a file",
        recommendation_model_names},
       {"--cluster", &flags->cluster, "NAME|FILE.json",
        "cluster to train on; `pipesim clusters` lists them", known_clusters},
       {"--batch-size", &flags->batch_size, "N", "samples per batch of a rank; default 4096"},
       {"--sharding", &flags->sharding, "FILE|auto",
        "placement of tables; default whole tables by size"},
       {"--table-optimizer", &flags->table_optimizer, "NAME",
        "sgd or adagrad (row-wise); default sgd", known_table_optimizers},
       {"--id-seed", &flags->seed, "N", "seed of which rows are popular; default 0"},
       {"--costs", &flags->costs, "FILE.json", "each action's time, instead of a model's"}});
  command.add_flags(
      "Output",
      {{"--memory-cap", &flags->memory_cap, "BYTES",
        "memory limit per rank; default a model's device"},
       {"--trace", &flags->trace, "FILE.json[.gz]", "writes the timeline as a Chrome trace"},
       {"--export", &flags->export_file, "FILE", "writes the program"},
       {"--figure", &flags->figure, "FILE.svg|FILE.png", "draws the timeline as a figure"},
       {"--json", &flags->json, "prints the result as one JSON object"},
       {"--quiet", &flags->quiet, "prints no report"}});
  command.set_footer(
      "Orders of torchrec's train pipelines, --input-pipeline:\n"
      "  base         copies the next batch after the backward\n"
      "  sparse-dist  copies batches and exchanges ids ahead, during compute\n"
      "  lite         copies batches ahead only: little memory\n"
      "  fused        sparse-dist with lookups during the optimizer's step\n"
      "  semi-sync    looks rows up before the previous batch's update: stale rows\n"
      "  prefetch     sparse-dist with rows prefetched into a cache\n"
      "  staged       one batch further ahead per stage; --input-stages is\n"
      "               copy,dist or copy,prepare,dist\n"
      "or a program's file, as --export writes it.\n"
      "\n"
      "Examples:\n"
      "  pipesim feed --model dlrm-dcnv2 --cluster dgx-a100 --ranks 8 --batches 16\n"
      "      --batch-size 4096\n"
      "  pipesim feed --model dlrm-dcnv2 --cluster dgx-a100 --ranks 8 --batches 16\n"
      "      --sharding auto --compare");
  command.set_work([flags] { run(*flags); });
}

}  // namespace pipesim::cli
