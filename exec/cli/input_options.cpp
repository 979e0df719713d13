#include "exec/cli/input_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/cli/options.h"
#include "exec/cli/parse_number.h"
#include "exec/device/devices.h"
#include "sim/input_pipeline/input_families.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr int usual_batches = 16;
constexpr std::int64_t usual_batch_size = 256;
constexpr int max_threaded_ranks = 1024;

// Without --input-pipeline itself and --ranks, which other commands have, too.
std::vector<FlagHelp> own_input_flags(InputFlags& flags) {
  return {{"--batches", &flags.batches, "N", "batches per rank; default 16, all of --data"},
          {"--batch-size", &flags.batch_size, "N", "samples per batch of a rank; default 256"},
          {"--input-stages", &flags.stages, "LIST", "stages of staged; default copy,dist"},
          {"--sharding", &flags.sharding, "FILE|default",
           "placement of tables; default whole tables by size"},
          {"--table-optimizer", &flags.table_optimizer, "NAME",
           "sgd or adagrad (row-wise); default sgd", known_table_optimizers},
          {"--epochs", &flags.epochs, "N", "passes over the same batches; default 1"},
          {"--evaluate", &flags.evaluate, "N", "further batches, evaluated after each epoch"}};
}

void refuse_given(const std::vector<std::pair<const Flag*, std::string_view>>& flags,
                  std::string_view why) {
  for (const auto& [flag, name] : flags) {
    if (*flag) throw input_error(fmt::format("{}: {}", name, why));
  }
}

InputProgram program_of(const Flags& flags, int ranks, int batches) {
  InputProgramRequest request;
  request.name = *flags.input.pipeline;
  request.ranks = ranks;
  request.batches = batches;
  if (flags.accumulate) {
    if (names_input_program_file(request.name)) {
      throw input_error("--accumulate: the program's file sets it");
    }
    request.accumulate = parse_count(*flags.accumulate, "--accumulate");
  }
  if (flags.input.stages) {
    if (request.name != "staged") {
      throw input_error("--input-stages: only --input-pipeline staged takes stages");
    }
    request.stages = parse_input_stages(*flags.input.stages, "--input-stages");
  }
  return choose_input_program(request);
}

// The requested batches; 0 if the program's file has them.
int asked_batches(const Flags& flags) {
  if (flags.input.batches) return parse_count(*flags.input.batches, "--batches");
  return names_input_program_file(*flags.input.pipeline) ? 0 : usual_batches;
}

InputJob emulated_job(const Flags& flags, int ranks) {
  const InputFlags& own = flags.input;
  refuse_given({{&flags.model, "--model"},
                {&flags.data, "--data"},
                {&flags.seed, "--seed"},
                {&flags.learning_rate, "--learning-rate"},
                {&own.batch_size, "--batch-size"},
                {&own.sharding, "--sharding"},
                {&own.table_optimizer, "--table-optimizer"},
                {&own.epochs, "--epochs"},
                {&own.evaluate, "--evaluate"}},
               "an emulated device trains nothing");
  if (flags.verify) throw input_error("--verify: an emulated device has no results to compare");
  if (flags.checkpoints.any()) {
    throw input_error("--checkpoint: an emulated device has nothing to save");
  }
  if (!flags.costs) {
    throw input_error("--costs is missing: a file of what each action takes on --device emulated");
  }
  InputJob job;
  job.costs = read_input_costs(*flags.costs);
  if (job.costs->ranks() != ranks) {
    throw input_error(fmt::format("{}: costs of {}, but {} of them; start as many", *flags.costs,
                                  plural(job.costs->ranks(), "rank"),
                                  ranks == 1 ? "there is 1" : fmt::format("there are {}", ranks)));
  }
  job.program = program_of(flags, ranks, asked_batches(flags));
  check_costs(job.program, *job.costs);
  return job;
}

ShardingPlan plan_of(const Flags& flags, const RecommendationModel& model, int ranks) {
  const Flag& asked = flags.input.sharding;
  if (!asked || *asked == "default") return default_sharding(model, ranks);
  if (*asked == "auto") {
    throw input_error(
        "--sharding auto: pipesim chooses it, and prints it with --json; give that as a file");
  }
  // Plans that need the nodes of a simulated cluster are refused later.
  return read_sharding_plan(*asked, model, ranks, ranks);
}

// By default all batches of a finite source that are not for evaluation.
int batches_of(const Flags& flags, const InputJob& job) {
  const RecommendationTraining& training = *job.training;
  std::int64_t batches = asked_batches(flags);
  if (!flags.input.batches && !names_input_program_file(*flags.input.pipeline)) {
    const BatchShare share = share_of(*job.source, training.batch_size, training.ranks);
    batches = std::clamp<std::int64_t>(share.batches - job.evaluate, 1, max_count);
  }
  return static_cast<int>(batches);
}

InputJob training_job(const Flags& flags, int ranks) {
  refuse_given({{&flags.costs, "--costs"}}, "only --device emulated has costs");
  const InputFlags& own = flags.input;
  InputJob job;
  RecommendationTraining& training = job.training.emplace();
  training.model = read_recommendation_model(flags.model.value_or("dlrm-mini"));
  training.plan = plan_of(flags, training.model, ranks);
  training.ranks = ranks;
  training.batch_size =
      own.batch_size ? parse_count(*own.batch_size, "--batch-size") : usual_batch_size;
  training.seed = flags.seed ? parse_seed(*flags.seed) : 1;
  if (flags.learning_rate) {
    training.learning_rate = training.table_learning_rate =
        parse_learning_rate(*flags.learning_rate);
  }
  if (own.table_optimizer) {
    training.table_optimizer = parse_table_optimizer(*own.table_optimizer, "--table-optimizer");
  }
  check_executable(training);
  if (own.epochs) job.epochs = parse_count(*own.epochs, "--epochs");
  if (own.evaluate) job.evaluate = parse_count(*own.evaluate, "--evaluate");
  job.verify = flags.verify;
  job.source = flags.data ? read_batches(*flags.data, training.model)
                          : make_batch_generator(training.model, training.seed);
  const int batches = job.source->samples() ? batches_of(flags, job) : asked_batches(flags);
  job.program = program_of(flags, ranks, batches);
  check_batches(*job.source, job.program.batches + job.evaluate, training.batch_size, ranks);
  training.accumulate = job.program.accumulate;
  job.resume = read_resume(flags.checkpoints);
  job.saves = read_saves(flags.checkpoints);
  if (names_input_program_file(*flags.input.pipeline)) return job;
  job.cut = [flags, ranks](int fewer) { return program_of(flags, ranks, fewer); };
  if (!job.saves || job.saves->every % training.accumulate == 0) return job;
  if (flags.checkpoints.every) {
    throw input_error(
        fmt::format("--checkpoint-every {}: the dense part steps after {} batches; give a multiple",
                    job.saves->every, training.accumulate));
  }
  job.saves->every = (job.saves->every / training.accumulate + 1) * training.accumulate;
  return job;
}

}  // namespace

void add_input_flags(CommandLine& program, InputFlags& flags) {
  std::vector<FlagHelp> all{{"--input-pipeline", &flags.pipeline, "NAME|FILE",
                             "sparse-dist or another; see below", input_family_names}};
  for (FlagHelp& flag : own_input_flags(flags)) all.push_back(std::move(flag));
  program.add_flags("An overlapped input pipeline, instead of a schedule", all);
}

void check_input_flags(const CommandLine& program, const Flags& flags) {
  if (!flags.input.pipeline) {
    InputFlags own = flags.input;
    if (const std::string stray = first_given(own_input_flags(own)); !stray.empty()) {
      throw input_error(fmt::format("{}: goes with --input-pipeline, which is missing", stray));
    }
    return;
  }
  const std::string other = program.first_given({"--input-pipeline", "--batches",
                                                 "--batch-size",     "--input-stages",
                                                 "--sharding",       "--table-optimizer",
                                                 "--epochs",         "--evaluate",
                                                 "--model",          "--data",
                                                 "--accumulate",     "--seed",
                                                 "--learning-rate",  "--device",
                                                 "--costs",          "--transport",
                                                 "--eager-limit",    "--timeout",
                                                 "--rank",           "--ranks",
                                                 "--master",         "--list-devices",
                                                 "--trace",          "--verify",
                                                 "--json",           "--quiet",
                                                 "--checkpoint",     "--checkpoint-every",
                                                 "--keep",           "--async-checkpoint",
                                                 "--resume",         "--token"});
  if (!other.empty()) {
    throw input_error(fmt::format(
        "{}: it does not apply to an input pipeline; omit it or --input-pipeline", other));
  }
}

int count_input_ranks(const Flags& flags) {
  int ranks = 0;
  if (flags.ranks) {
    ranks = parse_count(*flags.ranks, "--ranks");
  } else if (names_input_program_file(*flags.input.pipeline)) {
    ranks = read_input_program(*flags.input.pipeline).ranks();
  } else {
    throw input_error(
        "--ranks is missing: give the number of ranks, or start them with mpirun -n P pipeexec");
  }
  if (ranks > max_threaded_ranks) {
    throw input_error(fmt::format("--ranks {}: at most {} threads", ranks, max_threaded_ranks));
  }
  return ranks;
}

InputJob make_input_job(const Flags& flags, int ranks) {
  const std::string device = flags.device.value_or("cpu");
  if (device == emulated_device) return emulated_job(flags, ranks);
  if (device != "cpu") {
    throw input_error(
        fmt::format("--device: input pipelines run on cpu and emulated, not on {}", quote(device)));
  }
  return training_job(flags, ranks);
}

}  // namespace pipesim::exec
