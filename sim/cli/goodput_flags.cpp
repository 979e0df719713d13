#include "sim/cli/goodput_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cli/seed.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/goodput/checkpoint.h"
#include "sim/request/request.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

constexpr int max_trials = 100'000;

std::vector<FlagHelp> schedule_and_costs(ScheduleFlags& schedule, CostFlags& costs) {
  return {{"--schedule", &schedule.schedule, "", ""},
          {"--stages", &schedule.stages, "", ""},
          {"--microbatches", &schedule.microbatches, "", ""},
          {"--virtual-stages", &schedule.virtual_stages, "", ""},
          {"--group", &schedule.group, "", ""},
          {"--placement", &schedule.placement, "", ""},
          {"--overlap-experts", &schedule.overlap_experts, ""},
          {"--forward", &costs.forward, "", ""},
          {"--backward", &costs.backward, "", ""},
          {"--backward-input", &costs.backward_input, "", ""},
          {"--backward-weight", &costs.backward_weight, "", ""},
          {"--overlapped", &costs.overlapped, "", ""},
          {"--activation-bytes", &costs.activation_bytes, "", ""},
          {"--p2p-latency", &costs.p2p_latency, "", ""},
          {"--p2p-bytes", &costs.p2p_bytes, "", ""},
          {"--p2p-bandwidth", &costs.p2p_bandwidth, "", ""},
          {"--compute-slowdown", &costs.compute_slowdown, "", ""},
          {"--p2p", &costs.p2p, "", ""},
          {"--eager-limit", &costs.eager_limit, "", ""},
          {"--costs", &costs.costs, "", ""},
          {"--layout", &costs.layout, "", ""}};
}

// The first given flag that only a predicted iteration needs. Model, cluster, precision and devices
// are useful without a prediction, too.
std::string first_of_prediction(const GoodputFlags& flags) {
  ScheduleFlags schedule = flags.schedule;
  CostFlags costs = flags.costs;
  if (std::string name = first_given(schedule_and_costs(schedule, costs)); !name.empty()) {
    return name;
  }
  ModelFlags model = flags.costs.model;
  for (Flag* one : {&model.model, &model.cluster, &model.precision, &model.devices}) one->reset();
  return first_model_flag(model);
}

std::vector<std::optional<int>> device_counts(const Flag& flag) {
  if (!flag) return {std::nullopt};
  std::vector<std::optional<int>> counts;
  for (const std::string_view part : split(*flag, ',')) {
    counts.emplace_back(parse_count(part, "--devices"));
  }
  return counts;
}

std::int64_t positive_duration(const std::string& text, std::string_view where,
                               std::string_view why) {
  const std::int64_t ns = parse_duration_ns(text, where);
  if (ns == 0) throw input_error(fmt::format("{}: {} {}", where, quote(text), why));
  return ns;
}

// Predicts the iteration of the job; a model may determine its devices.
void predict_iteration(const GoodputFlags& flags, GoodputJob& job,
                       std::optional<std::int64_t>& saved_bytes) {
  CostFlags costs = flags.costs;
  const bool has_model = costs.model.model || costs.model.cluster;
  if (has_model && job.devices) {
    costs.model.devices = std::to_string(*job.devices);
  } else {
    costs.model.devices.reset();
  }
  PredictionRequest request;
  request.costs = cost_request(costs);
  const bool on_streams = flags.schedule.schedule && names_a_file(*flags.schedule.schedule) &&
                          !flags.schedule.schedule->ends_with(".csv");
  const BytesNeeded needed = request.costs.bytes_needed(on_streams);
  ScheduleFlags schedule = flags.schedule;
  settle_schedule(costs.model.global_batch, request.costs, schedule);
  request.schedule = choose_schedule(schedule, needed);
  const PreparedPrediction prepared = prepare(std::move(request));
  Progress progress;
  progress.show("simulating an iteration");
  job.question.iteration_ns = prepared.predict().iteration_ns();
  if (job.question.iteration_ns == 0) {
    throw input_error("the predicted iteration takes no time; give costs that take some");
  }
  if (!prepared.model) return;
  job.name = prepared.model->model().name;
  job.error_band = error_band(*prepared.model);
  job.devices = static_cast<int>(prepared.model->training().devices());
  saved_bytes = checkpoint_bytes(prepared.model->model(), prepared.model->training().precision);
}

// The same if the iteration's time is given, or unknown.
void read_model(const GoodputFlags& flags, GoodputJob& job,
                std::optional<std::int64_t>& saved_bytes) {
  if (flags.iteration_time) {
    job.question.iteration_ns =
        positive_duration(*flags.iteration_time, "--iteration-time", "is no time for an iteration");
  }
  const ModelFlags& of = flags.costs.model;
  if (!of.model) return;
  std::vector<std::string> notes;
  const Model model = find_model(*of.model, &notes);
  tell(of, notes);
  job.name = model.name;
  saved_bytes = checkpoint_bytes(
      model, of.precision ? parse_precision(*of.precision, "--precision") : Precision::bf16);
}

// How long a save delays training, and is written in the background.
void read_saves(const GoodputFlags& flags, std::optional<std::int64_t> model_bytes,
                GoodputJob& job) {
  Checkpointing& saves = job.question.job;
  job.checkpoint_bytes = model_bytes;
  if (flags.checkpoint_bytes) {
    job.checkpoint_bytes = parse_bytes(*flags.checkpoint_bytes, "--checkpoint-bytes");
  }
  std::int64_t written_ns = 0;
  if (flags.save_time) {
    if (flags.storage || flags.checkpoint_bytes) {
      throw input_error(fmt::format("--save-time and {} both give the time of a save; keep one",
                                    flags.storage ? "--storage" : "--checkpoint-bytes"));
    }
    written_ns = parse_duration_ns(*flags.save_time, "--save-time");
  } else {
    if (!job.checkpoint_bytes) {
      throw input_error(
          "the size of a save is missing: give --model, --checkpoint-bytes or --save-time");
    }
    if (!flags.storage) {
      throw input_error(
          "--storage is missing: the rate at which checkpoints are written, such as 2GB/s, shared "
          "by all devices, or 2GB/s/device");
    }
    const SaveRate rate = parse_save_rate(*flags.storage, "--storage");
    written_ns = moving_ns(*job.checkpoint_bytes, rate, job.devices, "--storage");
  }
  if (!flags.async_checkpoint) {
    if (flags.copy) {
      throw input_error("--copy: belongs to --async-checkpoint; give that, too, or neither");
    }
    saves.hold_ns = written_ns;
    return;
  }
  saves.beside_ns = written_ns;
  if (flags.copy && flags.copy->find("/s") == std::string::npos) {
    saves.hold_ns = parse_duration_ns(*flags.copy, "--copy");
    return;
  }
  if (!job.checkpoint_bytes) {
    throw input_error(
        "--copy is missing: how long an asynchronous save stalls training, such as 200ms");
  }
  SaveRate rate{DeviceSpec().host_bytes_per_second, true};
  if (flags.costs.model.cluster) {
    rate.bytes_per_second = find_cluster(*flags.costs.model.cluster).device.host_bytes_per_second;
  }
  if (flags.copy) rate = parse_save_rate(*flags.copy, "--copy");
  saves.hold_ns = moving_ns(*job.checkpoint_bytes, rate, job.devices, "--copy");
}

// `first` is the number of devices that --mtbf refers to.
std::int64_t mtbf_of(const GoodputFlags& flags, const GoodputJob& job, std::optional<int> first) {
  constexpr std::string_view no_time =
      "between failures leaves no time to train; give a longer one";
  if (flags.mtbf && flags.device_mtbf) {
    throw input_error("--mtbf and --device-mtbf both give the failure rate; keep one");
  }
  if (!flags.mtbf && !flags.device_mtbf) {
    throw input_error(
        "--mtbf is missing: the mean time between failures of the job, such as 3h; or give "
        "--device-mtbf, of one device");
  }
  const std::string_view name = flags.mtbf ? "--mtbf" : "--device-mtbf";
  const std::int64_t given_ns =
      positive_duration(flags.mtbf ? *flags.mtbf : *flags.device_mtbf, name, no_time);
  if (flags.device_mtbf && !job.devices) {
    throw input_error("--device-mtbf: the number of devices is not known; give --devices");
  }
  double ns = static_cast<double>(given_ns);
  if (flags.device_mtbf) {
    ns /= *job.devices;
  } else if (first && job.devices) {
    ns *= static_cast<double>(*first) / *job.devices;
  }
  if (ns > static_cast<double>(max_duration_ns)) {
    throw input_error(fmt::format("{}: is more than {} for {}; give a shorter one", name,
                                  format_duration(max_duration_ns),
                                  plural(*job.devices, "device")));
  }
  const auto rounded = static_cast<std::int64_t>(ns + 0.5);
  if (rounded == 0) {
    throw input_error(fmt::format("{}: {} of {} have less than 1 ns {}", name,
                                  plural(*job.devices, "device"), quote(*flags.device_mtbf),
                                  no_time));
  }
  return rounded;
}

}  // namespace

void add_goodput_flags(CommandLine& command, GoodputFlags& flags) {
  command.add_flags(
      "Failures",
      {{"--mtbf", &flags.mtbf, "T", "mean time between failures of the job"},
       {"--device-mtbf", &flags.device_mtbf, "T", "the same of one device; the job's is T / N"},
       {"--restart", &flags.restart, "T", "from a failure to training again, loading included"}});
  command.add_flags(
      "Checkpoints",
      {{"--checkpoint-bytes", &flags.checkpoint_bytes, "BYTES",
        "per checkpoint; default by the model, see below"},
       {"--storage", &flags.storage, "RATE[/device]",
        "2GB/s, shared by all devices, or 2GB/s/device"},
       {"--save-time", &flags.save_time, "T", "time of a save, instead of bytes and rate"},
       {"--async-checkpoint", &flags.async_checkpoint,
        "copies, then writes while training goes on"},
       {"--copy", &flags.copy, "RATE[/device]|T", "copy to the host; default by the device"},
       {"--interval", &flags.interval, "ITERATIONS",
        "iterations between saves; default the best"}});
  command.add_flags("Iterations", {{"--iteration-time", &flags.iteration_time, "T",
                                    "of one iteration; default predicted, see below"}});
  command.add_flags(
      "Simulated runs",
      {{"--work", &flags.work, "T", "training time; default 30d, or 1,000 mtbf if less"},
       {"--trials", &flags.trials, "N", "runs; default 1000; with 1, lists its failures"},
       {"--seed", &flags.seed, "N", "seed of the failures; default 1"}});
  command.add_flags("Output", {{"--json", &flags.json, "prints the result as one JSON object"}});
  add_schedule_flags(command, flags.schedule, true);
  add_cost_flags(command, flags.costs);
}

std::vector<GoodputJob> goodput_jobs(const GoodputFlags& flags) {
  const std::string predicted = first_of_prediction(flags);
  if (!predicted.empty() && flags.iteration_time) {
    throw input_error(fmt::format(
        "--iteration-time and {} both give the time of an iteration; keep one", predicted));
  }
  if (!flags.restart) {
    throw input_error("--restart is missing: from a failure to training again, such as 5min");
  }
  GoodputQuestion question;
  question.job.restart_ns = parse_duration_ns(*flags.restart, "--restart");
  if (flags.interval) question.interval = parse_count(*flags.interval, "--interval");
  if (flags.work) {
    question.work_ns = positive_duration(*flags.work, "--work", "is no work; give some, as 30d");
  }
  if (flags.seed) question.trials.seed = parse_seed(*flags.seed, "--seed");
  if (flags.trials) question.trials.count = parse_count(*flags.trials, "--trials");
  if (question.trials.count > max_trials) {
    throw input_error(fmt::format("--trials {}: at most {} are simulated", *flags.trials,
                                  format_count(max_trials)));
  }
  const std::vector<std::optional<int>> counts = device_counts(flags.costs.model.devices);
  std::vector<GoodputJob> jobs;
  for (const std::optional<int> devices : counts) {
    GoodputJob& job = jobs.emplace_back();
    job.devices = devices;
    job.question = question;
    std::optional<std::int64_t> model_bytes;
    if (predicted.empty()) {
      read_model(flags, job, model_bytes);
    } else {
      predict_iteration(flags, job, model_bytes);
    }
    job.question.job.mtbf_ns = mtbf_of(flags, job, counts.front());
    read_saves(flags, model_bytes, job);
    if (job.question.iteration_ns) continue;
    if (flags.interval) {
      throw input_error(
          "--interval: is in iterations; give --iteration-time, or a schedule and its costs");
    }
    if (job.question.job.hold_ns == 0) {
      throw input_error(
          "a save that stalls nothing is best after every iteration; give --iteration-time");
    }
  }
  return jobs;
}

}  // namespace pipesim::cli
