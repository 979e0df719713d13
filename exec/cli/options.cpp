#include "exec/cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/cli/parse_number.h"
#include "exec/cli/place.h"
#include "exec/device/devices.h"
#include "exec/model/layer.h"
#include "exec/run/recorder.h"
#include "sim/cost/estimate/direct_exchange.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/cost/layout.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/receives.h"
#include "sim/schedule/remedy.h"
#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"
#include "traces/command/outputs.h"
#include "traces/print/layout_picture.h"

namespace pipesim::exec {
namespace {

bool parse_reduce(const Flag& flag, int replicas, std::vector<std::string>& notes) {
  if (!flag) return false;
  if (*flag != "ordered" && *flag != "library") {
    throw input_error(
        fmt::format("--reduce: {}", unknown_name("reduction", *flag, {"ordered", "library"})));
  }
  if (replicas == 1) {
    notes.emplace_back("--reduce has no effect: there is one replica");
    return false;
  }
  return *flag == "library";
}

Attention attention_of(const Flag& flag, const std::string& device, const Model& model) {
  const bool on_gpu = names_a_gpu(device);
  if (!flag) return on_gpu ? Attention::fused : Attention::unfused;
  if (model.architecture == Architecture::mlp) {
    throw input_error(fmt::format("--attention: {} has none; omit the flag", quote(model.name)));
  }
  const Attention attention = parse_attention(*flag);
  if (attention == Attention::unfused && on_gpu) {
    throw input_error(fmt::format(
        "--attention unfused: device {} never keeps scores; omit it, or give fused", device));
  }
  return attention;
}

Number parse_precision(const Flag& flag, const std::string& device) {
  if (!flag || *flag == precision_name(Number::float32)) return Number::float32;
  const std::string_view bf16 = precision_name(Number::bfloat16);
  if (*flag != bf16) {
    throw input_error(
        fmt::format("--precision: {}", unknown_name("precision", *flag, {"fp32", "bf16"})));
  }
  if (!names_a_gpu(device)) {
    throw input_error(fmt::format(
        "--precision {}: device {} computes in fp32 alone; give a GPU by --device", bf16, device));
  }
  return Number::bfloat16;
}

bool parse_overlap(const Flag& flag, int tensor_parallel, std::vector<std::string>& notes) {
  if (!flag) return true;
  if (tensor_parallel == 1) {
    notes.emplace_back("--tensor-overlap has no effect: there is one tensor-parallel rank");
  }
  if (*flag == "on" || *flag == "off") return *flag == "on";
  throw input_error(
      fmt::format("--tensor-overlap: unknown value {}; known: on, off", quote(*flag)));
}

// Refuses a training that does not fit into this machine, which all ranks share. GPUs report a lack
// of their memory when allocating.
void check_fits(const TrainingJob& training, bool on_gpus) {
  const Schedule& program = training.program;
  const Model& model = training.model;
  const auto batch = static_cast<double>(training.micro_batch_size);
  const auto sequence = static_cast<double>(training.sequence_length);
  const double passing = batch * sequence * static_cast<double>(model.hidden_size);
  const auto microbatches = static_cast<double>(program.microbatches);
  const int shards = training.tensor_parallel;
  struct Kept {
    double whole = 0;  // of a stage, for one F
    double held = 0;   // from F on
    double again = 0;  // during a backward, for a layer
  };
  std::vector<Kept> kept(static_cast<std::size_t>(program.stages()));
  double of_all_layers = 0;
  for (int stage = 0; stage < program.stages(); ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    int blocks = 0;
    for (int i = 0; i < training.layout[at]; ++i) {
      const int layer = training.first_layer(stage) + i;
      const double own =
          kept_numbers(model, batch, sequence, layer, training.attention, {}, shards);
      const bool is_block = !model.is_embedding(layer) && !model.is_head(layer);
      double held = own;
      double again = 0;
      const Recompute& recompute = training.recompute;
      if (recompute.full && is_block && recompute.blocks > 0 && blocks >= recompute.blocks) {
        // Kept: a later block of the stage.
      } else if (recompute.full) {
        if (is_block) held = passing;
        again = own;
      } else if (is_block) {
        held = kept_numbers(model, batch, sequence, layer, training.attention, training.recompute,
                            shards);
        again = own - held;
      }
      if (is_block) ++blocks;
      kept[at].whole += own;
      kept[at].held += held;
      kept[at].again = std::max(kept[at].again, again);
    }
    of_all_layers += kept[at].whole;
  }
  const double replicas = training.data_parallel;
  const double pipelines = training.pipelines();
  // Tokens, targets, losses.
  double numbers = (2 + training.most_passes()) * batch * sequence * microbatches;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    double now = 0;
    double most = 0;
    for (const Action& action : program.actions[rank]) {
      if (!is_compute(action.kind)) continue;
      const auto& [whole, held, again] = kept[static_cast<std::size_t>(action.stage)];
      if (action.kind == Kind::F) now += held;
      most = std::max(most, now + again);
      if (action.kind == Kind::I) now += whole - held;  // until W
      if (action.kind == Kind::W) now -= whole;
      if (action.kind == Kind::B) now -= held;
    }
    numbers += most;
  }
  // Weights, gradients, two moments; a tied matrix at both ends.
  double states = 4 * static_cast<double>(model.parameters());
  if (model.tied_head) {
    states += 4 * static_cast<double>(model.vocabulary_size * model.hidden_size);
  }
  // Per replica; sharding of states is ignored.
  numbers = pipelines * numbers + replicas * states;
  // The reference of a verification keeps everything, and has its own weights.
  if (training.verify)
    numbers += states + pipelines * training.most_passes() * microbatches * of_all_layers;

  if (on_gpus) numbers = 0;

  // Every rank's program and text, and its recordings.
  const auto actions = static_cast<double>(program.actions.size());
  const double every_rank = 40 * actions + static_cast<double>(training.text.bytes().size());
  double written = actions * 2 * sizeof(Span);
  if (training.record_details) {
    const double layers = 4 * microbatches * model.layers();
    written += actions * 2 * sizeof(MemorySample) + layers * sizeof(LayerSpan);
  }
  check_memory(fmt::format("model {} on {}, {} of {} x {} tokens, {}", quote(model.name),
                           plural(program.ranks(), "rank"),
                           plural(program.microbatches, "microbatch"), training.micro_batch_size,
                           training.sequence_length, plural(training.iterations, "iteration")),
               numbers * sizeof(float) + pipelines * (every_rank * program.ranks() + 100 * actions +
                                                      written * training.iterations));
}

// The schedule as a program that every transport here can run: neither sends nor receives, which
// are posted, block later actions. An action may wait for others of its own rank.
Schedule program_of(const Schedule& schedule) {
  for (const auto& [action, awaited] : schedule.dependencies) {
    const int rank = schedule.placement.rank_of(action);
    const int other = schedule.placement.rank_of(awaited);
    if (rank == other) continue;
    throw input_error(fmt::format(
        "{}: {} on rank {} is to wait for {} on rank {}, of which no message tells it; remove "
        "that line",
        schedule.name, to_text(action), rank, to_text(awaited), other));
  }
  if (!schedule.has_transfers() && schedule.dependencies.empty()) return lower(schedule);
  Schedule program = schedule.has_transfers() ? schedule : lower(schedule);
  if (const auto cycle = find_posted_deadlock(program)) {
    throw input_error(fmt::format("{}: {}", schedule.name, *cycle));
  }
  return program;
}

void set_faults(const Flags& flags, TrainingJob& training) {
  if (!flags.faults) return;
  for (const std::string_view fault : split(*flags.faults, ',')) {
    training.faults.add(fault, training.program);
  }
}

// Sets up a real training, for devices that compute.
void set_model(const Flags& flags, TrainingJob& training, std::vector<std::string>& notes) {
  for (const auto& [flag, name] : {std::pair(&flags.costs, "--costs"), {&flags.pace, "--pace"}}) {
    if (*flag) throw input_error(fmt::format("{}: only --device emulated has costs", name));
  }
  training.model = find_model(flags.model.value_or("gpt-mini"), &notes);
  check_trainable(training.model, "--model");
  std::optional<std::vector<int>> layout;
  if (flags.layout) {
    Layout given = parse_layout(*flags.layout);
    check_letters(given, training.model);
    layout = std::move(given.layers);
  }
  training.layout = resolve_layout(layout, training.model.layers(), training.program.stages(),
                                   fmt::format("--model {}", training.model.name));
  if (flags.micro_batch_size) {
    training.micro_batch_size = parse_count(*flags.micro_batch_size, "--micro-batch-size");
  }
  training.sequence_length = std::min(training.sequence_length, training.model.max_sequence_length);
  if (flags.sequence_length) {
    training.sequence_length = parse_count(*flags.sequence_length, "--sequence-length");
  }
  if (training.sequence_length > training.model.max_sequence_length) {
    throw input_error(fmt::format("--sequence-length {}: model {} takes at most {}",
                                  training.sequence_length, quote(training.model.name),
                                  training.model.max_sequence_length));
  }
  check_shards(training.replicas(), training.model, nullptr);
  if (flags.seed) training.seed = parse_seed(*flags.seed);
  if (flags.learning_rate) training.learning_rate = parse_learning_rate(*flags.learning_rate);
  if (flags.recompute) training.recompute = parse_recompute(*flags.recompute);
  check_recompute(training.recompute, training.model);
  const Recompute& again = training.recompute;
  if (again.products || again.latent || again.mlp || again.shared || again.experts) {
    throw input_error(fmt::format(
        "--recompute {}: products and whole modules are computed again in predictions only; give "
        "attention, norms and activation",
        recompute_name(again)));
  }
  const std::string device = flags.device.value_or("cpu");
  training.attention = attention_of(flags.attention, device, training.model);
  training.precision = parse_precision(flags.precision, device);
  set_faults(flags, training);
  if (flags.faults && device != "cpu") {
    throw input_error(fmt::format(
        "--faults: only --device emulated and cpu take them; device {} does not", device));
  }
  if (const std::string shorter = training.faults.shortening(); !shorter.empty()) {
    throw input_error(fmt::format(
        "--faults {}: a training can't be sped up; give a factor from x1 on", quote(shorter)));
  }
  if (flags.data) training.text = Text::read(*flags.data);
  training.text.check(training.sequence_length, training.model.vocabulary_size);
  training.verify = flags.verify;
  check_fits(training, names_a_gpu(device));
}

// The flags for replicas and shards that both programs have, without those that have no effect.
Training split_of(const Flags& flags, std::vector<std::string>* notes = nullptr) {
  Training asked;
  read_replicas(flags.replicas, asked);
  check_replicas(asked);
  if (flags.tensor_parallel) {
    asked.tensor_parallel = parse_count(*flags.tensor_parallel, "--tensor-parallel");
  }
  asked.sequence_parallel = flags.sequence_parallel;
  std::vector<std::string> dropped = drop_without_effect(asked);
  if (notes != nullptr) *notes = std::move(dropped);
  return asked;
}

// Sets the exchanges of replicas on an emulated device.
void set_exchanges(const Flags& flags, TrainingJob& training) {
  if (training.pace == EmulationPace::anchored) {
    throw input_error(
        "--pace anchored: exchanges between replicas take time that costs do not give; omit it "
        "out, or --data-parallel");
  }
  Costs& costs = *training.costs;
  check_parameters_known(costs, flags.costs.value_or("the usual costs"));
  Training asked = split_of(flags);
  split_states(asked, costs);
  costs.reduce_gradients_ns.clear();  // sums are part of the exchange
  double numbers = 0;
  for (StageCosts& stage : costs.stages) {
    std::int64_t own = 0;
    for (const std::int64_t layer : stage.parameters) own += layer;
    if (asked.zero == 3) {
      stage.unsharded_bytes = own * costs.replicas.value_or(ReplicaCosts()).weight_bytes;
    }
    numbers += static_cast<double>(own);
  }
  const double arrays = asked.zero > 0 ? 2 : 1;
  check_memory(fmt::format("what {} exchange", plural(asked.data_parallel, "replica")),
               arrays * numbers * sizeof(float) * asked.data_parallel);
}

// Sets the costs for an emulated device.
void set_costs(const Flags& flags, Task& task) {
  TrainingJob& training = task.training;
  const std::pair<const Flag*, std::string_view> meaningless[] = {
      {&flags.model, "--model"},
      {&flags.data, "--data"},
      {&flags.micro_batch_size, "--micro-batch-size"},
      {&flags.sequence_length, "--sequence-length"},
      {&flags.seed, "--seed"},
      {&flags.learning_rate, "--learning-rate"},
      {&flags.recompute, "--recompute"},
      {&flags.attention, "--attention"},
      {&flags.precision, "--precision"},
      {&flags.tensor_overlap, "--tensor-overlap"},
      {&flags.global_batch, "--global-batch"}};
  for (const auto& [flag, name] : meaningless) {
    if (*flag) throw input_error(fmt::format("{}: an emulated device trains nothing", name));
  }
  if (flags.tensor_parallel || flags.sequence_parallel) {
    throw input_error(fmt::format(
        "--{}-parallel: costs of an emulated device are those of a rank, its shard included; leave "
        "it out",
        flags.tensor_parallel ? "tensor" : "sequence"));
  }
  if (flags.verify) throw input_error("--verify: an emulated device has no results to compare");
  if (flags.checkpoints.any()) {
    throw input_error("--checkpoint: an emulated device has nothing to save");
  }
  if (flags.pace) {
    if (*flags.pace == pace_name(EmulationPace::anchored)) {
      training.pace = EmulationPace::anchored;
    } else if (*flags.pace != pace_name(EmulationPace::wall)) {
      throw input_error(
          fmt::format("--pace: {}", unknown_name("pace", *flags.pace, {"wall", "anchored"})));
    }
  }
  const Placement& placement = training.program.placement;
  std::optional<std::vector<int>> layout;
  if (flags.layout) layout = parse_layout(*flags.layout).layers;
  if (flags.costs) {
    const CostsFile file = read_costs(*flags.costs);
    training.costs = file.resolve(placement, layout);
    if (const auto layers = static_cast<int>(file.layers.size()); layers > 0) {
      task.emulated_layers = resolve_layout(layout, layers, placement.stages(), file.name);
    }
  } else if (layout) {
    throw input_error("--layout: needs costs by layer; give --costs with a file of them");
  } else {
    training.costs.emplace().stages.assign(static_cast<std::size_t>(placement.stages()),
                                           usual_stage_costs());
  }
  set_faults(flags, training);
  training.costs->check(placement, training.program.microbatches,
                        flags.costs.value_or("the usual costs"));
  for (const StageCosts& stage : training.costs->stages) {
    if (!stage.unshard.exists() && !stage.reduce.exists()) continue;
    throw input_error(fmt::format(
        "{}: what an emulated device exchanges with replicas follows from `parameters` and "
        "`replicas`; omit unshard and reduce",
        *flags.costs));
  }
  if (training.data_parallel > 1) set_exchanges(flags, training);
}

}  // namespace

void add_all_flags(CommandLine& program, Flags& flags) {
  program.add_flags(
      "Schedule",
      {{"--schedule", &flags.schedule.schedule, "NAME|FILE",
        "a name (`pipesim schedules` lists them) or file", schedule_names},
       {"--microbatches", &flags.schedule.microbatches, "M", "microbatches per iteration"},
       {"--stages", &flags.schedule.stages, "P", "pipeline ranks; default: those of MPI"},
       {"--virtual-stages", &flags.schedule.virtual_stages, "V",
        "chunks per rank; default 1, looped and V: 2"},
       {"--group", &flags.schedule.group, "G", "microbatches per group of interleaved; default P"},
       {"--overlap-experts", &flags.schedule.overlap_experts,
        "adds a warm-up forward to interleaved"},
       {"--placement", &flags.schedule.placement, "loop|v|LIST",
        "loop, v or each stage's rank; default loop or v"}});
  program.add_flags("Shards", {{"--tensor-parallel", &flags.tensor_parallel, "T",
                                "ranks that share each layer; default 1"},
                               {"--sequence-parallel", &flags.sequence_parallel,
                                "shards norms and dropout by tokens over T ranks"},
                               {"--tensor-overlap", &flags.tensor_overlap, "on|off",
                                "sums overlap weight gradients; default on"}});
  program.add_flags("Replicas", {{"--data-parallel", &flags.replicas.data_parallel, "D",
                                  "replicas of the pipeline; default 1"},
                                 {"--global-batch", &flags.global_batch, "N",
                                  "sequences per iteration, instead of --microbatches"},
                                 {"--zero", &flags.replicas.zero, "0|1|2|3",
                                  "shards optimizer, gradients, weights"},
                                 {"--shard-over", &flags.replicas.shard_over, "N",
                                  "shards within groups of N replicas; default all"},
                                 {"--gather", &flags.replicas.gather, "window|pass|once",
                                  "how long gathered weights stay; see below"},
                                 {"--bucket-bytes", &flags.replicas.bucket_bytes, "BYTES|off",
                                  "reduces gradients as buckets fill; default off"},
                                 {"--reduce", &flags.reduce, "ordered|library",
                                  "gradient sums by pipeexec, or by MPI or NCCL"}});
  program.add_flags(
      "Training",
      {{"--model", &flags.model, "NAME|FILE.json",
        "a gpt, llama or mlp, or a file; default gpt-mini", all_model_names},
       {"--layout", &flags.layout, "3,2,2,3", "layers per virtual stage; default: evenly"},
       {"--data", &flags.data, "FILE", "any text, as bytes; default: a built-in primer"},
       {"--micro-batch-size", &flags.micro_batch_size, "B", "sequences per microbatch; default 4"},
       {"--sequence-length", &flags.sequence_length, "S", "tokens per sequence; default 64"},
       {"--iterations", &flags.iterations, "N", "measured iterations; default 10"},
       {"--warmup", &flags.warmup, "N", "unmeasured iterations first; default 2"},
       {"--accumulate", &flags.accumulate, "K", "optimizer step every K iterations; default 1"},
       {"--seed", &flags.seed, "N", "seed of weights, samples, dropout; default 1"},
       {"--learning-rate", &flags.learning_rate, "X", "AdamW's learning rate; default 0.001"},
       {"--recompute", &flags.recompute, "none|full|full:N|LIST",
        "attention, norms, activation; see below",
        [] {
          return std::vector<std::string>{"selective", "attention", "norms", "activation"};
        }},
       {"--attention", &flags.attention, "unfused|fused", "keeps scores or not; GPUs never do"},
       {"--precision", &flags.precision, "fp32|bf16",
        "of activations and GEMM inputs; default fp32"}});
  add_checkpoint_flags(program, flags.checkpoints);
  add_input_flags(program, flags.input);
  program.add_flags(
      "Machine",
      {{"--device", &flags.device, "NAME", "device to compute on; default cpu",
        [] {
          return std::vector<std::string>{"cpu", "emulated", "cuda", "hip"};
        }},
       {"--costs", &flags.costs, "FILE.json", "an emulated device's times; default as pipesim's"},
       {"--pace", &flags.pace, "wall|anchored", "clock of emulated actions; default wall"},
       {"--faults", &flags.faults, "WHAT,...", "deliberate disturbances; see below"},
       {"--transport", &flags.transport, "NAME", "mpi, tcp, local, nccl or rccl; see below",
        [] {
          return std::vector<std::string>{"mpi", "tcp", "local", "nccl", "rccl"};
        }},
       {"--eager-limit", &flags.eager_limit, "BYTES",
        "larger sends wait for their receiver; 0: all do"},
       {"--timeout", &flags.timeout, "T", "longest wait of a rank; 0s: forever; default 300s"},
       {"--list-devices", &flags.list_devices, "lists devices and transports"}});
  program.add_flags(
      "Ranks",
      {{"--rank", &flags.rank, "R", "this process's rank, from 0, if started by hand"},
       {"--ranks", &flags.ranks, "P", "number of ranks; or an input pipeline's threads"},
       {"--master", &flags.master, "HOST:PORT", "where rank 0 of --transport tcp listens"},
       {"--token", &flags.token, "TEXT", "keeps out all but this job's ranks; see below"},
       {"--list-ranks", &flags.list_ranks, "lists ranks, hosts and devices; trains nothing"}});
  program.add_flags("Output",
                    {{"--trace", &flags.trace, "FILE.json[.gz]",
                      "writes the measured timeline as a Chrome trace"},
                     FlagHelp("--layout-picture", &flags.layout_picture, "[FILE.svg]",
                              "draws the layout, then trains; printed or as SVG")
                         .or_alone(LayoutOutput::printed),
                     {"--verify", &flags.verify, "compares losses and gradients with one rank's"},
                     {"--json", &flags.json, "prints the result as one JSON object"},
                     {"--quiet", &flags.quiet, "prints no report"}});
}

void check_files(const Flags& flags) {
  const Flag none;
  const Flag& schedule = flags.schedule.schedule;
  const Flag& program = flags.input.pipeline;
  const bool draws = flags.layout_picture && *flags.layout_picture != LayoutOutput::printed;
  check_outputs(
      {{"--schedule", schedule && names_a_file(*schedule) ? schedule : none},
       {"--input-pipeline", program && names_input_program_file(*program) ? program : none},
       {"--model", flags.model},
       {"--layout", flags.layout},
       {"--sharding", flags.input.sharding},
       {"--costs", flags.costs},
       {"--data", flags.data},
       {"--trace", flags.trace, true},
       {"--layout-picture", draws ? flags.layout_picture : none, true}});
}

std::string transport_of(const Flags& flags, const std::optional<Launch>& launch) {
  if (flags.transport) return *flags.transport;
  if (!launch) return "local";
  return launch->launcher == "torchrun" ? "tcp" : "mpi";
}

Ranks choose_ranks(const Flags& flags, const std::optional<Launch>& launch) {
  Ranks ranks;
  if (flags.eager_limit) {
    ranks.eager_limit_bytes = parse_bytes(*flags.eager_limit, "--eager-limit");
  }
  ranks.patience_ns = parse_time_ns(flags.timeout.value_or("300s"), "--timeout");
  const std::string name = transport_of(flags, launch);
  const auto found = find_transport(name);
  if (!found || !found->left_out.empty()) {
    std::vector<std::string> there;
    for (const TransportInfo& transport : known_transports()) {
      if (transport.left_out.empty()) there.push_back(transport.name);
    }
    if (!found) {
      throw input_error(
          fmt::format("--transport: {}", unknown_name("transport", name, std::move(there))));
    }
    throw input_error(fmt::format("--transport {}: {}; there is: {}", name, found->left_out,
                                  fmt::join(there, ", ")));
  }
  ranks.transport = name;
  ranks.linked = links_devices(name);
  ranks.by_mpi = name == "mpi" || ranks.linked;
  if (ranks.linked) {
    check_linked(name, flags.device.value_or("cpu"));
    if (flags.eager_limit) {
      throw input_error(fmt::format(
          "--eager-limit: sends over {} wait for their receivers anyway; omit it", name));
    }
  }
  ranks.tcp = find_place(flags, launch, name);
  if (ranks.by_mpi || ranks.tcp) return ranks;
  if (launch && launch->ranks > 1) {
    throw input_error(fmt::format(
        "--transport local: ranks are threads of one process, but a launcher has started {}; "
        "start pipeexec by itself, with --{} P",
        plural(launch->ranks, "process", "processes"), flags.input.pipeline ? "ranks" : "stages"));
  }
  if (flags.input.pipeline) {
    ranks.count = count_input_ranks(flags);
    return ranks;
  }
  int stages = 0;
  if (flags.schedule.stages) {
    stages = parse_count(*flags.schedule.stages, "--stages");
  } else if (flags.schedule.schedule && names_a_file(*flags.schedule.schedule)) {
    stages = choose_schedule(flags.schedule, {}).schedule.ranks();
  } else {
    throw input_error(
        "--stages is missing: give the number of ranks, or start them with mpirun -n P pipeexec");
  }
  constexpr int most = 1024;
  const std::int64_t count = split_of(flags).mesh(stages).ranks();
  if (count > most) {
    const auto factor = [](std::string_view of, const Flag& flag) {
      return flag ? fmt::format(" x {} {}", of, *flag) : "";
    };
    throw input_error(fmt::format("--stages {}{}{}: at most {} threads", stages,
                                  factor("--tensor-parallel", flags.tensor_parallel),
                                  factor("--data-parallel", flags.replicas.data_parallel), most));
  }
  ranks.count = static_cast<int>(count);
  return ranks;
}

Mesh mesh_of(const Flags& flags, int ranks) {
  const Training asked = split_of(flags);
  const int replicas = asked.data_parallel;
  const int shards = asked.tensor_parallel;
  const std::int64_t each = asked.mesh(1).ranks();
  if (ranks % each != 0) {
    if (shards == 1) {
      throw input_error(
          fmt::format("--data-parallel {}: {} can't be divided among {}; start a multiple of {}",
                      replicas, plural(ranks, "rank"), plural(replicas, "replica"), replicas));
    }
    throw input_error(fmt::format(
        "--tensor-parallel {}{}: {} can't be divided among them; start a multiple of {}", shards,
        replicas > 1 ? fmt::format(", --data-parallel {}", replicas) : "", plural(ranks, "rank"),
        each));
  }
  return asked.mesh(static_cast<int>(ranks / each));
}

// For a schedule with second copies of its stages, which are replicas of the first.
void check_copies(const Schedule& schedule, const TrainingJob& training) {
  if (schedule.placement.copies() == 1) return;
  const auto listed = std::ranges::find_if(schedule.actions.all(), is_of_replicas, &Action::kind);
  if (listed != schedule.actions.all().end()) {
    throw input_error(
        fmt::format("{}: {}: copies of stages sum their gradients after all else; omit it",
                    schedule.name, to_text(*listed)));
  }
  if (training.data_parallel > 1) {
    throw input_error(
        fmt::format("--data-parallel {}: {} trains two copies, which are replicas of each other; "
                    "more of them are only predicted; omit it",
                    training.data_parallel, schedule.name));
  }
}

Task make_task(const Flags& flags, int ranks) {
  Task task;
  TrainingJob& training = task.training;
  const Training asked = split_of(flags, &task.notes);
  const int replicas = asked.data_parallel;
  ScheduleFlags schedule = flags.schedule;
  if (flags.global_batch) {
    if (schedule.microbatches) {
      throw input_error("--global-batch: --microbatches says the same; omit one of them");
    }
    if (flags.micro_batch_size) {
      training.micro_batch_size = parse_count(*flags.micro_batch_size, "--micro-batch-size");
    }
    schedule.microbatches =
        microbatches_of(*flags.global_batch, replicas, training.micro_batch_size);
  }
  const bool is_file = schedule.schedule && names_a_file(*schedule.schedule);
  if (!schedule.stages && !is_file) {
    schedule.stages = std::to_string(mesh_of(flags, ranks).size(Axis::pipeline));
  }
  const ScheduleChoice choice = choose_schedule(schedule, {});
  if (choice.family != nullptr) check_runs(*choice.family, choice.shape, choice.schedule);
  task.title = title_of(choice);
  const std::int64_t needed = asked.mesh(choice.schedule.ranks()).ranks();
  if (needed != ranks) {
    std::string split;
    if (asked.tensor_parallel > 1) {
      split = fmt::format(" for {} tensor-parallel ranks", asked.tensor_parallel);
    }
    if (replicas > 1) {
      split += fmt::format("{} {} replicas", split.empty() ? " for" : " of", replicas);
    }
    throw input_error(
        fmt::format("{} needs {}{}, but {}; start as many, as with mpirun -n {}, or give "
                    "--transport local",
                    task.title, plural(needed, "rank"), split,
                    ranks == 1 ? "there is 1" : fmt::format("there are {}", ranks), needed));
  }
  training.program = program_of(with_replicas(choice.schedule, asked));
  training.data_parallel = replicas;
  training.zero = asked.zero;
  training.shard_over = asked.shard_over;
  training.gather = asked.gather;
  training.bucket_bytes = asked.bucket_bytes;
  training.tensor_parallel = asked.tensor_parallel;
  training.sequence_parallel = asked.sequence_parallel;
  training.tensor_overlap = parse_overlap(flags.tensor_overlap, asked.tensor_parallel, task.notes);
  training.library_sums = parse_reduce(flags.reduce, replicas, task.notes);
  training.iterations =
      flags.iterations ? parse_count(*flags.iterations, "--iterations") : training.iterations;
  if (flags.warmup) {
    training.warmup = parse_number(*flags.warmup, "--warmup", 0, static_cast<int>(max_count),
                                   "a whole number from 0");
  }
  if (flags.accumulate) training.accumulate = parse_count(*flags.accumulate, "--accumulate");
  training.record_details = flags.trace.has_value();
  training.saves = read_saves(flags.checkpoints);
  training.resume = read_resume(flags.checkpoints);
  check_copies(training.program, training);
  if (flags.device == emulated_device) {
    set_costs(flags, task);
  } else {
    set_model(flags, training, task.notes);
  }
  return task;
}

}  // namespace pipesim::exec
