// `pipesim plan`: the best layout for so many devices, with the proof of what was left out.
#include "sim/cli/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "sim/cli/commands.h"
#include "sim/cli/export.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/model_flags.h"
#include "sim/cli/outputs.h"
#include "sim/cli/plan_report.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

struct PlanFlags {
  ModelFlags model;  // those that no axis has
  std::vector<std::string> only, fix;
  Flag memory_cap, budget, threads, top, why, csv, export_format, output;
  bool json = false;
};

std::vector<FlagHelp> question_flags(PlanFlags& flags) {
  ModelFlags& model = flags.model;
  return {{"--model", &model.model, "NAME|FILE.json", "what is trained"},
          {"--cluster", &model.cluster, "NAME|FILE.json", "what on"},
          {"--software", &model.software, "NAME|FILE.json", "what trains"},
          {"--devices", &model.devices, "N", "all are used"},
          {"--global-batch", &model.global_batch, "N", "sequences, exactly so many"},
          {"--sequence-length", &model.sequence_length, "S", "tokens; default the model's longest"},
          {"--attention", &model.attention, "HOW", "fused or unfused; default unfused for a gpt"},
          {"--precision", &model.precision, "NAME", "as of pipesim; default bf16"},
          {"--gradient-bytes", &model.gradient_bytes, "2|4", "default as its weight"},
          {"--software-factor", &model.software_factor, "X", "default the software's"}};
}

// Flags as they were given, with their values.
std::vector<std::string> given_flags(PlanFlags flags) {
  std::vector<std::string> given;
  for (const FlagHelp& one : question_flags(flags)) {
    const Flag& value = **std::get_if<Flag*>(&one.value);
    if (value) given.push_back(one.name + " " + shell_word(*value));
  }
  return given;
}

int count_of(const Flag& flag, std::string_view name, std::string_view what) {
  if (!flag) throw input_error(fmt::format("{} is missing: {}", name, what));
  return parse_count(*flag, name);
}

PlanQuestion question_of(const PlanFlags& flags) {
  PlanQuestion question;
  question.devices = count_of(flags.model.devices, "--devices", "how many there are to train on");
  question.global_batch =
      count_of(flags.model.global_batch, "--global-batch", "sequences of an iteration");
  ModelFlags model = flags.model;
  model.devices.reset();
  model.global_batch.reset();
  question.training = training_request(model);
  return question;
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
          fmt::format("--why: {} is no flag; give a layout as pipesim takes it, "
                      "like \"--schedule 1f1b --stages 8 --tensor-parallel 4\"",
                      quote(std::string(name))));
    }
    name.remove_prefix(2);
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
    values[std::string(name)] = has_value ? std::string(words[++i]) : "on";
  }
  for (const char* needed : {"schedule", "stages"}) {
    if (values.contains(needed)) continue;
    throw input_error(fmt::format("--why: --{} is missing in {}; add it", needed, quote(text)));
  }
  if (!values.contains("virtual-stages")) {
    values["virtual-stages"] = std::to_string(family(values["schedule"]).default_chunks);
  }
  std::ranges::replace(values["recompute"], ',', '+');
  if (values["recompute"] == "attention") values["recompute"] = "selective";
  if (values["shard-over"] != "all") values["shard-over"] = "node";
  for (const auto& [axis, value] : values) space.narrow(axis + "=" + value, "--why");
  return space.axes().at(0);
}

int threads_of(const Flag& flag) {
  if (flag) return parse_count(*flag, "--threads");
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void check_export_flags(const PlanFlags& flags) {
  if (flags.output && !flags.export_format) {
    throw input_error("--output: a folder for what --export writes; give it, too");
  }
  if (!flags.export_format) return;
  check_export_format(*flags.export_format);
  if (flags.why || flags.csv || flags.json) {
    throw input_error("--export: takes the report's place; leave --why, --csv and --json away");
  }
}

// Prints the best, or writes it into a folder.
void export_best(const PlanFlags& flags, const PlanSpace& space, const PlanResult& result) {
  if (result.best.empty()) throw work_error("--export: no layout was found that fits");
  write_export(
      export_layout(*flags.export_format, space, space.axes().at(result.best.front().index)),
      flags.output);
}

// In short: the best alone.
void run(const PlanFlags& flags, bool in_short) {
  check_outputs({{"--model", file_of(flags.model.model)},
                 {"--cluster", file_of(flags.model.cluster)},
                 {"--csv", flags.csv, true}});
  check_export_flags(flags);
  PlanSpace space(question_of(flags));
  for (const std::string& only : flags.only) space.narrow(only);
  for (const std::string& fix : flags.fix) {
    if (fix.find(',') != std::string::npos) {
      throw input_error(fmt::format("--fix {}: several values; give --only for these", fix));
    }
    space.narrow(fix, "--fix");
  }
  PlanSearch how;
  how.memory_cap_bytes = flags.memory_cap ? parse_bytes(*flags.memory_cap, "--memory-cap")
                                          : space.question().training.cluster.device.memory_bytes;
  if (flags.top) how.top = static_cast<std::size_t>(parse_count(*flags.top, "--top"));
  std::optional<std::int64_t> budget_ns;
  if (flags.budget) budget_ns = parse_time_ns(*flags.budget, "--budget");
  std::optional<OutputFile> csv;
  if (flags.csv) csv.emplace(*flags.csv);

  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::optional<Progress> progress(std::in_place);
  progress->show(fmt::format("bounding {} layouts", format_count(space.axes().size())));
  how.progress = [&](const PlanOutcome* best, std::int64_t evaluated) {
    progress->show(fmt::format("best so far {}, {} evaluated",
                               best == nullptr ? "none" : format_time(best->time_ns),
                               format_count(evaluated)));
    return !budget_ns || Clock::now() - start < std::chrono::nanoseconds(*budget_ns);
  };
  LayoutPlanner planner(space, threads_of(flags.threads));
  const std::vector<std::string> given = given_flags(flags);
  PlanAnswer answer;
  if (flags.export_format) {
    answer.result = planner.best(how);
    progress.reset();
    return export_best(flags, space, answer.result);
  }
  if (flags.why || in_short) {
    answer.result = planner.best(how);
    progress.reset();
    if (in_short) {
      print(plan_summary({space, answer, how.memory_cap_bytes, given}, standard_output()));
      return;
    }
    const PlanPoint point = point_of(space, *flags.why);
    const PlanView view{space, answer, how.memory_cap_bytes, given};
    print(plan_certificate_report(view, point, certify(space, point)));
    return;
  }
  answer = answer_plan(planner, space, how);
  progress.reset();
  const PlanView view{space, answer, how.memory_cap_bytes, given};
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
        "and --global-batch, to have the best layout found");
  }
  const ReplicaFlags& replicas = model.replicas;
  if (replicas.data_parallel) {
    throw input_error(
        "--data-parallel: follows from --devices where a layout is to be found; leave it away, or "
        "give --schedule");
  }
  PlanFlags flags;
  flags.model = model;
  flags.memory_cap = memory_cap;
  // What an axis has is its value, and nothing of the question.
  const auto fix = [&](const char* axis, const Flag& value) {
    if (value) flags.fix.push_back(fmt::format("{}={}", axis, *value));
  };
  fix("tensor-parallel", std::exchange(flags.model.tensor_parallel, {}));
  fix("micro-batch-size", std::exchange(flags.model.micro_batch_size, {}));
  if (Flag recompute = std::exchange(flags.model.recompute, {})) {
    std::ranges::replace(*recompute, ',', '+');
    fix("recompute", recompute == "attention" ? "selective" : *recompute);
  }
  if (std::exchange(flags.model.sequence_parallel, false)) fix("sequence-parallel", "on");
  fix("overlap-gather", std::exchange(flags.model.overlap_gather, {}));
  fix("zero", replicas.zero);
  fix("gather", replicas.gather);
  fix("bucket-bytes", replicas.bucket_bytes);
  if (replicas.shard_over) fix("shard-over", "node");
  flags.model.replicas = {};
  fix("stages", schedule.stages);
  fix("virtual-stages", schedule.virtual_stages);
  flags.top = "1";
  run(flags, true);
}

void set_up_plan(CommandLine& command) {
  auto flags = std::make_shared<PlanFlags>();
  command.add_flags("What is to be trained", question_flags(*flags));
  command.add_flags("What may be chosen",
                    {{"--only", &flags->only, "AXIS=A,B ...", "values of an axis; see below"},
                     {"--fix", &flags->fix, "AXIS=A ...", "the one value of an axis"},
                     {"--memory-cap", &flags->memory_cap, "BYTES", "default what a device has"}});
  command.add_flags("Search",
                    {{"--top", &flags->top, "N", "so many of the best; default 10"},
                     {"--budget", &flags->budget, "T", "stops after so long, with what it has"},
                     {"--threads", &flags->threads, "N", "default all; the result is the same"}});
  command.add_flags("Output",
                    {{"--why", &flags->why, "LAYOUT", "what a layout ends as, by pipesim's flags"},
                     {"--csv", &flags->csv, "FILE", "all that was evaluated"},
                     {"--export", &flags->export_format, "megatron|torchtitan",
                      "prints what would start the best"},
                     {"--output", &flags->output, "FOLDER", "writes that into files there"},
                     {"--json", &flags->json, "prints one JSON object"}});
  command.set_footer(
      "Axes: tensor-parallel, stages, micro-batch-size, sequence-parallel (on, off),\n"
      "recompute (none, full, or parts joined by +), schedule, virtual-stages, zero,\n"
      "shard-over (all, or the replicas of a node), gather, bucket-bytes,\n"
      "overlap-gather. Data parallelism and microbatches follow.\n"
      "\n"
      "Each layout of the space ends as impossible, by a rule; too large, by a least\n"
      "memory above the cap; dominated, by a least time no shorter than that of the\n"
      "last of the best; or evaluated exactly, as pipesim predicts it.\n"
      "\n"
      "Examples:\n"
      "  pipesim plan --model gpt3-175b --cluster dgx-a100 --devices 4096\n"
      "      --global-batch 2304\n"
      "  pipesim plan --model llama-3-70b --cluster dgx-h100 --devices 512\n"
      "      --global-batch 1024 --only schedule=1f1b,interleaved --fix zero=1\n"
      "  pipesim plan --model llama-3-8b --cluster dgx-h100 --devices 64\n"
      "      --global-batch 128 --why \"--schedule 1f1b --stages 4\"");
  command.set_work([flags] { run(*flags, false); });
}

}  // namespace pipesim::cli
