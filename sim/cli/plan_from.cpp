#include "sim/cli/plan_from.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "sim/cli/export.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/setup.h"
#include "sim/cost/layout.h"
#include "sim/plan/trainer.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/tables.h"

namespace pipesim::cli {
namespace {

// Flags that make sense together alone, by decision.
const std::vector<std::vector<std::string>> decisions{
    {"--tensor-parallel", "--sequence-parallel"},
    {"--context-parallel"},
    {"--expert-parallel", "--expert-tensor-parallel"},
    {"--stages"},
    {"--schedule", "--virtual-stages", "--group", "--overlap-experts"},
    {"--micro-batch-size"},
    {"--recompute"},
    {"--zero", "--shard-over", "--gather", "--bucket-bytes", "--overlap-gather"},
    {"--accumulate"},
};

std::string value_in(const FlagValues& flags, const std::string& name) {
  const auto found = flags.find(name);
  return found == flags.end() ? "" : found->second;
}

void set(FlagValues& flags, const std::string& name, const std::string& value) {
  if (value.empty()) {
    flags.erase(name);
  } else {
    flags[name] = value;
  }
}

// Without those that say what holds by default.
FlagValues short_of(FlagValues flags) {
  constexpr std::pair<const char*, const char*> defaults[] = {{"--tensor-parallel", "1"},
                                                              {"--micro-batch-size", "1"},
                                                              {"--sequence-parallel", "off"},
                                                              {"--recompute", "none"},
                                                              {"--zero", "0"}};
  for (const auto& [name, value] : defaults) {
    if (value_in(flags, name) == value) flags.erase(name);
  }
  return flags;
}

// An exported configuration as settings with their values: "--name value" of each line of a shell
// array, "table.key = value" of TOML.
FlagValues settings_of(const std::string& text) {
  FlagValues settings;
  std::string table;
  std::string list;  // the key of one of several lines
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view word = strip(line);
    if (word.starts_with("[") && list.empty()) {
      table = std::string(word.substr(1, word.size() - 2)) + ".";
    } else if (word.starts_with("--")) {
      const std::size_t space = word.find(' ');
      settings[std::string(word.substr(0, space))] =
          space == std::string_view::npos ? "" : std::string(word.substr(space + 1));
    } else if (word == "]") {
      settings[list] += word;
      list.clear();
    } else if (!list.empty()) {
      settings[list] += word;
    } else if (const std::size_t equals = word.find(" = "); equals != std::string_view::npos) {
      const std::string key = table + std::string(word.substr(0, equals));
      settings[key] = word.substr(equals + 3);
      if (settings[key] == "[") list = key;
    }
  }
  return settings;
}

class Way {
 public:
  Way(const PlanFlags& question, const PlanStart& start, const PlanSpace& space,
      std::int64_t memory_cap_bytes, const PlanLimits& limits)
      : question_(question),
        start_(start),
        space_(space),
        memory_cap_bytes_(memory_cap_bytes),
        limits_(limits),
        present_(start.imported.settings.begin(), start.imported.settings.end()) {}

  std::vector<PlanStep> to(const FlagValues& best) {
    PlanStep now{{}, {}, {}, predicted(question_, start_.layout)};
    FlagValues flags = start_.layout;
    FlagValues settings = settings_with(flags);
    steps_.push_back(now);
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < decisions.size(); ++i) left.push_back(i);
    while (flags != best) {
      Trial trial = next(flags, best, left);
      std::erase_if(left, [&](std::size_t one) { return trial.decided.contains(one); });
      const FlagValues then = settings_with(trial.flags);
      add(flags, trial, settings, then);
      flags = std::move(trial.flags);
      if (!then.empty()) settings = then;
    }
    return std::move(steps_);
  }

 private:
  struct Trial {
    std::set<std::size_t> decided;
    FlagValues flags;
    FlagsOutcome outcome;
  };

  std::optional<Trial> attempt(const FlagValues& now, const FlagValues& best,
                               std::set<std::size_t> decided) const {
    Trial trial{std::move(decided), now, {}};
    for (const std::size_t one : trial.decided) {
      for (const std::string& name : decisions[one]) set(trial.flags, name, value_in(best, name));
    }
    if (value_in(trial.flags, "--stages") == "1") {  // all schedules are alike
      for (const char* name : {"--schedule", "--virtual-stages", "--group", "--overlap-experts"}) {
        set(trial.flags, name, value_in(best, name));
      }
    }
    if (trial.flags == now) return std::nullopt;
    // Layers are dealt out by virtual stage.
    bool is_best = true;
    for (const char* name : {"--stages", "--schedule", "--virtual-stages"}) {
      if (value_in(trial.flags, name) != value_in(now, name)) trial.flags.erase("--layout");
      is_best = is_best && value_in(trial.flags, name) == value_in(best, name);
    }
    if (is_best) set(trial.flags, "--layout", value_in(best, "--layout"));
    try {
      trial.outcome = predicted(question_, trial.flags);
      return trial;
    } catch (const Error&) {
      return std::nullopt;  // not without the others
    }
  }

  Trial next(const FlagValues& now, const FlagValues& best,
             const std::vector<std::size_t>& left) const {
    const FlagsOutcome& before = steps_.back().outcome;
    std::optional<Trial> found;
    for (const std::size_t first : left) {
      for (const std::size_t second : left) {
        if (second < first || limits_.are_over()) continue;
        auto trial = attempt(now, best, {first, second});
        if (!trial || trial->outcome.time_ns >= before.time_ns) continue;
        const std::int64_t most = std::max(memory_cap_bytes_, before.memory_bytes);
        if (trial->outcome.memory_bytes > most) continue;
        // Two at once only where none of them does it alone.
        const auto key = [](const Trial& one) {
          return std::pair(one.decided.size(), one.outcome.time_ns);
        };
        if (!found || key(*trial) < key(*found)) found = std::move(trial);
      }
    }
    if (found) return *std::move(found);
    return {{left.begin(), left.end()}, best, predicted(question_, best)};
  }

  // In the trainer's words; empty where it has none for such a layout.
  FlagValues settings_with(const FlagValues& flags) const {
    if (start_.trainer->format.empty()) return {};
    try {
      FlagValues plain = flags;
      LayersOfStages layers;
      if (const std::string layout = value_in(flags, "--layout"); !layout.empty()) {
        layers = parse_layout(layout).layers;
      }
      for (const char* name : {"--layout", "--group", "--overlap-experts", "--accumulate"}) {
        plain.erase(name);
      }
      const PlanPoint point = point_of(space_, plain, "--from");
      return settings_of(export_layout(start_.trainer->format, space_, point, layers).front().text);
    } catch (const Error&) {
      return {};
    }
  }

  void add(const FlagValues& flags, const Trial& trial, const FlagValues& settings,
           const FlagValues& then) {
    PlanStep step{{}, {}, {}, trial.outcome};
    if (steps_.size() == 1 && start_.has_microbatches) {  // which follow from now on
      step.changed = {{"--microbatches", ""}, {"--global-batch", *question_.model.global_batch}};
    }
    for (const auto& [name, value] : trial.flags) {
      if (value_in(flags, name) != value) step.changed[name] = value;
    }
    for (const auto& [name, value] : flags) {
      if (!trial.flags.contains(name)) step.changed[name] = "";
    }
    if (!then.empty()) tell_trainer(settings, then, step);
    steps_.push_back(std::move(step));
  }

  // Settings of one kind are changed together, whatever the script calls them.
  static std::string kind_of(const std::string& name) {
    constexpr std::pair<std::string_view, std::string_view> kinds[] = {
        {"--pipeline-model-parallel --num-layers-per-virtual --num-virtual-stages --decoder- "
         "--account-for --microbatch-group parallelism.pipeline_parallel_ parallelism.module_fqns",
         "pipeline"},
        {"--recompute- activation_checkpoint.", "recompute"},
        {"parallelism.data_parallel_ parallelism.fsdp_ training.global_batch "
         "training.local_batch parallelism.tensor_parallel --context-parallel --cp-comm "
         "--expert-model --expert-tensor parallelism.context_parallel parallelism.expert_",
         "replicas"}};
    for (const auto& [beginnings, kind] : kinds) {
      if (starts_with_any(name, beginnings)) return std::string(kind);
    }
    return name;
  }

  static bool is_of_layout(std::string_view name) {
    return starts_with_any(
        name,
        "--pipeline-model --num-layers-per-virtual --num-virtual-stages --decoder- --account-for "
        "--microbatch-group --recompute- --tensor-model --sequence-parallel --tp-comm --no-async "
        "--micro-batch --use-distributed --overlap-grad --overlap-param --ddp-bucket "
        "--use-megatron-fsdp --use-custom --use-torch-fsdp2 --data-parallel-sharding "
        "--num-distributed --ckpt-format --context-parallel --cp-comm --expert-model "
        "--expert-tensor parallelism. activation_checkpoint. training.local_batch "
        "training.global_batch");
  }

  // What to set, and which of the settings that the script has by now to leave out. `before`: empty
  // where the trainer has no words for the layout.
  void tell_trainer(const FlagValues& before, const FlagValues& then, PlanStep& step) {
    std::set<std::string> changed;
    for (const auto& [name, value] : then) {
      const auto found = before.find(name);
      if (found == before.end() || found->second != value) changed.insert(kind_of(name));
    }
    for (const auto& [name, value] : before) {
      if (!then.contains(name)) changed.insert(kind_of(name));
    }
    for (const std::string& name : present_) {
      if (before.empty() && is_of_layout(name)) changed.insert(kind_of(name));
    }
    std::erase_if(changed, [&](const std::string& name) {
      return before.empty() && name != "pipeline" && name != "recompute" && name != "replicas" &&
             !is_of_layout(name);
    });
    const char* between = start_.trainer->format == "megatron" ? " " : " = ";
    for (const auto& [name, value] : then) {
      const auto found = before.find(name);
      const bool is_same = found != before.end() && found->second == value;
      if (!changed.contains(kind_of(name)) || (is_same && present_.contains(name))) continue;
      step.set.push_back(name + (value.empty() ? "" : between + value));
      present_.insert(name);
    }
    std::erase_if(present_, [&](const std::string& name) {
      if (then.contains(name) || !changed.contains(kind_of(name))) return false;
      step.without.push_back(name);
      return true;
    });
  }

  const PlanFlags& question_;
  const PlanStart& start_;
  const PlanSpace& space_;
  std::int64_t memory_cap_bytes_;
  const PlanLimits& limits_;
  std::set<std::string> present_;  // the script's settings, as the steps before leave them
  std::vector<PlanStep> steps_;
};

std::string words_of(const PlanStep& step) {
  FlagValues set;
  std::string without;
  for (const auto& [name, value] : step.changed) {
    if (value.empty()) {
      without += " " + name;
    } else {
      set[name] = value;
    }
  }
  const std::string text = flags_text(set);
  if (without.empty()) return text;
  return text + (text.empty() ? "" : ", ") + "without" + without;
}

}  // namespace

FlagsOutcome predicted(const PlanFlags& question, const FlagValues& layout) {
  CostFlags costs;
  costs.model = question.model;
  costs.model.is_row = true;
  set_flags(all_model_flags(costs.model), layout);
  const auto flag = [&](const char* name) {
    const std::string value = value_in(layout, name);
    return value.empty() ? Flag() : Flag(value);
  };
  costs.layout = flag("--layout");
  ScheduleFlags schedule;
  schedule.schedule = flag("--schedule");
  set_flags(schedule_flags_but_name(schedule), layout);
  schedule.microbatches.reset();
  const Flag passes = flag("--accumulate");
  return outcome_of(cost_request(costs), costs.model.global_batch, std::move(schedule),
                    passes ? parse_count(*passes, "--accumulate") : 1);
}

PlanStart read_start(PlanFlags& flags) {
  PlanStart start;
  start.file = *flags.from;
  ImportQuestion question;
  if (flags.model.devices) {
    const std::vector<int> devices = numbers_of_devices(flags.model.devices);
    if (devices.size() > 1) {
      throw input_error("--from: for how many devices? give --devices one number");
    }
    question.devices = devices.front();
  }
  if (flags.vocabulary) question.vocabulary = parse_count(*flags.vocabulary, "--vocabulary");
  start.imported = import_training(read_file(start.file), start.file, question);
  const Imported& imported = start.imported;
  refuse_unmodelled(imported, start.file, flags.ignored);
  start.trainer = &imported_trainer(imported.format);
  ModelFlags& model = flags.model;
  if (!model.model && imported.model) {
    const Model* known = known_model_like(*imported.model);
    start.writes_model = known == nullptr;
    model.model = start.writes_model ? "model.json" : known->name;
    if (start.writes_model) {
      model.own_model = *imported.model;
      model.own_model->name = start.file;
    }
  }
  if (!model.devices && imported.devices) model.devices = std::to_string(*imported.devices);
  if (!model.software && !imported.software.empty()) model.software = imported.software;

  FlagValues values;
  for (const Imported::Flag& one : imported.flags) {
    values[one.name] = one.value.empty() ? "on" : one.value;
  }
  std::vector<std::string> lacking;
  for (const Remark& one : imported.missing) {
    const bool is_asked_for = one.what == "--stages" || one.what == "--recompute" ||
                              one.what == "--layout" || one.what == "--sequence-length";
    if (is_asked_for) {
      if (one.what != "--stages" || !axis_flag(flags, "stages")) start.assumed.push_back(one);
    } else if (!((one.what == "--model" && model.model) ||
                 (one.what == "--devices" && model.devices) || one.what == "--precision")) {
      lacking.push_back(fmt::format("{} ({})", one.what, one.why));
    }
  }
  if (!model.cluster) lacking.emplace_back("--cluster (name or file, see `pipesim clusters`)");
  if (!lacking.empty()) {
    throw input_error(fmt::format("--from {}: does not say {}; add it", printable(start.file),
                                  fmt::join(lacking, ", ")));
  }
  values.try_emplace("--stages", axis_flag(flags, "stages").value_or("1"));
  const auto count = [&](const char* name) {
    const std::string value = value_in(values, name);
    return std::int64_t{value.empty() ? 1 : parse_count(value, name)};
  };
  const std::int64_t each =
      count("--stages") * count("--tensor-parallel") * count("--context-parallel");
  if (!model.devices && values.contains("--data-parallel")) {
    model.devices = std::to_string(each * count("--data-parallel"));
  }
  if (!model.devices) {
    throw input_error(
        fmt::format("--from {}: does not say --devices; add it", printable(start.file)));
  }
  const int devices = parse_count(*model.devices, "--devices");
  if (!values.contains("--global-batch")) {
    const std::int64_t batch = devices / each * count("--micro-batch-size") *
                               count("--microbatches") * count("--accumulate");
    values["--global-batch"] = std::to_string(batch);
  }
  start.has_microbatches = values.erase("--microbatches") > 0;
  values.erase("--data-parallel");
  // What the command line says itself counts.
  for (const FlagHelp& one : question_flags(flags)) {
    const auto* text = std::get_if<Flag*>(&one.value);
    if (text != nullptr && **text) values.erase(one.name);
  }
  take_question(values, flags, "--from");
  start.layout = short_of(std::move(values));
  return start;
}

std::vector<PlanStep> steps_to(const PlanFlags& question, const PlanStart& start,
                               const PlanSpace& space, const PlanPoint& best,
                               const LayersOfStages& layers, std::int64_t memory_cap_bytes,
                               const PlanLimits& limits) {
  FlagValues flags =
      short_of(flag_values(fmt::format("{}", fmt::join(space.flags(best), " ")), "--from"));
  if (layers) flags["--layout"] = fmt::format("{}", fmt::join(*layers, ","));
  return Way(question, start, space, memory_cap_bytes, limits).to(flags);
}

std::string steps_report(const PlanStart& start, const std::vector<PlanStep>& steps,
                         std::int64_t memory_cap_bytes, bool is_certain, int width) {
  const char* sure = is_certain ? " that is sure to fit" : "";
  const FlagsOutcome& first = steps.front().outcome;
  const FlagsOutcome& last = steps.back().outcome;
  const auto saved = [](const FlagsOutcome& before, const FlagsOutcome& after) {
    return 100 - 100 * static_cast<double>(after.time_ns) / static_cast<double>(before.time_ns);
  };
  std::string out = fmt::format("{}, {}", printable(start.file), start.imported.format);
  for (const Remark& one : start.imported.without_counterpart) out += ", without " + one.what;
  out += fmt::format(": {} and {}{} as it is; ", format_time(first.time_ns),
                     format_bytes(first.memory_bytes),
                     first.memory_bytes > memory_cap_bytes ? ", which does not fit," : "");
  if (last.time_ns >= first.time_ns && first.memory_bytes <= memory_cap_bytes) {
    return wrap(out + fmt::format("no layout{} was found that is faster.", sure), width) + "\n\n";
  }
  const double less = saved(first, last);
  out = wrap(out + fmt::format("{} ({:.1f} % {}) and {} with the best layout{}.",
                               format_time(last.time_ns), std::abs(less),
                               less < 0 ? "more" : "less", format_bytes(last.memory_bytes), sure),
             width) +
        "\n";
  for (const Remark& one : start.assumed) {
    const bool has_value = start.layout.contains(one.what);
    out += wrap(fmt::format("Assumed: {}{}; {}", one.what,
                            has_value ? " " + start.layout.at(one.what) : " by default", one.why),
                width) +
           "\n";
  }
  if (start.writes_model) {
    out += wrap(fmt::format("Commands below read model.json, which pipesim import {} "
                            "--write-model model.json writes.",
                            shell_word(start.file)),
                width) +
           "\n";
  }
  const TableUnit unit = table_unit(first.time_ns);
  std::vector<Column> columns(3);
  columns[0].name = unit.name;
  columns[1].name = "saved %";
  columns[2].name = "memory";
  std::vector<std::string> labels;
  ProseColumn prose{"changed", {}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const PlanStep& step = steps[i];
    labels.push_back(std::to_string(i));
    columns[0].cells.push_back(unit.text(step.outcome.time_ns));
    columns[1].cells.push_back(
        i == 0 ? "-" : fmt::format("{:.1f}", saved(steps[i - 1].outcome, step.outcome)));
    columns[2].cells.push_back(format_bytes(step.outcome.memory_bytes));
    std::string text = i == 0 ? "as it is" : words_of(step);
    if (!step.set.empty()) {
      const char* between = start.trainer->format == "megatron" ? " " : ", ";
      text += fmt::format("; {}: {}", start.trainer->name, fmt::join(step.set, between));
    }
    if (!step.without.empty()) text += fmt::format("; without {}", fmt::join(step.without, " "));
    prose.cells.push_back(std::move(text));
  }
  std::vector<ColumnGroup> groups;
  for (Column& column : columns) groups.push_back({"", {std::move(column)}});
  labels.insert(labels.begin(), "step");
  return out + "\n" + table(labels, groups, static_cast<std::size_t>(width), prose) + "\n";
}

Json steps_json(const PlanStart& start, const std::vector<PlanStep>& steps) {
  Json list = Json::array();
  for (const PlanStep& step : steps) {
    Json changed = Json::object();
    for (const auto& [name, value] : step.changed) {
      changed[name] = value.empty() ? Json(nullptr) : Json(value);
    }
    list.push_back({{"changed", std::move(changed)},
                    {"set", step.set},
                    {"without", step.without},
                    {"iteration_ns", step.outcome.time_ns},
                    {"peak_memory_bytes", step.outcome.memory_bytes}});
  }
  Json json;
  json["file"] = start.file;
  json["of"] = start.imported.format;
  json["steps"] = std::move(list);
  return json;
}

}  // namespace pipesim::cli
