// `pipesim plan`: the best layout for so many devices, with the proof of what was left out.
#include "sim/cli/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/advice/ranking.h"
#include "sim/cli/commands.h"
#include "sim/cli/export.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/model_flags.h"
#include "sim/cli/outputs.h"
#include "sim/cli/plan_certificate.h"
#include "sim/cli/plan_flags.h"
#include "sim/cli/plan_from.h"
#include "sim/cli/plan_refusal.h"
#include "sim/cli/plan_report.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/plan/trainer.h"
#include "sim/schedule/size.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

std::int64_t most_actions_within(std::chrono::nanoseconds budget) {
  constexpr std::int64_t most = std::int64_t{1} << 21;  // for its memory
  return std::min(most, actions_within(budget));
}

// What a trainer does unless it is told otherwise: sums 16-bit gradients in fp32.
void assume_defaults_of(const PlanTrainer& trainer, ModelFlags& flags) {
  const bool has_bf16 = !flags.precision || *flags.precision == "bf16" || *flags.precision == "fp8";
  if (has_bf16 && !flags.gradient_bytes) flags.gradient_bytes = "4";
  if (!flags.software && !trainer.software.empty()) flags.software = trainer.software;
}

// A space and what was found in it.
//
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

// `outside`: flags that no axis has, which a prediction counts.
PlanCertificate certificate_of(const PlanFlags& flags, const PlanSpace& space,
                               const PlanPoint& point, const FlagValues& layout,
                               const std::string& outside, const PlanLimits& limits) {
  if (!outside.empty()) {
    const FlagsOutcome found = predicted(flags, layout);
    return {
        {}, found.time_ns, found.memory_bytes, PlanOutcome{0, found.time_ns, found.memory_bytes}};
  }
  PlanCertificate certificate = PointCertifier(space, limits).certify(point);
  if (!certificate.rule && !certificate.outcome) {
    throw work_error("--budget: time ran out before the layout of --why was evaluated; give more");
  }
  return certificate;
}

// What a layout ends as, and how many splits of work have a faster one.
std::string certificate_text(const PlanFlags& flags, Searched& searched, const PlanPoint& point,
                             const PlanCertificate& certificate, const std::string& outside,
                             std::int64_t cap_bytes, const PlanLimits& limits,
                             const std::vector<std::string>& given) {
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
  view.outside = outside;
  const std::vector<PlanOutcome>& best = searched.result.best;
  if (outside.empty() && certificate.outcome && !best.empty() &&
      certificate.outcome->time_ns > best.front().time_ns) {
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

// What a trainer's limits cost: the best layout without them, as a comment of its configuration.
std::string cost_of_limits(const Searched& best, const PlanTrainer& trainer,
                           const PlanOutcome& first, PlanSpace free, const PlanLimits& limits) {
  const auto line = [](const PlanOutcome& one, const PlanSpace& space) {
    return fmt::format("{}: {}\n", format_time(one.time_ns),
                       fmt::join(space.flags(space.axes().at(one.index)), " "));
  };
  std::string text = "# Predicted: " + line(first, best.space);
  LayoutPlanner planner(free, limits);
  PlanSearch how = best.how;
  how.top = 1;
  how.below = first.time_ns;
  const PlanResult found = planner.best(how);
  if (!found.best.empty()) {
    const PlanOutcome& other = found.best.front();
    const double part = static_cast<double>(other.time_ns) / static_cast<double>(first.time_ns) - 1;
    return text + fmt::format("# {:.1f} %, with what {} lacks: ", 100 * part, trainer.name) +
           line(other, free);
  }
  if (found.counts.not_reached > 0) return text;
  return text + fmt::format("# None is faster of those that {} lacks.\n", trainer.name);
}

// The time of a layout without the exchanges that user buffers hide by default; absent where they
// hide none.
std::optional<std::int64_t> without_overlap_ns(const PlanSpace& space, const Finalist& one) {
  const PlanPoint point = space.axes().at(one.outcome.index);
  PlanQuestion question = space.question();
  const TrainingRequest training = space.training(point);
  const bool hides = point.tensor_parallel > 1 && !training.training.hidden_exchange &&
                     hidden_exchange(training.training, training.cluster.device.software) > 0;
  if (!hides) return std::nullopt;
  question.training.training.hidden_exchange = 0;
  const PlanSpace other(std::move(question));
  return candidate_of(other, point, one.outcome, one.layout).prediction.metrics.makespan_ns;
}

// In short: the best alone.
void run(PlanFlags flags, bool in_short) {
  PlanLimits limits;
  std::optional<Budget> budget;
  if (flags.budget) {
    const std::chrono::nanoseconds time(parse_time_ns(*flags.budget, "--budget"));
    limits.budget = &budget.emplace(time);
    limits.max_actions = most_actions_within(time);
  }
  check_outputs({{"--model", file_of(flags.model.model)},
                 {"--cluster", file_of(flags.model.cluster)},
                 {"--from", flags.from},
                 {"--csv", flags.csv, true}});
  check_export_flags(flags);
  const PlanTrainer* trainer = nullptr;
  std::optional<PlanStart> start;
  if (flags.from) {
    start = read_start(flags);
    flags.allowed = start->layout;
    trainer = start->trainer;
  } else if (flags.vocabulary || !flags.ignored.empty()) {
    throw input_error("--vocabulary and --ignore are for the script of --from; give that, too");
  }
  if (flags.export_format) {
    trainer = &plan_trainer(*flags.export_format);
    assume_defaults_of(*trainer, flags.model);
  }
  const std::vector<int> devices = numbers_of_devices(flags.model.devices);
  if (flags.why && devices.size() > 1) {
    throw input_error("--why: for how many devices? give --devices one number");
  }
  FlagValues why;
  if (flags.why) {
    why = flag_values(*flags.why, "--why");
    take_question(why, flags, "--why");
  }
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
  std::string outside;
  std::optional<PlanCertificate> certificate;
  if (flags.why) {
    const PlanSpace space = space_of(flags, question, devices.front(), nullptr);
    if (why.contains("--accumulate")) why.erase("--microbatches");
    FlagValues inside = why;
    const int per_node = question.training.cluster.devices_per_node;
    for (const char* name :
         {"--layout", "--group", "--overlap-experts", "--accumulate", "--shard-over"}) {
      const auto found = inside.find(name);
      if (found == inside.end()) continue;
      if (name == std::string_view("--shard-over")) {  // a node's replicas are on the axis
        const auto tensor = inside.find("--tensor-parallel");
        const int degree =
            tensor == inside.end() ? 1 : parse_count(tensor->second, "--tensor-parallel");
        const std::string& over = found->second;
        if (over == "all" || over == "node" || over == std::to_string(per_node / degree)) continue;
      }
      outside += fmt::format(" {} {}", name, shell_word(found->second));
      inside.erase(found);
    }
    asked = point_of(space, inside, "--why");
    certificate = certificate_of(flags, space, *asked, why, outside, limits);
  }
  std::vector<std::unique_ptr<Searched>> searched;
  std::vector<PlanOfDevices> by_devices;
  for (const int count : devices) {
    PlanSpace space = space_of(flags, question, count, trainer);
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
      return std::optional(space_of(flags, other, other.devices, trainer));
    } catch (const Error&) {
      return std::optional<PlanSpace>();
    }
  };
  if (flags.why) {
    const std::string text = certificate_text(flags, best, *asked, *certificate, outside,
                                              how.memory_cap_bytes, limits, given);
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
    std::vector<ExportedFile> files =
        export_layout(*flags.export_format, best.space, point, first.layout);
    files.front().text.insert(
        0, cost_of_limits(best, *trainer, first.outcome,
                          space_of(flags, question, devices[chosen], nullptr), limits));
    write_export(files, flags.output);
    return;
  }
  answer = answer_plan(best.planner, best.space, std::move(best.result), best.how, limits);
  if (answer.top.size() > printed) {
    answer.top.erase(answer.top.begin() + static_cast<std::ptrdiff_t>(printed), answer.top.end());
  }
  set_best(flags, best.space, answer.top.front(), by_devices[chosen]);
  limits.allow(
      [&] { view.without_overlap_ns = without_overlap_ns(best.space, answer.top.front()); });
  if (best.riskier) {  // splitting layers may have made the best as fast
    Finalist riskier = finalists(best.space, {*best.riskier}, how, limits).front();
    const bool is_faster = riskier.outcome.time_ns < answer.top.front().outcome.time_ns;
    if (is_faster) view.riskier = std::move(riskier);
  }
  if (objective == PlanObjective::time) {
    view.nearby = nearby_batch(best.space.question(), answer.top.front().outcome, best.how,
                               other_space, limits);
  }
  std::vector<PlanStep> steps;
  Json from;
  if (start) {
    progress->show("finding the way to the best");
    const Finalist& first = answer.top.front();
    PlanFlags asked_for = flags;
    asked_for.model.devices = std::to_string(devices[chosen]);
    steps = steps_to(asked_for, *start, space_of({}, question, devices[chosen], nullptr),
                     best.space.axes().at(first.outcome.index), first.layout,
                     best.how.memory_cap_bytes, limits);
    from = steps_json(*start, steps);
    view.from = &from;
  }
  progress.reset();
  if (csv) {
    csv->write(plan_csv(view));
    csv->commit();
  }
  if (flags.json) {
    print(plan_json(view));
    return;
  }
  if (start)
    print(steps_report(*start, steps, how.memory_cap_bytes, best.is_certain,
                       standard_output().width));
  print(plan_report(view, standard_output()));
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
    axis_flag(flags, axis) = std::move(value);
  };
  ModelFlags& own = flags.model;
  fix("tensor-parallel", std::exchange(own.tensor_parallel, {}));
  fix("context-parallel", std::exchange(own.context_parallel, {}));
  fix("expert-parallel", std::exchange(own.expert_parallel, {}));
  fix("expert-tensor-parallel", std::exchange(own.expert_tensor_parallel, {}));
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
  add_plan_flags(command, *flags);
  command.set_work([flags] { run(*flags, false); });
}

}  // namespace pipesim::cli
