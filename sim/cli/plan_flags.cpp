#include "sim/cli/plan_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "sim/cli/limits_report.h"
#include "sim/plan/trainer.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

// An axis as a flag of its own, which gives it one value.
struct AxisHelp {
  const char* name;
  const char* type;
  const char* help;
};

constexpr AxisHelp axes_help[plan_axis_count] = {
    {"schedule", "NAME", "see `pipesim schedules`"},
    {"stages", "P", "pipeline ranks"},
    {"virtual-stages", "V", "chunks per rank"},
    {"tensor-parallel", "T", "ranks that share each layer"},
    {"context-parallel", "C", "ranks that share each sequence"},
    {"expert-parallel", "E", "ranks that share out experts"},
    {"expert-tensor-parallel", "T", "ranks that share each expert"},
    {"data-parallel", "D", "replicas of the pipeline"},
    {"micro-batch-size", "B", "sequences per microbatch"},
    {"sequence-parallel", "on|off", "shards norms and dropout by tokens over T ranks"},
    {"recompute", "none|full|LIST", "parts of blocks to compute again"},
    {"zero", "0|1|2|3", "shards optimizer, gradients, weights"},
    {"shard-over", "all|node", "shards over all replicas, or those of a node"},
    {"gather", "window|pass|once", "how long gathered weights stay"},
    {"bucket-bytes", "BYTES|off", "bucket of gradients; off: reduced at the end"},
    {"overlap-gather", "on|off", "--zero 1, 2: gathers weights during forwards"}};

const std::string& value_of(const Flag& flag, std::string_view name, std::string_view what) {
  if (!flag) throw input_error(fmt::format("{} is missing: {}", name, what));
  return *flag;
}

// Keeps one value of an axis, as a flag of pipesim has it. `flag`: as narrow() takes it.
void keep_value(PlanSpace& space, std::string_view axis, std::string value, std::string_view flag) {
  if (axis == "recompute") {
    std::ranges::replace(value, ',', '+');
    if (value == "attention") value = "selective";
  } else if (value.find(',') != std::string::npos) {
    throw input_error(fmt::format("{}{}--{} {}: several values; give --only for these", flag,
                                  flag.empty() ? "" : ": ", axis, value));
  }
  // As many as a node has, with so many tensor-parallel ranks.
  const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
  if (axis == "shard-over" && is_number && !value.empty()) {
    const int per_node = space.question().training.cluster.devices_per_node;
    const int replicas = parse_count(value, "--shard-over");
    if (per_node % replicas != 0) {
      throw input_error(fmt::format(
          "--shard-over {}: plans shard over all replicas, or those of a node, which has {}; give "
          "all or node",
          value, plural(per_node, "device")));
    }
    space.narrow(fmt::format("tensor-parallel={}", per_node / replicas), flag);
    value = "node";
  }
  space.narrow(fmt::format("{}={}", axis, value), flag);
}

}  // namespace

Flag& axis_flag(PlanFlags& flags, std::string_view axis) {
  const auto* const found = std::ranges::find(axes_help, axis, &AxisHelp::name);
  return flags.axes[static_cast<std::size_t>(found - axes_help)];
}

std::vector<FlagHelp> question_flags(PlanFlags& flags) {
  ModelFlags& model = flags.model;
  std::vector<FlagHelp> all{
      {"--model", &model.model, "NAME|FILE.json", "model to train", model_names},
      {"--cluster", &model.cluster, "NAME|FILE.json", "cluster to train on", known_clusters},
      {"--software", &model.software, "NAME|FILE.json", "trainer", known_software},
      {"--devices", &model.devices, "N|A,B|A..Z", "devices, all used; A..Z means A, 2A, 4A, ... Z"},
      {"--global-batch", &model.global_batch, "N", "sequences per step, exactly"},
      {"--sequence-length", &model.sequence_length, "S",
       "tokens per sequence; default the model's longest"},
      {"--attention", &model.attention, "HOW", "fused or unfused; default by model and software",
       attention_names},
      {"--precision", &model.precision, "NAME", "as of predict; default bf16",
       all_precision_names}};
  std::ranges::move(option_flags(model), std::back_inserter(all));
  return all;
}

std::vector<std::string> given_flags(PlanFlags flags, int devices) {
  flags.model.devices = std::to_string(devices);
  std::vector<std::string> given;
  for (const FlagHelp& one : question_flags(flags)) {
    if (const auto* value = std::get_if<Flag*>(&one.value)) {
      if (**value) given.push_back(one.name + " " + shell_word(***value));
    } else if (**std::get_if<bool*>(&one.value)) {
      given.push_back(one.name);
    }
  }
  return given;
}

std::vector<int> numbers_of_devices(const Flag& flag) {
  const std::string& text = value_of(flag, "--devices", "the number of devices to train on");
  std::vector<int> counts;
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    for (const std::string_view one : split(text, ',')) {
      counts.push_back(parse_count(one, "--devices"));
    }
  } else {
    const std::string_view ends = text;
    const int first = parse_count(ends.substr(0, dots), "--devices");
    const int last = parse_count(ends.substr(dots + 2), "--devices");
    if (first > last) {
      throw input_error(
          fmt::format("--devices {}: ends before it begins; give {}..{}", text, last, first));
    }
    for (std::int64_t one = first; one < last; one *= 2) counts.push_back(static_cast<int>(one));
    counts.push_back(last);
  }
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

PlanObjective objective_of(const Flag& flag) {
  if (!flag || *flag == "time") return PlanObjective::time;
  if (*flag == "memory") return PlanObjective::memory;
  if (*flag == "devices") return PlanObjective::devices;
  throw input_error(
      fmt::format("--objective: unknown {}; give time, memory or devices", quote(*flag)));
}

PlanQuestion question_of(const PlanFlags& flags) {
  PlanQuestion question;
  question.global_batch =
      parse_count(value_of(flags.model.global_batch, "--global-batch", "sequences per iteration"),
                  "--global-batch");
  ModelFlags model = flags.model;
  model.is_open = true;
  model.devices.reset();
  model.global_batch.reset();
  question.training = training_request(model);
  return question;
}

PlanSpace space_of(const PlanFlags& flags, PlanQuestion question, int devices,
                   const PlanTrainer* trainer) {
  question.devices = devices;
  PlanSpace space(std::move(question));
  for (const auto& [flag, value] : flags.allowed) space.allow(flag.substr(2), value);
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    if (!flags.axes[i]) continue;
    keep_value(space, axes_help[i].name, *flags.axes[i], "");
  }
  for (const std::string& only : flags.only) space.narrow(only);
  for (const std::string& fix : flags.fix) {
    if (fix.find(',') != std::string::npos) {
      throw input_error(fmt::format("--fix {}: several values; give --only for these", fix));
    }
    space.narrow(fix, "--fix");
  }
  if (trainer != nullptr) space.restrict_to(*trainer);
  return space;
}

int threads_of(const Flag& flag) {
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  constexpr int most = 4;  // of each processor: more would only wait
  return flag ? std::min(most * processors, parse_count(*flag, "--threads")) : processors;
}

void check_export_flags(const PlanFlags& flags) {
  if (flags.output && !flags.export_format) {
    throw input_error("--output: a folder for what --export writes; give that, too");
  }
  if (!flags.export_format) return;
  if (flags.why || flags.csv || flags.json) {
    throw input_error("--export: replaces the report; omit --why, --csv and --json");
  }
}

FlagValues flag_values(const std::string& text, std::string_view where) {
  FlagValues values;
  std::vector<std::string_view> words = split(text, ' ');
  std::erase(words, "");
  if (!words.empty() && words.front() == "pipesim") words.erase(words.begin());
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      throw input_error(
          fmt::format("{}: {} is not a flag; give a layout as pipesim takes it, "
                      "like \"--schedule 1f1b --stages 8 --tensor-parallel 4\"",
                      where, quote(std::string(words[i]))));
    }
    const std::string name(words[i]);
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
    std::string_view value = has_value ? words[++i] : "on";
    if (value.size() > 1 && value.front() == '\'' && value.back() == '\'') {
      value = value.substr(1, value.size() - 2);
    }
    values[name] = value;
  }
  return values;
}

void take_question(FlagValues& values, PlanFlags& flags, std::string_view where) {
  for (const FlagHelp& one : question_flags(flags)) {
    const auto found = values.find(one.name);
    if (found == values.end()) continue;
    if (const auto* text = std::get_if<Flag*>(&one.value)) {
      if (**text && ***text != found->second) {
        throw input_error(fmt::format("{}: {} {} is not the plan's {}; give one of them", where,
                                      one.name, found->second, ***text));
      }
      **text = found->second;
    } else {
      **std::get_if<bool*>(&one.value) = true;
    }
    values.erase(found);
  }
}

PlanPoint point_of(PlanSpace space, FlagValues values, std::string_view where) {
  for (const char* needed : {"--schedule", "--stages"}) {
    if (values.contains(needed)) continue;
    throw input_error(
        fmt::format("{0}: {1} is missing; add it, or omit {0} and give the flags to "
                    "plan itself, which finds the best with them",
                    where, needed));
  }
  values.merge(FlagValues{{"--tensor-parallel", "1"},
                          {"--micro-batch-size", "1"},
                          {"--sequence-parallel", "off"},
                          {"--recompute", "none"},
                          {"--zero", "0"},
                          {"--shard-over", "all"},
                          {"--gather", "off"},
                          {"--bucket-bytes", "off"},
                          {"--overlap-gather", "off"}});
  // As pipesim --zero 3 without --gather.
  if (values["--zero"] == "3" && values["--gather"] == "off") {
    values["--gather"] = gather_name(values["--stages"] == "1" ? Gather::pass : Gather::window);
  }
  if (!values.contains("--virtual-stages")) {
    values["--virtual-stages"] = std::to_string(family(values["--schedule"]).default_chunks);
  }
  std::string microbatches;
  if (const auto found = values.find("--microbatches"); found != values.end()) {
    microbatches = found->second;
    values.erase(found);
  }
  for (const auto& [flag, value] : values) keep_value(space, flag.substr(2), value, where);
  const PlanPoint point = space.axes().at(0);
  if (space.broken_rule_of_cell(point) == PlanRule::data_parallel) {
    throw input_error(fmt::format(
        "{}: --data-parallel {} is not what is left of {}: {}", where, values["--data-parallel"],
        plural(space.question().devices, "device"), plural(space.data_parallel(point), "replica")));
  }
  const bool has_batch = !space.broken_rule_of_cell(point);
  if (has_batch && !microbatches.empty() &&
      microbatches != std::to_string(space.microbatches(point))) {
    throw input_error(fmt::format("{}: --microbatches {} is not what --global-batch {} leaves: {}",
                                  where, microbatches, space.question().global_batch,
                                  space.microbatches(point)));
  }
  return point;
}

void add_plan_flags(CommandLine& command, PlanFlags& flags) {
  command.add_flags("Training", question_flags(flags));
  command.add_flags("Training of a script, instead of flags that it says",
                    {{"--from", &flags.from, "FILE", "a script or configuration, as of import"},
                     {"--vocabulary", &flags.vocabulary, "N", "vocabulary size of the tokenizer"},
                     {"--ignore", &flags.ignored, "A,B", "plans without these settings of it"}});
  std::vector<FlagHelp> axes;
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    const AxisHelp& axis = axes_help[i];
    FlagHelp own(fmt::format("--{}", axis.name), &flags.axes[i], axis.type, axis.help);
    if (axis.name == std::string_view("sequence-parallel")) own = std::move(own).or_alone("on");
    if (axis.name == std::string_view("schedule")) own.known = schedule_names;
    if (axis.name == std::string_view("recompute")) own.known = recompute_names;
    axes.push_back(std::move(own));
  }
  command.add_flags("Layout; what is not given is searched", axes);
  command.add_flags(
      "Search space",
      {{"--only", &flags.only, "AXIS=A,B", "values of a layout's flag: zero=1,2; may repeat"},
       {"--fix", &flags.fix, "AXIS=A", "the same as --AXIS A; may repeat"},
       {"--objective", &flags.objective, "NAME",
        "what to minimize: time (default), memory, devices",
        [] {
          return std::vector<std::string>{"time", "memory", "devices"};
        }},
       {"--memory-cap", &flags.memory_cap, "BYTES", "memory limit; default a device's"}});
  command.add_flags(
      "Search",
      {{"--top", &flags.top, "N", "layouts to print, rebalanced; default 10"},
       {"--budget", &flags.budget, "T", "stops after this time with the best found so far"},
       {"--threads", &flags.threads, "N", "default all cores; the result is the same"}});
  command.add_flags(
      "Output",
      {{"--why", &flags.why, "LAYOUT", "explains what became of a layout, given as flags"},
       {"--csv", &flags.csv, "FILE", "writes all evaluated layouts"},
       {"--export", &flags.export_format, "megatron|torchtitan",
        "prints the configuration of the best"},
       {"--output", &flags.output, "FOLDER", "writes it as files in a folder"},
       {"--json", &flags.json, "prints one JSON object"}});
  command.set_footer(
      "Microbatches follow from the global batch. --only takes tp, pp, vpp, dp, mbs\n"
      "and sp, too, and parts of recompute joined by +.\n"
      "\n"
      "With several numbers of devices, the shortest iteration wins, or the least\n"
      "memory per device, or the smallest number on which a layout fits. Layers of\n"
      "the best are rebalanced, as by pipesim partition.\n"
      "\n"
      "Each layout in the space ends as impossible, by a rule; too large, by a lower\n"
      "bound on memory above the cap; dominated, by a lower bound on time no shorter\n"
      "than the last of the best; or evaluated exactly, as pipesim predicts it.\n"
      "\n"
      "Examples:\n"
      "  pipesim plan --model gpt3-175b --cluster dgx-a100 --devices 4096\n"
      "      --global-batch 2304\n"
      "  pipesim plan --model llama-3-8b --cluster dgx-h100 --devices 8..64\n"
      "      --global-batch 128 --objective devices\n"
      "  pipesim plan --model llama-3-70b --cluster dgx-h100 --devices 512\n"
      "      --global-batch 1024 --only schedule=1f1b,interleaved --zero 1\n"
      "  pipesim plan --model llama-3-8b --cluster dgx-h100 --devices 64\n"
      "      --global-batch 128 --why \"--schedule 1f1b --stages 4\"\n"
      "  pipesim plan --from pretrain_gpt.sh --cluster dgx-h100");
}

}  // namespace pipesim::cli
