// `pipesim plan`: the best layout for so many devices, with the proof of what was left out.
#include "sim/cli/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "sim/advice/ranking.h"
#include "sim/cli/commands.h"
#include "sim/cli/export.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/model_flags.h"
#include "sim/cli/outputs.h"
#include "sim/cli/plan_certificate.h"
#include "sim/cli/plan_refusal.h"
#include "sim/cli/plan_report.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/schedule/size.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

// An axis as a flag of its own, which gives it one value.
struct AxisHelp {
  const char* name;
  const char* type;
  const char* help;
};

constexpr AxisHelp axes_help[] = {
    {"schedule", "NAME", "see `pipesim schedules`"},
    {"stages", "P", "pipeline ranks"},
    {"virtual-stages", "V", "chunks per rank"},
    {"tensor-parallel", "T", "ranks that share each layer"},
    {"data-parallel", "D", "replicas of the pipeline"},
    {"micro-batch-size", "B", "sequences per microbatch"},
    {"sequence-parallel", "on|off", "shards norms and dropout by tokens over T ranks"},
    {"recompute", "none|full|LIST", "attention, norms, activation, products"},
    {"zero", "0|1|2|3", "shards optimizer, gradients, weights"},
    {"shard-over", "all|node", "shards over all replicas, or those of a node"},
    {"gather", "window|pass|once", "how long gathered weights stay"},
    {"bucket-bytes", "BYTES|off", "bucket of gradients; off: reduced at the end"},
    {"overlap-gather", "on|off", "--zero 1, 2: gathers weights during forwards"}};

struct PlanFlags {
  ModelFlags model;  // those that no axis has
  std::array<Flag, std::size(axes_help)> axes;
  std::vector<std::string> only, fix;
  Flag objective, memory_cap, budget, threads, top, why, csv, export_format, output;
  bool json = false;
};

std::vector<FlagHelp> question_flags(PlanFlags& flags) {
  ModelFlags& model = flags.model;
  return {
      {"--model", &model.model, "NAME|FILE.json", "model to train", model_names},
      {"--cluster", &model.cluster, "NAME|FILE.json", "cluster to train on", known_clusters},
      {"--software", &model.software, "NAME|FILE.json", "trainer", known_software},
      {"--devices", &model.devices, "N|A,B|A..Z", "devices, all used; A..Z means A, 2A, 4A, ... Z"},
      {"--global-batch", &model.global_batch, "N", "sequences per step, exactly"},
      {"--sequence-length", &model.sequence_length, "S",
       "tokens per sequence; default the model's longest"},
      {"--attention", &model.attention, "HOW", "fused or unfused; default by model and software",
       attention_names},
      {"--precision", &model.precision, "NAME", "as of predict; default bf16", all_precision_names},
      {"--weights", &model.weights, "bf16", "as of predict"},
      {"--gradient-bytes", &model.gradient_bytes, "2|4",
       "per gradient element; default as the weights"},
      {"--software-factor", &model.software_factor, "X",
       "scales GEMM rates; default the software's"}};
}

// Flags as they were given, with their values, but for one number of devices.
std::vector<std::string> given_flags(PlanFlags flags, int devices) {
  flags.model.devices = std::to_string(devices);
  std::vector<std::string> given;
  for (const FlagHelp& one : question_flags(flags)) {
    const Flag& value = **std::get_if<Flag*>(&one.value);
    if (value) given.push_back(one.name + " " + shell_word(*value));
  }
  return given;
}

const std::string& value_of(const Flag& flag, std::string_view name, std::string_view what) {
  if (!flag) throw input_error(fmt::format("{} is missing: {}", name, what));
  return *flag;
}

// Numbers of devices, or a range of them: doubled from its first on, and its last.
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
  model.devices.reset();
  model.global_batch.reset();
  question.training = training_request(model);
  return question;
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

PlanSpace space_of(const PlanFlags& flags, PlanQuestion question, int devices) {
  question.devices = devices;
  PlanSpace space(std::move(question));
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
  return space;
}

// A layout in the words of pipesim's flags, which have defaults, as what is left of the axes.
PlanPoint point_of(PlanSpace space, const std::string& text) {
  std::map<std::string, std::string> values{{"tensor-parallel", "1"},
                                            {"micro-batch-size", "1"},
                                            {"sequence-parallel", "off"},
                                            {"recompute", "none"},
                                            {"zero", "0"},
                                            {"shard-over", "all"},
                                            {"gather", "off"},
                                            {"bucket-bytes", "off"},
                                            {"overlap-gather", "off"}};
  std::vector<std::string_view> words = split(text, ' ');
  std::erase(words, "");
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view name = words[i];
    if (!name.starts_with("--")) {
      throw input_error(
          fmt::format("--why: {} is not a flag; give a layout as pipesim takes it, "
                      "like \"--schedule 1f1b --stages 8 --tensor-parallel 4\"",
                      quote(std::string(name))));
    }
    name.remove_prefix(2);
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
    values[std::string(name)] = has_value ? std::string(words[++i]) : "on";
  }
  for (const char* needed : {"schedule", "stages"}) {
    if (values.contains(needed)) continue;
    throw input_error(
        fmt::format("--why: --{} is missing in {}; add it, or omit --why and give the flags to "
                    "plan itself, which finds the best with them",
                    needed, quote(text)));
  }
  // As pipesim --zero 3 without --gather.
  if (values["zero"] == "3" && values["gather"] == "off") {
    values["gather"] = gather_name(values["stages"] == "1" ? Gather::pass : Gather::window);
  }
  if (!values.contains("virtual-stages")) {
    values["virtual-stages"] = std::to_string(family(values["schedule"]).default_chunks);
  }
  for (const auto& [axis, value] : values) keep_value(space, axis, value, "--why");
  const PlanPoint point = space.axes().at(0);
  if (space.broken_rule_of_cell(point) == PlanRule::data_parallel) {
    throw input_error(fmt::format(
        "--why: --data-parallel {} is not what is left of {}: {}", values["data-parallel"],
        plural(space.question().devices, "device"), plural(space.data_parallel(point), "replica")));
  }
  return point;
}

int threads_of(const Flag& flag) {
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  constexpr int most = 4;  // of each processor: more would only wait
  return flag ? std::min(most * processors, parse_count(*flag, "--threads")) : processors;
}

std::int64_t most_actions_within(std::chrono::nanoseconds budget) {
  constexpr std::int64_t most = std::int64_t{1} << 21;  // for its memory
  return std::min(most, actions_within(budget));
}

void check_export_flags(const PlanFlags& flags) {
  if (flags.output && !flags.export_format) {
    throw input_error("--output: a folder for what --export writes; give that, too");
  }
  if (!flags.export_format) return;
  check_export_format(*flags.export_format);
  if (flags.why || flags.csv || flags.json) {
    throw input_error("--export: replaces the report; omit --why, --csv and --json");
  }
}

// A space and what was found in it.
// Of one number of devices, what fits with the whole band of its peak; if nothing does, what is
// predicted to fit.
struct Searched {
  PlanSpace space;
  LayoutPlanner planner;
  PlanSearch how;
  PlanResult result;
  bool is_certain = true;
  std::optional<PlanOutcome> riskier = {};  // faster, but may not fit

  Searched(PlanSpace its, const PlanLimits& limits)
      : space(std::move(its)), planner(space, limits) {}

  void search(const PlanSearch& asked) {
    const TrainingRequest& training = space.question().training;
    how = asked;
    how.memory_cap_bytes =
        certain_bytes(asked.memory_cap_bytes, training.cluster.device.memory_bytes,
                      memory_error_band(training.model, training.cluster));
    result = planner.best(how);
    if (how.memory_cap_bytes == asked.memory_cap_bytes) return;
    if (!result.best.empty() && asked.aim == PlanAim::memory) return;
    PlanSearch wider = asked;
    if (!result.best.empty()) {
      wider.top = 1;
      wider.below = result.best.front().time_ns;
    }
    PlanResult more = planner.best(wider);
    if (more.best.empty()) return;
    if (!result.best.empty()) {
      riskier = more.best.front();
      return;
    }
    how = asked;
    result = std::move(more);
    is_certain = false;
  }
};

PlanOfDevices summary_of(const Searched& one) {
  PlanOfDevices own;
  own.devices = one.space.question().devices;
  own.layouts = one.space.axes().size();
  own.counts = one.result.counts;
  own.is_certain = one.is_certain;
  return own;
}

void set_best(const PlanFlags& flags, const PlanSpace& space, const Finalist& best,
              PlanOfDevices& own) {
  const PlanPoint point = space.axes().at(best.outcome.index);
  own.best = best.outcome;
  own.mfu = space.training(point)
                .with_ranks(point.stages)
                .mfu(space.microbatches(point), best.outcome.time_ns);
  own.layout = plan_layout_words(space, point);
  own.command = plan_command(given_flags(flags, own.devices), space, point, best.layout);
  own.choices = plan_layout_json(space, point, best.layout);
}

// By the objective. Expects that some have a best.
std::size_t best_of(const std::vector<PlanOfDevices>& all, PlanObjective objective) {
  const auto key = [&](std::size_t i) {
    if (!all[i].best) return std::tuple(2, std::int64_t{0}, std::int64_t{0});
    const int doubt = all[i].is_certain ? 0 : 1;
    const PlanOutcome& best = *all[i].best;
    switch (objective) {
      case PlanObjective::memory: return std::tuple(doubt, best.memory_bytes, best.time_ns);
      case PlanObjective::devices:
        return std::tuple(doubt, std::int64_t{all[i].devices}, best.time_ns);
      case PlanObjective::time: break;
    }
    return std::tuple(doubt, best.time_ns, std::int64_t{all[i].devices});
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (key(i) < key(best)) best = i;
  }
  return best;
}

PlanCertificate certificate_of(const PlanSpace& space, const PlanPoint& point,
                               const PlanLimits& limits) {
  PlanCertificate certificate = PointCertifier(space, limits).certify(point);
  if (!certificate.rule && !certificate.outcome) {
    throw work_error("--budget: time ran out before the layout of --why was evaluated; give more");
  }
  return certificate;
}

// What a layout ends as, and how many splits of work have a faster one.
std::string certificate_text(const PlanFlags& flags, Searched& searched, const PlanPoint& point,
                             const PlanCertificate& certificate, std::int64_t cap_bytes,
                             const PlanLimits& limits, const std::vector<std::string>& given) {
  std::optional<std::int64_t> faster_splits;
  if (certificate.outcome) {
    PlanSearch faster = searched.how;
    faster.top = max_faster_splits;
    faster.below = certificate.outcome->time_ns;
    const PlanResult found = searched.planner.best(faster);
    if (found.counts.not_reached == 0) faster_splits = std::ssize(found.best);
  }
  CertificateView view{
      searched.space,       point,         certificate, cap_bytes, searched.how.memory_cap_bytes,
      searched.result.best, faster_splits, given};
  const std::vector<PlanOutcome>& best = searched.result.best;
  if (certificate.outcome && !best.empty() && certificate.outcome->time_ns > best.front().time_ns) {
    const PlanSpace& space = searched.space;
    limits.allow([&] {
      view.why = why_not(
          candidate_of(space, point, *certificate.outcome, {}, limits.budget),
          candidate_of(space, space.axes().at(best.front().index), best.front(), {}, limits.budget),
          {});
    });
  }
  return flags.json ? certificate_json(view) : certificate_report(view, standard_output().width);
}

// In short: the best alone.
void run(const PlanFlags& flags, bool in_short) {
  PlanLimits limits;
  std::optional<Budget> budget;
  if (flags.budget) {
    const std::chrono::nanoseconds time(parse_time_ns(*flags.budget, "--budget"));
    limits.budget = &budget.emplace(time);
    limits.max_actions = most_actions_within(time);
  }
  check_outputs({{"--model", file_of(flags.model.model)},
                 {"--cluster", file_of(flags.model.cluster)},
                 {"--csv", flags.csv, true}});
  check_export_flags(flags);
  const std::vector<int> devices = numbers_of_devices(flags.model.devices);
  const PlanQuestion question = question_of(flags);
  const PlanObjective objective = objective_of(flags.objective);
  limits.threads = threads_of(flags.threads);
  PlanSearch how;
  how.memory_cap_bytes = flags.memory_cap ? parse_bytes(*flags.memory_cap, "--memory-cap")
                                          : question.training.cluster.device.memory_bytes;
  // Those that are not printed are rebalanced, too: the best is the same for any --top up to it.
  const std::size_t printed =
      flags.top ? static_cast<std::size_t>(parse_count(*flags.top, "--top")) : how.top;
  how.top = std::max(how.top, printed);
  if (objective == PlanObjective::memory && !flags.why) how.aim = PlanAim::memory;
  if (flags.why && devices.size() > 1) {
    throw input_error("--why: for how many devices? give --devices one number");
  }
  std::optional<OutputFile> csv;
  if (flags.csv) csv.emplace(*flags.csv);

  std::optional<Progress> progress(std::in_place);
  how.progress = [&](const PlanOutcome* best, std::int64_t evaluated) {
    if (best == nullptr && evaluated == 0) return;  // what was shown before says more
    progress->show(fmt::format("best so far {}, {} evaluated",
                               best == nullptr ? "none" : format_time(best->time_ns),
                               format_count(evaluated)));
  };
  std::optional<PlanPoint> asked;
  std::optional<PlanCertificate> certificate;
  if (flags.why) {
    const PlanSpace space = space_of(flags, question, devices.front());
    asked = point_of(space, *flags.why);
    certificate = certificate_of(space, *asked, limits);
  }
  std::vector<std::unique_ptr<Searched>> searched;
  std::vector<PlanOfDevices> by_devices;
  for (const int count : devices) {
    PlanSpace space = space_of(flags, question, count);
    progress->show(fmt::format("bounding {} layouts on {} devices",
                               format_count(space.axes().size()), format_count(count)));
    Searched& one = *searched.emplace_back(std::make_unique<Searched>(std::move(space), limits));
    one.search(how);
    by_devices.push_back(summary_of(one));
    if (devices.size() > 1 && !one.result.best.empty()) {
      set_best(flags, one.space, finalists(one.space, one.result.best, one.how, limits).front(),
               by_devices.back());
    }
  }
  const std::size_t chosen = best_of(by_devices, objective);
  Searched& best = *searched[chosen];
  const std::vector<std::string> given = given_flags(flags, devices[chosen]);
  PlanAnswer answer;
  PlanView view{best.space, answer, how.memory_cap_bytes, best.how.memory_cap_bytes, objective,
                by_devices, given};
  // Absent where it has none of the values that are asked for.
  const SpaceOf other_space = [&](const PlanQuestion& other) {
    try {
      return std::optional(space_of(flags, other, other.devices));
    } catch (const Error&) {
      return std::optional<PlanSpace>();
    }
  };
  if (flags.why) {
    const std::string text =
        certificate_text(flags, best, *asked, *certificate, how.memory_cap_bytes, limits, given);
    progress.reset();
    print(text);
    return;
  }
  if (best.result.best.empty()) {
    if (std::ranges::any_of(by_devices,
                            [](const PlanOfDevices& one) { return one.counts.not_reached > 0; })) {
      throw work_error(
          limits.are_over()
              ? "--budget: time ran out before a layout that fits was found; give more"
              : "--budget: time would run out before one of the layouts that may fit is evaluated, "
                "so many microbatches do they have; give more, or omit it");
    }
    refuse_plan(best.space, best.result.counts, how, limits, other_space);
  }
  if (in_short || flags.export_format) {
    answer.result = std::move(best.result);
    answer.top = finalists(best.space, answer.result.best, best.how, limits);
    progress.reset();
    if (in_short) {
      print(plan_summary(view, standard_output()));
      return;
    }
    const Finalist& first = answer.top.front();
    const PlanPoint point = best.space.axes().at(first.outcome.index);
    write_export(export_layout(*flags.export_format, best.space, point, first.layout),
                 flags.output);
    return;
  }
  answer = answer_plan(best.planner, best.space, std::move(best.result), best.how, limits);
  if (answer.top.size() > printed) {
    answer.top.erase(answer.top.begin() + static_cast<std::ptrdiff_t>(printed), answer.top.end());
  }
  set_best(flags, best.space, answer.top.front(), by_devices[chosen]);
  if (best.riskier) {  // splitting layers may have made the best as fast
    Finalist riskier = finalists(best.space, {*best.riskier}, how, limits).front();
    const bool is_faster = riskier.outcome.time_ns < answer.top.front().outcome.time_ns;
    if (is_faster) view.riskier = std::move(riskier);
  }
  if (objective == PlanObjective::time) {
    view.nearby = nearby_batch(best.space.question(), answer.top.front().outcome, best.how,
                               other_space, limits);
  }
  progress.reset();
  if (csv) {
    csv->write(plan_csv(view));
    csv->commit();
  }
  print(flags.json ? plan_json(view) : plan_report(view, standard_output()));
}

}  // namespace

void plan_in_short(const ModelFlags& model, const ScheduleFlags& schedule, const Flag& memory_cap) {
  if (!model.devices || !model.global_batch) {
    throw input_error(
        "--schedule is missing: give a name (see `pipesim schedules`) or a file; or give --devices "
        "and --global-batch, to find the best layout");
  }
  PlanFlags flags;
  flags.model = model;
  flags.memory_cap = memory_cap;
  // What an axis has is its value, and nothing of the question.
  const auto fix = [&](std::string_view axis, Flag value) {
    const auto* const found = std::ranges::find(axes_help, axis, &AxisHelp::name);
    flags.axes[static_cast<std::size_t>(found - axes_help)] = std::move(value);
  };
  ModelFlags& own = flags.model;
  fix("tensor-parallel", std::exchange(own.tensor_parallel, {}));
  fix("micro-batch-size", std::exchange(own.micro_batch_size, {}));
  fix("recompute", std::exchange(own.recompute, {}));
  if (std::exchange(own.sequence_parallel, false)) fix("sequence-parallel", "on");
  fix("overlap-gather", std::exchange(own.overlap_gather, {}));
  const ReplicaFlags replicas = std::exchange(own.replicas, {});
  fix("data-parallel", replicas.data_parallel);
  fix("zero", replicas.zero);
  fix("gather", replicas.gather);
  fix("bucket-bytes", replicas.bucket_bytes);
  fix("shard-over", replicas.shard_over);
  fix("stages", schedule.stages);
  fix("virtual-stages", schedule.virtual_stages);
  run(flags, true);
}

void set_up_plan(CommandLine& command) {
  auto flags = std::make_shared<PlanFlags>();
  command.add_flags("Training", question_flags(*flags));
  std::vector<FlagHelp> axes;
  for (std::size_t i = 0; i < flags->axes.size(); ++i) {
    const AxisHelp& axis = axes_help[i];
    FlagHelp own(fmt::format("--{}", axis.name), &flags->axes[i], axis.type, axis.help);
    if (axis.name == std::string_view("sequence-parallel")) own = std::move(own).or_alone("on");
    if (axis.name == std::string_view("schedule")) own.known = schedule_names;
    if (axis.name == std::string_view("recompute")) own.known = recompute_names;
    axes.push_back(std::move(own));
  }
  command.add_flags("Layout; what is not given is searched", axes);
  command.add_flags(
      "Search space",
      {{"--only", &flags->only, "AXIS=A,B", "values of a layout's flag: zero=1,2; may repeat"},
       {"--fix", &flags->fix, "AXIS=A", "the same as --AXIS A; may repeat"},
       {"--objective", &flags->objective, "NAME",
        "what to minimize: time (default), memory, devices",
        [] {
          return std::vector<std::string>{"time", "memory", "devices"};
        }},
       {"--memory-cap", &flags->memory_cap, "BYTES", "memory limit; default a device's"}});
  command.add_flags(
      "Search",
      {{"--top", &flags->top, "N", "layouts to print, rebalanced; default 10"},
       {"--budget", &flags->budget, "T", "stops after this time with the best found so far"},
       {"--threads", &flags->threads, "N", "default all cores; the result is the same"}});
  command.add_flags(
      "Output",
      {{"--why", &flags->why, "LAYOUT", "explains what became of a layout, given as flags"},
       {"--csv", &flags->csv, "FILE", "writes all evaluated layouts"},
       {"--export", &flags->export_format, "megatron|torchtitan",
        "prints the configuration of the best"},
       {"--output", &flags->output, "FOLDER", "writes it as files in a folder"},
       {"--json", &flags->json, "prints one JSON object"}});
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
      "      --global-batch 128 --why \"--schedule 1f1b --stages 4\"");
  command.set_work([flags] { run(*flags, false); });
}

}  // namespace pipesim::cli
