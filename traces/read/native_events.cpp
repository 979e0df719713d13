#include "traces/read/native_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "traces/base/decimal.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t not_said = -1;

}  // namespace

// The args of a slice; unset if missing.
struct NativeEvents::Arguments {
  explicit Arguments(std::span<const TraceArgument> args) {
    for (const auto& [key, text] : args) {
      switch (key.size()) {
        case 4:
          if (key == "kind") kind = text;
          if (key == "rank") rank = whole_number(text);
          break;
        case 5:
          if (key == "stage") stage = whole_number(text);
          if (key == "bytes") bytes = whole_number(text);
          if (key == "layer") layer = whole_number(text);
          if (key == "again") again = text == "true";
          break;
        case 8:
          if (key == "taken_ns") preempted_ns = whole_number(text);
          break;
        case 9:
          if (key == "iteration") iteration = whole_number(text);
          if (key == "queued_ns") queued_ns = whole_number(text);
          break;
        case 7:
          if (key == "replica") replica = whole_number(text);
          break;
        case 10:
          if (key == "microbatch") microbatch = whole_number(text);
          if (key == "occurrence") occurrence = whole_number(text);
          break;
        case 13:
          if (key == "backward_kind") backward_kind = text;
          if (key == "first_part_ns") first_part_ns = whole_number(text);
          break;
        case 14:
          if (key == "backward_stage") backward_stage = whole_number(text);
          break;
        case 19:
          if (key == "backward_microbatch") backward_microbatch = whole_number(text);
          break;
        default: break;
      }
    }
  }

  std::string_view kind, backward_kind;
  std::optional<std::int64_t> stage, rank, iteration, microbatch, occurrence, bytes, queued_ns,
      preempted_ns, first_part_ns, layer, replica, backward_stage, backward_microbatch;
  bool again = false;
};

namespace {

bool is_index(const std::optional<std::int64_t>& value) {
  return value && *value >= 0 && *value <= max_index;
}

// Nothing if args are missing. A collective has an occurrence, and so has the background write of a
// SAVE.
std::optional<Action> action_of(std::string_view kind_text,
                                const std::optional<std::int64_t>& stage,
                                const std::optional<std::int64_t>& microbatch,
                                const std::optional<std::int64_t>& occurrence = {}) {
  const auto kind = parse_kind(kind_text);
  if (!kind || !is_index(stage)) return std::nullopt;
  Action action = make_action(static_cast<std::int32_t>(*stage), *kind);
  if (takes_microbatch(*kind)) {
    if (!is_index(microbatch)) return std::nullopt;
    action.microbatch = static_cast<std::int32_t>(*microbatch);
  } else if ((is_of_replicas(*kind) || *kind == Kind::SAVE) && occurrence) {
    if (*occurrence < 0 || *occurrence >= no_number) return std::nullopt;
    action.number = static_cast<std::uint16_t>(*occurrence);
  }
  return action;
}

// The member for the value of an own counter; nullptr for other keys.
std::int64_t* value_of(std::string_view key, MemorySample& sample) {
  if (key == "chunks") return &sample.chunks;
  if (key == "weights") return &sample.states.weights;
  if (key == "gradients") return &sample.states.gradients;
  if (key == "optimizer") return &sample.states.optimizer;
  if (key == "activations") return &sample.working.activations;
  if (key == "weight_residue") return &sample.working.residue;
  if (key == "send_buffers") return &sample.working.send_buffers;
  if (key == "receive_buffers") return &sample.working.receive_buffers;
  if (key == "unsharded") return &sample.working.unsharded;
  if (key == "workspace") return &sample.working.workspace;
  return nullptr;
}

// Merges later values of counters at the same instant.
void add_said(MemorySample& said, const MemorySample& later) {
  if (later.chunks != not_said) said.chunks = later.chunks;
  if (later.states.weights == not_said) return;
  said.states = later.states;
  said.working = later.working;
}

// The first of several equal ones; in the order of time.
MemorySamples fullest_of_each_rank(const MemorySamples& samples) {
  std::map<std::int32_t, std::size_t> fullest;
  const auto total = [](const MemorySample& one) {
    return one.states.total() + one.working.total();
  };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto [at, is_first] = fullest.try_emplace(samples[i].rank, i);
    if (!is_first && total(samples[i]) > total(samples[at->second])) at->second = i;
  }
  std::set<std::size_t> places;
  for (const auto& [rank, place] : fullest) places.insert(place);
  MemorySamples result;
  for (const std::size_t place : places) result.push_back(samples[place]);
  return result;
}

}  // namespace

NativeEvents::NativeEvents(std::string path, const ReadOptions& options)
    : path_(std::move(path)),
      wants_layers_(options.layers),
      keeps_samples_(options.samples),
      replica_(options.profile.replica.value_or(1) - 1) {}

void NativeEvents::add(const ChromeEvent& event) {
  ++phases_[static_cast<unsigned char>(event.phase)];
  if (event.phase == 'X') {
    add_slice(event);
  } else if (event.phase == 'C') {
    add_counter(event);
  }
}

std::string NativeEvents::description() const {
  std::string text;
  std::int64_t events = 0;
  for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
    if (phases_[phase] == 0) continue;
    events += phases_[phase];
    const char letter = static_cast<char>(phase);
    text += fmt::format("{}{} {}", text.empty() ? ": " : "; ", format_count(phases_[phase]),
                        printable({&letter, 1}));
    if (letter == 'X' && !names_.empty()) {
      text += fmt::format(", such as {}", fmt::join(names_, ", "));
    }
  }
  return plural(events, "event") + text;
}

std::string NativeEvents::place(const ChromeEvent& event) const {
  return fmt::format("{}: event {}", path_, format_count(event.index));
}

std::size_t NativeEvents::process_of(std::string_view pid) {
  if (!processes_.empty() && processes_[last_process_].pid == pid) return last_process_;
  const auto known = process_places_.find(pid);
  if (known != process_places_.end()) return last_process_ = known->second;
  last_process_ = processes_.size();
  processes_.emplace_back().pid = pid;
  process_places_.emplace(processes_.back().pid, last_process_);
  return last_process_;
}

void NativeEvents::add_slice(const ChromeEvent& event) {
  const Arguments args(event.args);
  if (args.kind.empty() || !args.stage) {
    constexpr std::size_t enough = 3;
    if (names_.size() < enough) {
      std::string name = quote(event.name);
      if (std::ranges::find(names_, name) == names_.end()) names_.push_back(std::move(name));
    }
    return;
  }
  if (args.replica.value_or(replica_) != replica_) {
    processes_[process_of(event.pid)].is_other = true;
    return;
  }
  if (!is_index(args.rank) || !is_index(args.iteration)) {
    warnings.add("actions whose args lack rank or iteration, left out", place(event));
  } else if (args.layer) {
    if (wants_layers_) add_layer(event, args);
  } else {
    add_actions(event, args);
  }
}

void NativeEvents::add_actions(const ChromeEvent& event, const Arguments& args) {
  const bool is_cell = args.kind == "OVERLAP_F_B";
  auto action = action_of(is_cell ? "F" : args.kind, args.stage, args.microbatch, args.occurrence);
  const auto back =
      is_cell ? action_of(args.backward_kind, args.backward_stage, args.backward_microbatch)
              : std::nullopt;
  const auto within = [](const std::optional<std::int64_t>& value, std::int64_t most) {
    return value.value_or(0) >= 0 && value.value_or(0) <= most;
  };
  if (!action || (is_cell && !(back && is_backward(back->kind))) ||
      !within(args.bytes, max_bytes) || !within(args.queued_ns, max_time_ns) ||
      !within(args.first_part_ns, *event.dur_ns) || !within(args.preempted_ns, *event.dur_ns)) {
    warnings.add("actions whose args name none, left out", place(event));
    return;
  }
  action->joined = is_cell;
  Span span{*action, static_cast<std::int32_t>(*args.rank),
            static_cast<std::int32_t>(*args.iteration)};
  span.start_ns = *event.ts_ns;
  span.end_ns = *event.ts_ns + *event.dur_ns;
  span.bytes = args.bytes.value_or(0);
  if (is_collective(*action) && action->kind == Kind::UNSHARD) {
    span.input_arrival_ns = span.start_ns + args.first_part_ns.value_or(*event.dur_ns);
  }
  span.queued_ns = args.queued_ns.value_or(0);
  span.preempted_ns = args.preempted_ns.value_or(0);
  gathered_.push_back(span);
  if (back) {
    span.action = *back;
    gathered_.push_back(span);
  }
  processes_[process_of(event.pid)].rank = span.rank;
}

void NativeEvents::add_layer(const ChromeEvent& event, const Arguments& args) {
  const auto action = action_of(args.kind, args.stage, args.microbatch);
  const bool is_part =
      action && (action->kind == Kind::F || action->kind == Kind::I || action->kind == Kind::W);
  const std::int64_t preempted_ns = args.preempted_ns.value_or(0);
  if (!is_part || !is_index(args.layer) || preempted_ns < 0 || preempted_ns > *event.dur_ns) {
    warnings.add("layers whose args name none, left out", place(event));
    return;
  }
  LayerSpan layer;
  layer.rank = static_cast<std::int32_t>(*args.rank);
  layer.iteration = static_cast<std::int32_t>(*args.iteration);
  layer.layer = static_cast<std::int32_t>(*args.layer);
  layer.kind = action->kind;
  layer.again = args.again;
  layer.action = *action;
  layer.action.kind = Kind::IDLE;
  layer.start_ns = *event.ts_ns;
  layer.end_ns = *event.ts_ns + *event.dur_ns;
  layer.preempted_ns = preempted_ns;
  layers.push_back(layer);
}

void NativeEvents::add_counter(const ChromeEvent& event) {
  if (!event.ts_ns) return;
  MemorySample sample;
  sample.chunks = not_said;
  sample.states.weights = not_said;
  bool says_bytes = false;
  bool says_chunks = false;
  for (const auto& [key, text] : event.args) {
    std::int64_t* const value = value_of(key, sample);
    if (value == nullptr) continue;
    const auto number = whole_number(text);
    if (!number || *number < 0 || *number > max_bytes) continue;
    *value = *number;
    (value == &sample.chunks ? says_chunks : says_bytes) = true;
  }
  if (!says_bytes && !says_chunks) return;
  if (says_bytes && sample.states.weights == not_said) sample.states.weights = 0;
  const std::size_t number = process_of(event.pid);
  sample.rank = static_cast<std::int32_t>(number);
  sample.time_ns = *event.ts_ns;
  Process& process = processes_[number];
  if (process.says && process.said.time_ns == sample.time_ns) {
    add_said(process.said, sample);
    return;
  }
  if (process.says) said_.replace(process.place, process.said);
  process.said = sample;
  process.place = said_.size();
  process.says = true;
  said_.push_back({sample.rank, sample.time_ns, {}, {}, 0});
}

void NativeEvents::finish() {
  spans = gathered_.take();
  find_samples();
  if (!keeps_samples_) samples = fullest_of_each_rank(samples);
}

void NativeEvents::find_samples() {
  for (Process& process : processes_) {
    if (process.says) said_.replace(process.place, process.said);
    if (process.rank >= 0) continue;  // no slice says; pipesim's numbering of processes
    const auto number = whole_number(process.pid);
    if (number && *number >= 1 && *number <= max_index) {
      process.rank = static_cast<std::int32_t>(*number - 1);
    }
  }
  said_.sort_by_time();

  // Values missing in an event are unchanged.
  struct Held {
    MemorySample now;
    std::size_t place = 0;
    bool has_place = false;
  };
  std::vector<Held> held(processes_.size());
  samples.reserve(said_.size());
  for (const MemorySample& said : said_) {
    const auto process = static_cast<std::size_t>(said.rank);
    if (processes_[process].is_other) continue;
    Held& own = held[process];
    const bool same_instant = own.has_place && own.now.time_ns == said.time_ns;
    own.now.rank = processes_[process].rank;
    own.now.time_ns = said.time_ns;
    add_said(own.now, said);
    if (same_instant) {
      samples.replace(own.place, own.now);
      continue;
    }
    own.place = samples.size();
    own.has_place = true;
    samples.push_back(own.now);
  }
  said_.clear();
}

}  // namespace pipesim
