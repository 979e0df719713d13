#include "sim/cli/model_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <span>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

template <typename Value>
using Named = std::pair<std::string_view, Value>;

template <typename Value>
Value choose(const std::string& text, std::string_view flag, std::span<const Named<Value>> known) {
  std::vector<std::string> names;
  for (const auto& [name, value] : known) {
    if (text == name) return value;
    names.emplace_back(name);
  }
  throw input_error(
      fmt::format("{}: unknown value {}; known: {}", flag, quote(text), fmt::join(names, ", ")));
}

constexpr std::array switches{Named<bool>{"on", true}, Named<bool>{"off", false}};
constexpr std::array narrow_weights{Named<bool>{"bf16", true}};
constexpr std::array gradient_sizes{Named<std::int64_t>{"2", 2}, Named<std::int64_t>{"4", 4}};

double parse_factor(const std::string& text, std::string_view flag) {
  constexpr double least = 0.01;
  constexpr double most = 100;
  if (const auto value = number_between(text, least, most)) return *value;
  throw input_error(
      fmt::format("{}: {} is not a factor between {} and {}; give a number such as 0.9", flag,
                  quote(text), least, most));
}

double parse_part(const std::string& text, std::string_view flag) {
  if (const auto value = number_between(text, 0, 1)) return *value;
  throw input_error(
      fmt::format("{}: {} is neither on, reductions, off nor a part between 0 and 1, of exchanges "
                  "that their own GEMMs hide; give one such as 0.8",
                  flag, quote(text)));
}

// Published GPTs kept the matrix of scores, later models did not, and no software that names its
// library of attention.
Attention usual_attention(const Model& model, const SoftwareSpec& software) {
  const bool keeps_scores = model.architecture == Architecture::gpt && !software.kernels;
  return keeps_scores ? Attention::unfused : Attention::fused;
}

[[noreturn]] void refuse_missing(std::string_view what, const std::vector<std::string>& known) {
  throw input_error(fmt::format("{}; known: {}; or give a file that ends in .json", what,
                                fmt::join(known, ", ")));
}

// How context-parallel ranks and experts exchange what they need.
void read_exchanges(const ModelFlags& flags, const Model& model, Training& training,
                    std::vector<std::string>& notes) {
  training.context_exchange = usual_context_exchange(model, training.sequence_length);
  if (flags.context_parallel_type) {
    training.context_exchange = parse_context_exchange(*flags.context_parallel_type);
    if (training.context_parallel == 1 && !flags.is_open) {
      notes.push_back("--context-parallel-type has no effect: there is one context-parallel rank");
    }
  }
  for (const auto& [flag, name] : {std::pair(&flags.expert_dispatch, "--expert-dispatch"),
                                   {&flags.expert_load, "--expert-load"},
                                   {&flags.expert_capacity, "--expert-capacity"}}) {
    if (!*flag) continue;
    if (!model.has_experts()) {
      throw input_error(fmt::format("{} {}: {} has no experts; omit it", name, quote(**flag),
                                    printable(model.name)));
    }
    const bool is_alone = training.expert_parallel == 1 && flag != &flags.expert_capacity;
    if (is_alone && !flags.is_open) {
      notes.push_back(fmt::format("{} has no effect: every rank has all experts", name));
    }
  }
  if (flags.expert_dispatch) training.dispatch = parse_dispatch(*flags.expert_dispatch);
  if (flags.expert_load) training.expert_load = parse_expert_load(*flags.expert_load);
  if (flags.expert_capacity) {
    training.expert_capacity = parse_factor(*flags.expert_capacity, "--expert-capacity");
  }
}

}  // namespace

std::vector<std::string> attention_names() { return {"fused", "unfused"}; }
std::vector<std::string> context_exchange_names() { return {"ring", "gather", "a2a"}; }
std::vector<std::string> dispatch_names() { return {"alltoall", "allgather", "deduplicated"}; }
std::vector<std::string> recompute_names() {
  return {"selective", "attention", "norms",  "activation", "products",
          "latent",    "mlp",       "shared", "experts"};
}

std::vector<FlagHelp> all_model_flags(ModelFlags& flags) {
  std::vector<FlagHelp> all{
      {"--model", &flags.model, "NAME|FILE.json", "model to train; `pipesim models` lists them",
       model_names},
      {"--cluster", &flags.cluster, "NAME|FILE.json",
       "cluster to train on; `pipesim clusters` lists them", known_clusters},
      {"--software", &flags.software, "NAME|FILE.json", "trainer; `pipesim software` lists them",
       known_software},
      {"--micro-batch-size", &flags.micro_batch_size, "B", "sequences per microbatch; default 1"},
      {"--sequence-length", &flags.sequence_length, "S",
       "tokens per sequence; default the model's longest"},
      {"--tensor-parallel", &flags.tensor_parallel, "T", "ranks that share each layer; default 1"},
      {"--context-parallel", &flags.context_parallel, "C",
       "ranks that share each sequence; default 1"},
      {"--expert-parallel", &flags.expert_parallel, "E", "ranks that share out experts; default 1"},
      {"--expert-tensor-parallel", &flags.expert_tensor_parallel, "T",
       "ranks that share each expert; default T"},
      {"--data-parallel", &flags.replicas.data_parallel, "D",
       "replicas of the pipeline; default 1"},
      {"--global-batch", &flags.global_batch, "N",
       "sequences per step of all replicas; replaces M"},
      {"--devices", &flags.devices, "N", "total devices; sets D to N / (stages x T x C)"},
      {"--sequence-parallel", &flags.sequence_parallel,
       "shards norms and dropout by tokens over T ranks"},
      {"--recompute", &flags.recompute, "none|full|full:N|LIST",
       "parts of blocks to compute again; see below", recompute_names},
      {"--attention", &flags.attention, "HOW", "fused or unfused; default by model and software",
       attention_names},
      {"--precision", &flags.precision, "NAME", "bf16, fp16, fp32, tf32 or fp8; default bf16",
       all_precision_names},
      {"--zero", &flags.replicas.zero, "0|1|2|3", "shards optimizer, gradients, weights"},
      {"--shard-over", &flags.replicas.shard_over, "N",
       "shards within groups of N replicas; default all"},
      {"--gather", &flags.replicas.gather, "window|pass|once",
       "how long gathered weights stay; see below"},
      {"--bucket-bytes", &flags.replicas.bucket_bytes, "BYTES|off",
       "bucket of gradients; off: reduced at the end"},
      {"--overlap-gather", &flags.overlap_gather, "on|off",
       "--zero 1, 2: gathers weights during forwards"}};
  std::ranges::move(option_flags(flags), std::back_inserter(all));
  return all;
}

std::vector<FlagHelp> option_flags(ModelFlags& flags) {
  return {{"--context-parallel-type", &flags.context_parallel_type, "ring|gather|a2a",
           "how C ranks attend to all; default by model", context_exchange_names},
          {"--expert-dispatch", &flags.expert_dispatch, "HOW",
           "alltoall, allgather, deduplicated; see below", dispatch_names},
          {"--expert-load", &flags.expert_load, "X|zipf:S|FILE",
           "fullest rank's tokens, or of what spread"},
          {"--expert-capacity", &flags.expert_capacity, "X",
           "tokens of an expert before it drops; default all"},
          {"--weights", &flags.weights, "bf16", "no autocast; with --software pytorch"},
          {"--gradient-bytes", &flags.gradient_bytes, "2|4",
           "per gradient element; default as the weights"},
          {"--optimizer-bytes", &flags.optimizer_bytes, "N",
           "of states per parameter; default 12 (8 of fp32)"},
          {"--tensor-overlap", &flags.tensor_overlap, "HOW",
           "on, reductions, off or a PART hidden; default on"},
          {"--fused-loss", &flags.fused_loss, "cross-entropy in one kernel each way"},
          {"--separate-sums", &flags.separate_sums, "sums weight gradients after their GEMMs"},
          {"--software-factor", &flags.software_factor, "X",
           "scales GEMM rates; default the software's"}};
}

void add_model_flags(CommandLine& command, ModelFlags& flags) {
  command.add_flags("Costs from a model on a cluster, instead of those below",
                    all_model_flags(flags));
}

std::string first_model_flag(const ModelFlags& flags) {
  ModelFlags none;
  none.notes = flags.notes;
  if (flags == none) return {};  // making their list takes longer than a small prediction
  ModelFlags given = flags;
  return first_given(all_model_flags(given));
}

void tell(const ModelFlags& flags, const std::vector<std::string>& notes) {
  if (flags.is_row) return;
  if (flags.notes != nullptr) {
    flags.notes->insert(flags.notes->end(), notes.begin(), notes.end());
    return;
  }
  for (const std::string& note : notes) complain(fmt::format("pipesim: note: {}\n", note));
}

TrainingRequest training_request(const ModelFlags& flags) {
  if (!flags.model && !flags.cluster) {
    throw input_error(
        fmt::format("{} belongs to --model and --cluster; give both", first_model_flag(flags)));
  }
  if (!flags.model) {
    throw input_error(
        "--model is missing: what is trained on the --cluster; `pipesim models` lists those known "
        "by name; or give a file that ends in .json");
  }
  if (!flags.cluster) {
    refuse_missing("--cluster is missing: what the --model is trained on", known_clusters());
  }
  TrainingRequest request;
  std::vector<std::string> notes;
  const Model& model = request.model =
      flags.own_model ? *flags.own_model : find_model(*flags.model, &notes);
  request.cluster = find_cluster(*flags.cluster);
  if (flags.software) {
    DeviceSpec& device = request.cluster.device;
    device.software = find_software(*flags.software, device.kind);
  }
  Training& training = request.training;
  const auto count = [](const Flag& flag, std::string_view name, auto& value) {
    if (flag) value = parse_count(*flag, name);
  };
  if (model.is_listed() && flags.sequence_length) {
    throw input_error(fmt::format(
        "--sequence-length: the layers of {} are given for one sequence length; omit it",
        model.name));
  }
  training.sequence_length = model.is_listed() ? 1 : model.max_sequence_length;
  count(flags.micro_batch_size, "--micro-batch-size", training.micro_batch_size);
  count(flags.sequence_length, "--sequence-length", training.sequence_length);
  count(flags.tensor_parallel, "--tensor-parallel", training.tensor_parallel);
  count(flags.context_parallel, "--context-parallel", training.context_parallel);
  count(flags.expert_parallel, "--expert-parallel", training.expert_parallel);
  if (flags.expert_tensor_parallel) {
    training.expert_tensor_parallel =
        parse_count(*flags.expert_tensor_parallel, "--expert-tensor-parallel");
  }
  read_exchanges(flags, model, training, notes);
  read_replicas(flags.replicas, training);
  request.has_replicas = flags.replicas.data_parallel.has_value();
  request.has_buckets = flags.replicas.bucket_bytes.has_value();
  if (flags.overlap_gather) {
    request.gathers_ahead = choose<bool>(*flags.overlap_gather, "--overlap-gather", switches);
    if (training.zero != 1 && training.zero != 2) {
      notes.push_back(
          "--overlap-gather has no effect: only --zero 1 and 2 gather weights after a step");
    }
  }
  if (flags.devices) request.devices = parse_count(*flags.devices, "--devices");
  training.sequence_parallel = flags.sequence_parallel;
  training.attention = usual_attention(model, request.cluster.device.software);
  if (flags.recompute) training.recompute = parse_recompute(*flags.recompute);
  if (flags.attention) {
    if (!model.is_decoder()) {
      throw input_error(fmt::format("--attention: {} has none; omit the flag", quote(model.name)));
    }
    training.attention = parse_attention(*flags.attention);
  }
  if (flags.precision) training.precision = parse_precision(*flags.precision, "--precision");
  if (flags.weights) {
    choose<bool>(*flags.weights, "--weights", narrow_weights);
    if (training.precision != Precision::bf16) {
      throw input_error(fmt::format("--weights bf16: needs --precision bf16, not {}",
                                    precision_name(training.precision)));
    }
    SoftwareSpec& software = request.cluster.device.software;
    software = with_bf16_weights(std::move(software));
  }
  training.gradient_bytes = bytes_of(training.precision);
  if (flags.gradient_bytes) {
    training.gradient_bytes =
        choose<std::int64_t>(*flags.gradient_bytes, "--gradient-bytes", gradient_sizes);
  }
  if (flags.tensor_overlap) {
    if (training.tensor_parallel == 1 && !flags.is_open) {
      notes.push_back("--tensor-overlap has no effect: there is one tensor-parallel rank");
    }
    if (*flags.tensor_overlap == "on" || *flags.tensor_overlap == "off") {
      training.asynchronous_reduction = *flags.tensor_overlap == "on";
    } else if (*flags.tensor_overlap == "reductions") {
      training.hidden_exchange = 0;
    } else {
      training.hidden_exchange = parse_part(*flags.tensor_overlap, "--tensor-overlap");
    }
  }
  if (flags.optimizer_bytes) {
    constexpr int most = static_cast<int>(max_state_bytes);
    const int bytes = parse_count(*flags.optimizer_bytes, "--optimizer-bytes");
    if (bytes > most) {
      throw input_error(
          fmt::format("--optimizer-bytes {}: more than {} per parameter", bytes, most));
    }
    training.optimizer_bytes = bytes;
  }
  training.fused_loss = flags.fused_loss;
  training.fused_sums = !flags.separate_sums;
  if (flags.software_factor) {
    training.software_factor = parse_factor(*flags.software_factor, "--software-factor");
  }
  request.check();
  if (!request.devices) {  // else replicas are not known yet
    Training known = training;
    check_replicas(known);
    std::ranges::move(drop_without_effect(known), std::back_inserter(notes));
  }
  tell(flags, notes);
  return request;
}

}  // namespace pipesim::cli
