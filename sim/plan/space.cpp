#include "sim/plan/space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/cost/estimate/training.h"
#include "sim/flags/schedule_choice.h"
#include "sim/plan/axes.h"
#include "sim/plan/trainer.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/size.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::string switch_text(bool on) { return on ? "on" : "off"; }

// An axis by its name, as texts of its values and as a way to drop some of them.
struct NamedAxis {
  std::string_view name;
  std::vector<std::string> values;  // distinct, in their order
  std::function<void(const std::function<bool(const std::string&)>&)> keep;
};

template <typename Values, typename TextOf>
NamedAxis named_axis(std::string_view name, Values& values, TextOf text_of) {
  NamedAxis axis{name, {}, {}};
  for (const auto& value : values) {
    std::string text = text_of(value);
    if (std::ranges::find(axis.values, text) == axis.values.end()) {
      axis.values.push_back(std::move(text));
    }
  }
  axis.keep = [&values, text_of](const std::function<bool(const std::string&)>& is_kept) {
    Values kept;
    for (const auto& value : values) {
      if (is_kept(text_of(value))) kept.push_back(value);
    }
    values = std::move(kept);
  };
  return axis;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::int64_t megabyte = 1'000'000;
  return bytes % megabyte == 0 ? fmt::format("{}MB", bytes / megabyte) : fmt::format("{}B", bytes);
}

// Several names may speak of one axis.
std::vector<NamedAxis> named_axes(PlanAxes& axes) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const auto of_replicas = [&](std::string_view name, auto text_of) {
    return named_axis(name, axes.replicas, text_of);
  };
  const auto of_splits = [&](std::string_view name, int PlanSplit::*degree) {
    return named_axis(name, axes.splits,
                      [degree](const PlanSplit& value) { return std::to_string(value.*degree); });
  };
  return {of_splits("tensor-parallel", &PlanSplit::tensor_parallel),
          of_splits("context-parallel", &PlanSplit::context_parallel),
          of_splits("expert-parallel", &PlanSplit::expert_parallel),
          of_splits("expert-tensor-parallel", &PlanSplit::expert_tensor_parallel),
          named_axis("stages", axes.stages, number),
          named_axis("micro-batch-size", axes.micro_batch_size, number),
          named_axis("sequence-parallel", axes.sequence_parallel,
                     [](bool value) { return switch_text(value); }),
          named_axis("recompute", axes.recompute, recompute_name),
          named_axis("schedule", axes.schedules,
                     [](const PlanSchedule& value) { return std::string(value.family->name); }),
          named_axis("virtual-stages", axes.schedules,
                     [](const PlanSchedule& value) { return std::to_string(value.chunks); }),
          of_replicas("zero", [](const PlanReplicas& value) { return std::to_string(value.zero); }),
          of_replicas("shard-over",
                      [](const PlanReplicas& value) {
                        return std::string(value.within_node ? "node" : "all");
                      }),
          of_replicas("gather",
                      [](const PlanReplicas& value) {
                        return std::string(value.gather ? gather_name(*value.gather) : "off");
                      }),
          of_replicas("bucket-bytes", bucket_text),
          of_replicas("overlap-gather",
                      [](const PlanReplicas& value) { return switch_text(value.gathers_ahead); })};
}

constexpr std::string_view data_parallel_axis = "data-parallel";

// An axis by its name, or by the short one that papers use.
std::string_view axis_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> short_names[] = {
      {"tp", "tensor-parallel"},        {"pp", "stages"},
      {"vpp", "virtual-stages"},        {"dp", data_parallel_axis},
      {"mbs", "micro-batch-size"},      {"sp", "sequence-parallel"},
      {"cp", "context-parallel"},       {"ep", "expert-parallel"},
      {"etp", "expert-tensor-parallel"}};
  for (const auto& [text, axis] : short_names) {
    if (name == text) return axis;
  }
  return name;
}

}  // namespace

std::string bucket_text(const PlanReplicas& replicas) {
  return replicas.bucket_bytes ? bytes_text(*replicas.bucket_bytes) : "off";
}

std::int64_t PlanAxes::size() const {
  return std::ssize(splits) * std::ssize(stages) * std::ssize(micro_batch_size) *
         std::ssize(sequence_parallel) * std::ssize(recompute) * cell_size();
}

PlanPoint PlanAxes::at(std::int64_t index) const {
  const auto take = [&](const auto& values) {
    const std::int64_t size = std::ssize(values);
    const auto at = static_cast<std::size_t>(index % size);
    index /= size;
    return values[at];
  };
  PlanPoint point;
  point.replicas = take(replicas);
  point.schedule = take(schedules);
  point.recompute = take(recompute);
  point.sequence_parallel = take(sequence_parallel);
  point.micro_batch_size = take(micro_batch_size);
  point.stages = take(stages);
  static_cast<PlanSplit&>(point) = take(splits);
  return point;
}

std::int64_t PlanAxes::split_of(std::int64_t index) const {
  const std::int64_t by_schedule = index / std::ssize(replicas);
  const std::int64_t by_batch =
      by_schedule / std::ssize(schedules) / std::ssize(recompute) / std::ssize(sequence_parallel);
  const std::int64_t by_stages = by_batch / std::ssize(micro_batch_size);
  const bool has_pipeline = stages[static_cast<std::size_t>(by_stages % std::ssize(stages))] > 1;
  if (!has_pipeline) return by_batch * std::ssize(schedules);
  const Family* family =
      schedules[static_cast<std::size_t>(by_schedule % std::ssize(schedules))].family;
  const auto first = std::ranges::find(schedules, family, &PlanSchedule::family);
  return by_batch * std::ssize(schedules) + (first - schedules.begin());
}

std::string_view plan_rule_text(PlanRule rule) {
  switch (rule) {
    case PlanRule::tensor_parallel: return "tensor parallelism splits heads, and fits into nodes";
    case PlanRule::context_parallel: return "context parallelism splits heads and tokens";
    case PlanRule::devices: return "tensor x context x pipeline parallelism divides the devices";
    case PlanRule::data_parallel: return "there are as many replicas as asked for";
    case PlanRule::global_batch: return "replicas x micro-batch divides the global batch";
    case PlanRule::sequence_parallel: return "sequence parallelism splits the tokens";
    case PlanRule::expert_parallel:
      return "experts spread over tensor x context x data-parallel ranks";
    case PlanRule::recompute: return "the model has the parts to recompute";
    case PlanRule::replicas: return "a node's replicas divide all of them";
    case PlanRule::stages: return "every virtual stage has a block";
    case PlanRule::schedule: return "the schedule allows that many stages and microbatches";
    case PlanRule::trainer: return "the trainer can do it";
  }
  return "";
}

PlanSpace::PlanSpace(PlanQuestion question) : question_(std::move(question)) {
  const TrainingRequest& asked = question_.training;
  const Model& model = asked.model;
  if (model.is_listed()) {
    throw input_error(fmt::format(
        "--model {}: its layers are a list, which can't be planned for; give a transformer",
        printable(model.name)));
  }
  add_splits(1);
  // Shorter parts of sequences are rarely worth their exchange; --only cp=2 tries them.
  constexpr std::int64_t least_part = 8192;
  if (asked.training.attention == Attention::fused) {
    for (int parts = 2; asked.training.sequence_length / parts >= least_part; parts *= 2) {
      add_splits(parts);
    }
  }
  axes_.stages = divisors_up_to<int>(question_.devices, model.blocks);
  // More than so many tokens fill any device by far.
  constexpr std::int64_t max_tokens = 1 << 17;
  axes_.micro_batch_size = divisors_up_to<std::int64_t>(
      question_.global_batch,
      std::max<std::int64_t>(1, max_tokens / asked.training.sequence_length));
  axes_.sequence_parallel = {false, true};
  axes_.recompute = plan_recomputes(model);
  axes_.schedules = plan_schedules(model.blocks);
  axes_.replicas = plan_replicas();

  for (const Recompute& recompute : axes_.recompute) {
    try {
      check_recompute(recompute, model);
      recomputes_.push_back(recompute);
    } catch (const Error&) {
      continue;  // the model has no such part
    }
  }
}

void PlanSpace::add_splits(int context_parallel) {
  const Model& model = question_.training.model;
  const int per_node = question_.training.cluster.devices_per_node;
  const auto is_split = [&](const PlanSplit& one) {
    return one.context_parallel == context_parallel;
  };
  if (std::ranges::any_of(axes_.splits, is_split)) return;
  for (const int tensor : divisors_up_to<int>(per_node, per_node)) {
    const PlanSplit dense{tensor, context_parallel};
    if (context_parallel == 1 && splits_tensors(dense, false)) whole_tensors_.push_back(tensor);
    if (splits_sequences(dense)) contexts_.push_back(dense);
    if (splits_tensors(dense, true)) tokens_.push_back(dense);
    for (const PlanSplit& split : plan_splits(model, dense)) axes_.splits.push_back(split);
  }
}

bool PlanSpace::splits_sequences(const PlanSplit& split) const {
  Training training = question_.training.training;
  training.tensor_parallel = split.tensor_parallel;
  training.context_parallel = split.context_parallel;
  try {
    check_context(training, question_.training.model);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool PlanSpace::splits_tensors(const PlanSplit& split, bool sequence_parallel) const {
  Training training = question_.training.training;
  training.tensor_parallel = split.tensor_parallel;
  training.context_parallel = split.context_parallel;
  training.sequence_parallel = sequence_parallel;
  try {
    check_shards(training, question_.training.model, &question_.training.cluster);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void PlanSpace::add_chunks(int chunks) {
  if (chunks < 2 || chunks > question_.training.model.blocks) return;
  std::vector<PlanSchedule>& all = axes_.schedules;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Family* family = all[i].family;
    const auto is_same = [&](const PlanSchedule& one) {
      return one.family == family && one.chunks == chunks;
    };
    if (family->many_chunks && std::ranges::none_of(all, is_same)) {
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(i), {family, chunks});
    }
  }
}

void PlanSpace::add_bucket(std::int64_t bytes) {
  std::vector<PlanReplicas>& all = axes_.replicas;
  for (std::size_t i = 0; i < all.size(); ++i) {
    PlanReplicas own = all[i];
    if (!std::exchange(own.bucket_bytes, bytes)) continue;
    if (std::ranges::find(all, own) == all.end()) {
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(i), own);
    }
  }
}

void PlanSpace::add_recompute(const Recompute& recompute) {
  if (std::ranges::find(axes_.recompute, recompute) != axes_.recompute.end()) return;
  check_recompute(recompute, question_.training.model);
  axes_.recompute.push_back(recompute);
  recomputes_.push_back(recompute);
}

void PlanSpace::allow(std::string_view axis, std::string_view value) {
  const std::string where = fmt::format("--{}", axis);
  if (axis == "context-parallel") add_splits(parse_count(value, where));
  if (axis == "virtual-stages") add_chunks(parse_count(value, where));
  if (axis == "bucket-bytes" && value != "off") add_bucket(parse_bytes(value, where));
  if (axis == "recompute" && value.find_first_of(":+,") != value.npos) {
    std::string parts(value);
    std::ranges::replace(parts, '+', ',');
    add_recompute(parse_recompute(parts));
  }
}

void PlanSpace::narrow(std::string_view axis_and_values, std::string_view flag) {
  const std::size_t equals = axis_and_values.find('=');
  const std::string_view name = axis_of(axis_and_values.substr(0, equals));
  const std::string where =
      flag.empty() ? fmt::format("--{}", name) : fmt::format("{} {}", flag, name);
  std::vector<std::string> asked;
  if (equals != std::string_view::npos && equals + 1 < axis_and_values.size()) {
    for (const std::string_view value : split(axis_and_values.substr(equals + 1), ',')) {
      asked.emplace_back(value);
    }
  }
  if (name == data_parallel_axis && !asked.empty()) {
    std::vector<int> degrees;
    for (const std::string& value : asked) degrees.push_back(parse_count(value, where));
    if (!data_parallel_.empty()) {
      std::erase_if(degrees, [&](int one) { return std::ranges::count(data_parallel_, one) == 0; });
    }
    if (degrees.empty()) {
      throw input_error(
          fmt::format("{}: {} was not among those asked for before", where, fmt::join(asked, ",")));
    }
    data_parallel_ = std::move(degrees);
    return;
  }
  if (narrowed_.emplace(name).second) {
    for (const std::string& value : asked) allow(name, value);
  }
  std::vector<NamedAxis> axes = named_axes(axes_);
  const auto axis = std::ranges::find(axes, name, &NamedAxis::name);
  if (axis == axes.end() && name != data_parallel_axis) {
    std::vector<std::string> names{std::string(data_parallel_axis)};
    for (const NamedAxis& one : axes) names.emplace_back(one.name);
    throw input_error(fmt::format("{}: {}", flag, unknown_name("axis", std::string(name), names)));
  }
  if (asked.empty()) {
    throw input_error(
        fmt::format("{}: which values? give some, as in {}={}", where, name,
                    axis == axes.end() ? "8" : fmt::format("{}", fmt::join(axis->values, ","))));
  }
  // "norms,activation" is one value, whose comma is a plus here.
  for (std::string& value : asked) {
    if (name == "recompute") std::ranges::replace(value, '+', ',');
    if (name == "schedule") {
      if (names_a_file(value)) {
        throw input_error(fmt::format(
            "{}: {} is a file, whose stages and microbatches are given; a plan needs a name", where,
            quote(value)));
      }
      value = family(value).name;
    }
    if (name == "bucket-bytes" && value != "off") {
      value = bytes_text(parse_bytes(value, where));
    }
    if (std::ranges::find(axis->values, value) == axis->values.end()) {
      throw input_error(fmt::format("{}: {} is not in the search space; known: {}", where,
                                    quote(value), fmt::join(axis->values, ", ")));
    }
  }
  axis->keep(
      [&](const std::string& value) { return std::ranges::find(asked, value) != asked.end(); });
}

std::optional<PlanRule> PlanSpace::broken_rule(const PlanPoint& point) const {
  if (const auto rule = broken_rule_of_cell(point)) return rule;
  if (const auto rule = broken_rule(point, point.replicas)) return rule;
  return broken_rule(point, point.schedule);
}

std::optional<PlanRule> PlanSpace::broken_rule_of_cell(const PlanPoint& cell) const {
  const auto has = [](const auto& values, const auto& value) {
    return std::ranges::find(values, value) != values.end();
  };
  if (!has(whole_tensors_, cell.tensor_parallel)) return PlanRule::tensor_parallel;
  const PlanSplit dense{cell.tensor_parallel, cell.context_parallel};
  if (!has(contexts_, dense)) return PlanRule::context_parallel;
  const std::int64_t each =
      std::int64_t{cell.tensor_parallel} * cell.context_parallel * cell.stages;
  if (question_.devices % each != 0) return PlanRule::devices;
  if (!data_parallel_.empty() && !has(data_parallel_, static_cast<int>(question_.devices / each))) {
    return PlanRule::data_parallel;
  }
  if (question_.global_batch % (question_.devices / each * cell.micro_batch_size) != 0) {
    return PlanRule::global_batch;
  }
  const bool is_spread =
      cell.expert_parallel > 1 || cell.expert_tensor_parallel != cell.tensor_parallel;
  if (cell.sequence_parallel ? !has(tokens_, dense) : cell.tensor_parallel > 1 && is_spread) {
    return PlanRule::sequence_parallel;
  }
  const std::int64_t ranks = question_.devices / cell.stages;
  if (ranks % (std::int64_t{cell.expert_parallel} * cell.expert_tensor_parallel) != 0) {
    return PlanRule::expert_parallel;
  }
  if (!has(recomputes_, cell.recompute)) return PlanRule::recompute;
  return std::nullopt;
}

std::optional<PlanRule> PlanSpace::broken_rule(const PlanPoint& cell,
                                               const PlanSchedule& schedule) const {
  if (std::int64_t{cell.stages} * schedule.chunks > question_.training.model.blocks) {
    return PlanRule::stages;
  }
  PlanPoint point = cell;
  point.schedule = schedule;
  try {
    const Shape shape = resolve_shape(*schedule.family, this->schedule(point));
    if (trainer_ != nullptr && !trainer_->has_point(point, shape.microbatches)) {
      return PlanRule::trainer;
    }
    if (schedule.family->objection != nullptr && !schedule.family->objection(shape).empty()) {
      return PlanRule::schedule;
    }
    return waits_for_itself(*schedule.family, shape) ? std::optional(PlanRule::schedule)
                                                     : std::nullopt;
  } catch (const Error&) {
    return PlanRule::schedule;
  }
}

std::optional<PlanRule> PlanSpace::broken_rule(const PlanPoint& cell,
                                               const PlanReplicas& replicas) const {
  if (trainer_ != nullptr && !trainer_->has_replicas(replicas, cell.stages)) {
    return PlanRule::trainer;
  }
  if (!replicas.within_node) return std::nullopt;
  const int of_node = question_.training.cluster.devices_per_node / cell.tensor_parallel;
  return this->replicas(cell) % of_node == 0 ? std::nullopt : std::optional(PlanRule::replicas);
}

bool PlanSpace::repeats(const PlanPoint& cell) const {
  return cell.sequence_parallel && cell.tensor_parallel == 1 &&
         std::ranges::count(axes_.sequence_parallel, false) > 0;
}

bool PlanSpace::repeats(const PlanPoint& cell, const PlanSchedule& schedule) const {
  const auto has = [&](std::string_view name, int chunks) {
    return schedule.family->name != name &&
           std::ranges::any_of(axes_.schedules, [&](const PlanSchedule& one) {
             return one.family->name == name && one.chunks == chunks;
           });
  };
  // Without a pipeline trainers have one order: a forward and a backward in turn.
  if (cell.stages == 1) return has("1f1b", 1);
  // In whole groups PyTorch's order is Megatron-LM's.
  return schedule.family->name == "interleaved-pytorch" && has("interleaved", schedule.chunks) &&
         microbatches(cell) % cell.stages == 0;
}

bool PlanSpace::repeats(const PlanPoint& cell, const PlanReplicas& replicas) const {
  const int ranks = question_.devices / cell.stages;
  const bool is_alone =
      this->replicas(cell) == 1 && ranks == cell.expert_parallel * cell.expert_tensor_parallel;
  if (is_alone) return replicas != axes_.replicas.front();
  if (!replicas.within_node) return false;
  const auto has = [&](const PlanReplicas& one) {
    return std::ranges::count(axes_.replicas, one) > 0;
  };
  const int of_node = question_.training.cluster.devices_per_node / cell.tensor_parallel;
  if (of_node == 1) return has({.bucket_bytes = replicas.bucket_bytes});
  PlanReplicas over_all = replicas;
  over_all.within_node = false;
  return of_node == this->replicas(cell) && has(over_all);
}

// Of many microbatches a few full groups say the same, and what is left behind them.
bool PlanSpace::waits_for_itself(const Family& family, const Shape& shape) const {
  if (!family.many_chunks || shape.microbatches % shape.group == 0) return false;
  constexpr int groups = 4;
  ScheduleRequest few{std::string(family.name), shape.ranks, shape.microbatches, shape.chunks};
  few.microbatches =
      std::min(few.microbatches, shape.group * groups + few.microbatches % shape.group);
  constexpr double max_actions = 1 << 20;  // with more stages than models have blocks: not tried
  if (actions_of(family, few) > max_actions) return true;
  const std::lock_guard lock(waits_->guard);
  const std::tuple key{&family, few.ranks, shape.chunks, few.microbatches};
  const auto found = waits_->known.find(key);
  if (found != waits_->known.end()) return found->second;
  const bool waits = find_deadlock(generate(few), SendMode::buffered).has_value();
  waits_->known.emplace(key, waits);
  return waits;
}

int PlanSpace::data_parallel(const PlanPoint& point) const {
  return question_.devices / (point.tensor_parallel * point.context_parallel * point.stages);
}

int PlanSpace::microbatches(const PlanPoint& point) const {
  return static_cast<int>(question_.global_batch / (data_parallel(point) * point.micro_batch_size));
}

std::optional<int> PlanSpace::shard_over(const PlanPoint& point) const {
  if (!point.replicas.within_node) return std::nullopt;
  return question_.training.cluster.devices_per_node / point.tensor_parallel;
}

TrainingRequest PlanSpace::training(const PlanPoint& point) const {
  TrainingRequest request = question_.training;
  Training& training = request.training;
  training.tensor_parallel = point.tensor_parallel;
  training.context_parallel = point.context_parallel;
  training.expert_parallel = point.expert_parallel;
  training.expert_tensor_parallel.reset();
  if (request.model.has_experts()) training.expert_tensor_parallel = point.expert_tensor_parallel;
  training.micro_batch_size = point.micro_batch_size;
  training.sequence_parallel = point.sequence_parallel;
  training.recompute = point.recompute;
  training.zero = point.replicas.zero;
  training.shard_over = shard_over(point);
  training.gather = point.replicas.gather;
  training.bucket_bytes = point.replicas.bucket_bytes;
  request.has_buckets = true;
  request.gathers_ahead = point.replicas.gathers_ahead;
  request.devices = question_.devices;
  return request;
}

ScheduleRequest PlanSpace::schedule(const PlanPoint& point) const {
  ScheduleRequest request;
  request.name = point.schedule.family->name;
  request.ranks = point.stages;
  request.microbatches = microbatches(point);
  if (point.schedule.family->many_chunks) request.chunks = point.schedule.chunks;
  return request;
}

std::vector<std::string> PlanSpace::flags(const PlanPoint& point) const {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, std::string value) {
    flags.emplace_back(flag);
    flags.push_back(std::move(value));
  };
  add("--schedule", std::string(point.schedule.family->name));
  add("--stages", std::to_string(point.stages));
  if (point.schedule.family->many_chunks) {
    add("--virtual-stages", std::to_string(point.schedule.chunks));
  }
  if (point.tensor_parallel > 1) add("--tensor-parallel", std::to_string(point.tensor_parallel));
  if (point.context_parallel > 1) {
    add("--context-parallel", std::to_string(point.context_parallel));
  }
  if (point.expert_parallel > 1) add("--expert-parallel", std::to_string(point.expert_parallel));
  if (point.expert_tensor_parallel != point.tensor_parallel) {
    add("--expert-tensor-parallel", std::to_string(point.expert_tensor_parallel));
  }
  if (point.sequence_parallel) flags.emplace_back("--sequence-parallel");
  if (point.micro_batch_size > 1) {
    add("--micro-batch-size", std::to_string(point.micro_batch_size));
  }
  if (point.recompute.exists()) add("--recompute", recompute_name(point.recompute));
  const PlanReplicas& replicas = point.replicas;
  if (replicas.zero > 0) add("--zero", std::to_string(replicas.zero));
  if (const auto over = shard_over(point)) add("--shard-over", std::to_string(*over));
  if (replicas.gather) add("--gather", std::string(gather_name(*replicas.gather)));
  if (replicas.bucket_bytes || this->replicas(point) > 1)
    add("--bucket-bytes", bucket_text(replicas));
  if (replicas.zero == 1 || replicas.zero == 2) {
    add("--overlap-gather", switch_text(replicas.gathers_ahead));
  }
  return flags;
}

}  // namespace pipesim
