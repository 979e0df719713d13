#include "sim/cli/input_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

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

std::vector<FlagHelp> own_flags(InputPipelineFlags& flags) {
  return {{"--ranks", &flags.ranks, "N", "ranks of the input pipeline; default 8"},
          {"--batches", &flags.batches, "N", "batches per rank; default 16"},
          {"--batch-size", &flags.batch_size, "N", "samples per batch of a rank; default 4096"},
          {"--input-stages", &flags.stages, "LIST", "stages of staged; default copy,dist"},
          {"--sharding", &flags.sharding, "FILE|auto",
           "placement of tables; default whole tables by size"},
          {"--table-optimizer", &flags.table_optimizer, "NAME",
           "sgd or adagrad (row-wise); default sgd", known_table_optimizers},
          {"--id-seed", &flags.seed, "N", "seed of which rows are popular; default 0"},
          {"--compare", &flags.compare, "compares all input pipelines"}};
}

InputTraining training_of(const InputPipelineFlags& flags, const SharedFlags& shared) {
  if (!shared.cluster) {
    throw input_error(
        "--cluster is missing: what the model runs on; `pipesim clusters` lists them");
  }
  InputTraining training;
  training.model = read_recommendation_model(*shared.model);
  training.cluster = find_cluster(*shared.cluster);
  training.batch_size =
      flags.batch_size ? parse_count(*flags.batch_size, "--batch-size") : default_batch_size;
  if (flags.sharding) training.sharding = *flags.sharding;
  if (flags.table_optimizer) {
    training.optimizer = parse_table_optimizer(*flags.table_optimizer, "--table-optimizer");
  }
  if (flags.seed) training.software.seed = parse_seed(*flags.seed, "--id-seed");
  return training;
}

InputRequest request_of(const InputPipelineFlags& flags, const SharedFlags& shared) {
  InputRequest request;
  InputProgramRequest& program = request.program;
  program.name = flags.input_pipeline.value_or("sparse-dist");
  const bool from_file = names_input_program_file(program.name);
  // A file's program has its own ranks and batches.
  program.batches = from_file ? 0 : default_batches;
  program.ranks = from_file ? 0 : 8;
  if (flags.ranks) program.ranks = parse_count(*flags.ranks, "--ranks");
  if (flags.batches) program.batches = parse_count(*flags.batches, "--batches");
  if (shared.accumulate) {
    if (from_file) throw input_error("--accumulate: the program's file sets it");
    program.accumulate = parse_count(*shared.accumulate, "--accumulate");
  }
  if (flags.stages) {
    if (program.name != "staged" && !flags.compare) {
      throw input_error("--input-stages: only --input-pipeline staged takes stages");
    }
    program.stages = parse_input_stages(*flags.stages, "--input-stages");
  }
  if (shared.memory_cap) {
    request.memory_cap_bytes = parse_bytes(*shared.memory_cap, "--memory-cap");
  }
  if (shared.costs) {
    if (shared.model)
      throw input_error("--model and --costs both give the times of actions; keep one");
    for (const auto& [name, flag] :
         {std::pair<std::string_view, const Flag&>{"--cluster", shared.cluster},
          {"--batch-size", flags.batch_size},
          {"--sharding", flags.sharding},
          {"--table-optimizer", flags.table_optimizer},
          {"--id-seed", flags.seed}}) {
      if (flag) throw input_error(fmt::format("{}: it has no effect with --costs", name));
    }
    request.costs = read_input_costs(*shared.costs);
    if (shared.memory_cap && request.costs->holdings.empty()) {
      throw input_error(fmt::format(
          "--memory-cap: {} has no holdings, which give each rank's memory; add them, or omit it",
          *shared.costs));
    }
    if (!flags.ranks && !from_file) program.ranks = request.costs->ranks();
    return request;
  }
  if (!shared.model) {
    throw input_error(
        "--model is missing: dlrm-mini, dlrm-dcnv2 or a file; or give --costs with each "
        "action's time");
  }
  request.training = training_of(flags, shared);
  return request;
}

// Refuses flags of schedules, which would have no effect.
void refuse_others(const CommandLine& program) {
  const std::string other = program.first_given(
      {"--input-pipeline", "--ranks", "--batches", "--batch-size", "--input-stages", "--sharding",
       "--table-optimizer", "--id-seed", "--compare", "--model", "--cluster", "--costs",
       "--accumulate", "--memory-cap", "--trace", "--figure", "--export", "--json", "--quiet"});
  if (!other.empty()) {
    throw input_error(fmt::format(
        "{}: it does not apply to an input pipeline; omit it or --input-pipeline", other));
  }
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

void compare_all(const InputRequest& request, const SharedFlags& shared) {
  if (shared.trace || shared.export_file || shared.figure) {
    throw input_error(fmt::format("{}: --compare writes no file; omit one of them",
                                  shared.trace    ? "--trace"
                                  : shared.figure ? "--figure"
                                                  : "--export"));
  }
  if (names_input_program_file(request.program.name)) {
    throw input_error("--compare takes input pipelines by name, not a file");
  }
  const std::vector<InputPrediction> all = predict_all_inputs(request);
  if (shared.json) {
    print(input_programs_json(request, all));
  } else if (!shared.quiet) {
    print(input_programs_report(request, all, standard_output()));
  }
}

}  // namespace

void add_input_pipeline_flags(CommandLine& program, InputPipelineFlags& flags) {
  std::vector<FlagHelp> all{{"--input-pipeline", &flags.input_pipeline, "NAME|FILE",
                             "such as sparse-dist; see below for all", input_family_names}};
  for (FlagHelp& flag : own_flags(flags)) all.push_back(std::move(flag));
  program.add_flags("An overlapped input pipeline, instead of a schedule", all);
}

std::string first_input_flag(InputPipelineFlags flags) { return first_given(own_flags(flags)); }

void predict_input_pipeline(const InputPipelineFlags& flags, const SharedFlags& shared,
                            const CommandLine& program) {
  refuse_others(program);
  const Flag& name = flags.input_pipeline;
  check_outputs(
      {{"--input-pipeline", name && names_input_program_file(*name) ? name : Flag()},
       {"--model", file_of(shared.model)},
       {"--cluster", file_of(shared.cluster)},
       {"--costs", shared.costs},
       {"--sharding", flags.sharding && *flags.sharding != "auto" ? flags.sharding : Flag()},
       {"--trace", shared.trace, true},
       {"--figure", shared.figure, true},
       {"--export", shared.export_file, true}});
  const InputRequest request = request_of(flags, shared);
  std::optional<Progress> progress(std::in_place);
  progress->show("simulating");
  if (flags.compare) {
    compare_all(request, shared);
    return;
  }
  std::optional<OutputFile> trace, exported;
  if (shared.trace) trace.emplace(*shared.trace, shared.trace->ends_with(".gz"));
  if (shared.export_file) exported.emplace(*shared.export_file);
  FigureFile figure(shared.figure);
  const InputPrediction prediction = predict_input(request);
  refuse_lack(request, prediction);
  if (trace) write_input_trace(prediction.run, *trace);
  if (exported) exported->write(to_text(prediction.run.program));
  if (figure.is_wanted()) figure.write({{"", {panel_of(prediction.run)}, ""}});
  if (trace) trace->commit();
  if (exported) exported->commit();
  if (shared.quiet && !shared.json) return;
  const std::vector<InputLimit> limits = find_input_limits(prediction.run.program, prediction.costs,
                                                           prediction.metrics.steady_iteration_ns);
  progress.reset();
  if (shared.json) {
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

}  // namespace pipesim::cli
