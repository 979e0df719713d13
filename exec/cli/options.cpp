#include "exec/cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "exec/run/recorder.h"
#include "sim/cost/layout.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

template <typename T>
T parse_number(std::string_view text, std::string_view name, T least, T most,
               std::string_view meaning) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most)) {
    throw input_error(fmt::format("{}: {} is not {}", name, quote(text), meaning));
  }
  return value;
}

bool parse_recompute(const Flag& flag) {
  if (!flag || *flag == "none") return false;
  if (*flag == "full") return true;
  throw input_error(
      fmt::format("--recompute: {}", unknown_name("recomputation", *flag, {"none", "full"})));
}

// How many numbers a layer keeps from F to its backward, as exec/model has it.
double kept_numbers(const Training& training, int layer) {
  const Model& model = training.model;
  const auto rows = static_cast<double>(training.rows());
  const auto hidden = static_cast<double>(model.hidden_size);
  if (model.is_embedding(layer)) return 0;
  if (model.is_head(layer)) return rows * (2 * hidden + static_cast<double>(model.vocabulary_size));
  if (model.architecture == Architecture::mlp) return rows * 2 * hidden;
  const double scores =
      static_cast<double>(model.heads) * static_cast<double>(training.sequence_length);
  return rows * (8 * hidden + 2 * static_cast<double>(model.mlp_size) + scores);
}

// Refuses what would not fit into this machine, which all ranks share.
void check_fits(const Training& training) {
  const Schedule& program = training.program;
  double chunk = 0;  // what the largest stage keeps of a microbatch
  for (int stage = 0; stage < program.stages(); ++stage) {
    double numbers = 0;
    const int first = training.first_layer(stage);
    for (int i = 0; i < training.layout[static_cast<std::size_t>(stage)]; ++i) {
      numbers += kept_numbers(training, first + i);
    }
    chunk = std::max(chunk, numbers);
  }
  const double passing =
      static_cast<double>(training.rows()) * static_cast<double>(training.model.hidden_size);
  double activations = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    std::int64_t now = 0;
    std::int64_t most = 0;
    for (const Action& action : program.actions[rank]) {
      if (action.kind == Kind::F) most = std::max(most, ++now);
      if (is_backward(action.kind)) --now;
    }
    const auto alive = static_cast<double>(most);
    activations += alive * passing + (training.recompute ? 1 : alive) * chunk;
  }
  const auto microbatches = static_cast<double>(program.microbatches);
  // The reference of a verification keeps everything, and has weights of its own.
  if (training.verify) activations += static_cast<double>(program.stages()) * microbatches * chunk;
  // Weights, gradients, two moments.
  const double states =
      static_cast<double>(training.model.parameters()) * (training.verify ? 8 : 4);
  const double tokens = 3 * static_cast<double>(training.rows()) * microbatches;
  const double numbers = states + activations + tokens;
  // What is written down of each action, on its rank and then on rank 0.
  const double records = static_cast<double>(program.actions.size()) *
                         (training.record_details ? 600 : 2 * sizeof(ActionRecord)) *
                         training.iterations;
  check_memory(fmt::format("model {} on {}, {} of {} x {} tokens, {}", quote(training.model.name),
                           plural(program.ranks(), "rank"),
                           plural(program.microbatches, "microbatch"), training.micro_batch_size,
                           training.sequence_length, plural(training.iterations, "iteration")),
               numbers * sizeof(float) + records +
                   static_cast<double>(training.text.bytes().size()) * program.ranks());
}

// The schedule as a program that every transport here can run: sends never
// hold up what stands behind them.
Schedule program_of(const Schedule& schedule) {
  if (!schedule.has_transfers()) return lower(schedule);
  if (find_deadlock(schedule, ::pipesim::Transport::buffered)) throw_deadlock(schedule);
  return schedule;
}

}  // namespace

void add_all_flags(CLI::App& app, Flags& flags) {
  add_flags(
      app, "Schedule",
      {{"--schedule", &flags.schedule.schedule, "NAME|FILE.csv",
        "a name (`pipesim schedules` lists them) or file"},
       {"--microbatches", &flags.schedule.microbatches, "M", "microbatches an iteration"},
       {"--stages", &flags.schedule.stages, "P", "pipeline ranks; default: those of MPI"},
       {"--virtual-stages", &flags.schedule.virtual_stages, "V",
        "chunks a rank; default 1, looped schedules 2"},
       {"--group", &flags.schedule.group, "G", "microbatches a group of interleaved; default P"},
       {"--placement", &flags.schedule.placement, "loop|v|LIST",
        "loop, v or each stage's rank; default loop"}});
  add_flags(
      app, "Training",
      {{"--model", &flags.model, "NAME|FILE.json",
        "gpt-mini (default), mlp-mini, gpt2-small or a file"},
       {"--layout", &flags.layout, "3,2,2,3", "layers a virtual stage; default: evenly"},
       {"--data", &flags.data, "FILE", "any text, by bytes; default: a built-in primer"},
       {"--micro-batch-size", &flags.micro_batch_size, "B", "sequences a microbatch; default 4"},
       {"--sequence-length", &flags.sequence_length, "S", "tokens a sequence; default 64"},
       {"--iterations", &flags.iterations, "N", "measured iterations; default 10"},
       {"--warmup", &flags.warmup, "N", "iterations before, not measured; default 2"},
       {"--seed", &flags.seed, "N", "of weights, samples and dropout; default 1"},
       {"--learning-rate", &flags.learning_rate, "X", "of AdamW; default 0.001"},
       {"--recompute", &flags.recompute, "none|full",
        "forwards once more in backwards; default none"}});
  add_flags(
      app, "Machine",
      {{"--device", &flags.device, "NAME", "what computes; default cpu"},
       {"--transport", &flags.transport, "mpi|local", "processes of MPI, or threads; see below"},
       {"--eager-limit", &flags.eager_limit, "BYTES",
        "from here on sends wait for receivers; 0: all"}});
  app.add_flag("--list-devices", flags.list_devices, "lists devices and transports")
      ->group("Machine")
      ->disable_flag_override();
  add_flags(
      app, "Output",
      {{"--trace", &flags.trace, "FILE.json[.gz]", "writes what was measured as a Chrome trace"}});
  const auto add = [&](const char* name, bool& value, const char* help) {
    app.add_flag(name, value, help)->group("Output")->disable_flag_override();
  };
  add("--verify", flags.verify, "compares losses and gradients with one rank's");
  add("--json", flags.json, "prints the result as one JSON object");
  add("--quiet", flags.quiet, "prints no report");
}

Ranks choose_ranks(const Flags& flags, const std::optional<Launch>& launch) {
  Ranks ranks;
  if (flags.eager_limit) {
    ranks.eager_limit_bytes = parse_bytes(*flags.eager_limit, "--eager-limit");
  }
  const std::string name = flags.transport.value_or(launch ? "mpi" : "local");
  const auto known = known_transports();
  const auto found = std::ranges::find(known, name, &TransportInfo::name);
  if (found == known.end() || !found->left_out.empty()) {
    std::vector<std::string> there;
    for (const TransportInfo& transport : known) {
      if (transport.left_out.empty()) there.push_back(transport.name);
    }
    if (found == known.end()) {
      throw input_error(
          fmt::format("--transport: {}", unknown_name("transport", name, std::move(there))));
    }
    throw input_error(fmt::format("--transport {}: {}; there is: {}", name, found->left_out,
                                  fmt::join(there, ", ")));
  }
  ranks.by_mpi = name == "mpi";
  if (ranks.by_mpi) return ranks;
  if (launch && launch->ranks > 1) {
    throw input_error(fmt::format(
        "--transport local: ranks are threads of one process, but a launcher has started {}; "
        "start pipeexec by itself, with --stages P",
        plural(launch->ranks, "process", "processes")));
  }
  if (flags.schedule.stages) {
    ranks.count = parse_count(*flags.schedule.stages, "--stages");
  } else if (flags.schedule.schedule && names_a_file(*flags.schedule.schedule)) {
    ranks.count = choose_schedule(flags.schedule, {}).schedule.ranks();
  } else {
    throw input_error(
        "--stages is missing: give the number of ranks, or start them with mpirun -n P pipeexec");
  }
  constexpr int most = 1024;
  if (ranks.count > most) {
    throw input_error(fmt::format("--stages {}: at most {} threads", ranks.count, most));
  }
  return ranks;
}

Task make_task(const Flags& flags, int ranks) {
  Task task;
  Training& training = task.training;
  const auto count = [](const Flag& flag, std::string_view name, auto fallback) {
    return flag ? parse_count(*flag, name) : static_cast<int>(fallback);
  };
  ScheduleFlags schedule = flags.schedule;
  const bool is_file = schedule.schedule && names_a_file(*schedule.schedule);
  if (!schedule.stages && !is_file) schedule.stages = std::to_string(ranks);
  const ScheduleChoice choice = choose_schedule(schedule, {});
  task.title = choice.family != nullptr ? std::string(choice.family->title)
                                        : printable(choice.schedule.name);
  if (choice.schedule.ranks() != ranks) {
    throw input_error(fmt::format(
        "{} needs {}, but {}; start it with mpirun -n {}, or with "
        "--transport local",
        task.title, plural(choice.schedule.ranks(), "rank"),
        ranks == 1 ? "there is 1" : fmt::format("there are {}", ranks), choice.schedule.ranks()));
  }
  training.program = program_of(choice.schedule);

  training.model = find_model(flags.model.value_or("gpt-mini"));
  std::optional<std::vector<int>> layout;
  if (flags.layout) layout = parse_layout(*flags.layout);
  training.layout = resolve_layout(layout, training.model.layers(), training.program.stages(),
                                   fmt::format("--model {}", training.model.name));
  training.micro_batch_size =
      count(flags.micro_batch_size, "--micro-batch-size", training.micro_batch_size);
  training.sequence_length =
      count(flags.sequence_length, "--sequence-length",
            std::min(training.sequence_length, training.model.max_sequence_length));
  if (training.sequence_length > training.model.max_sequence_length) {
    throw input_error(fmt::format("--sequence-length {}: model {} takes at most {}",
                                  training.sequence_length, quote(training.model.name),
                                  training.model.max_sequence_length));
  }
  training.iterations = count(flags.iterations, "--iterations", training.iterations);
  if (flags.warmup) {
    training.warmup = parse_number(*flags.warmup, "--warmup", 0, static_cast<int>(max_count),
                                   "a whole number from 0");
  }
  if (flags.seed) {
    training.seed = parse_number<std::uint64_t>(*flags.seed, "--seed", 0, UINT64_MAX,
                                                "a whole number from 0 below 2^64");
  }
  if (flags.learning_rate) {
    training.learning_rate = parse_number(*flags.learning_rate, "--learning-rate", 0.0F, 1e6F,
                                          "a number such as 0.001 or 3e-4");
  }
  training.recompute = parse_recompute(flags.recompute);
  if (flags.data) training.text = Text::read(*flags.data);
  training.text.check(training.sequence_length, training.model.vocabulary_size);
  training.record_details = flags.trace.has_value();
  training.verify = flags.verify;
  check_fits(training);
  return task;
}

}  // namespace pipesim::exec
