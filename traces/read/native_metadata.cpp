#include "traces/read/native_metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t max_results = std::int64_t{1} << 26;  // stages x microbatches

// Members of one object, each of its type or an error that says where.
class Members {
 public:
  Members(JsonSlice object, const std::string& path, std::string name)
      : object_(object), path_(path), name_(std::move(name)) {
    if (!object.is_object()) {
      throw input_error(fmt::format("{}: {} must be an object", path_, name_));
    }
  }

  [[noreturn]] void fail(std::string_view key, std::string_view rule) const {
    throw input_error(fmt::format("{}: {}.{} {}", path_, name_, key, rule));
  }
  std::optional<JsonSlice> find(std::string_view key) const {
    const auto found = object_.find(key);
    return found && found->is_null() ? std::nullopt : found;
  }
  JsonSlice require(std::string_view key) const {
    const auto value = find(key);
    if (!value) fail(key, "is missing");
    return *value;
  }
  std::string string_or_nothing(std::string_view key) const {
    const auto value = find(key);
    if (!value) return {};
    const auto text = value->string();
    if (!text) fail(key, "must be a string");
    return *text;
  }
  std::int64_t integer(std::string_view key, JsonSlice value, std::int64_t least,
                       std::int64_t most) const {
    const auto number = value.whole();
    if (!number || *number < least || *number > most) {
      fail(key, fmt::format("must hold whole numbers from {} to {}", least, most));
    }
    return *number;
  }
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t least,
                          std::int64_t most) const {
    const auto value = find(key);
    return value ? integer(key, *value, least, most) : fallback;
  }
  bool flag(std::string_view key) const {
    const auto value = find(key);
    if (!value || value->text() == "false") return false;
    if (value->text() != "true") fail(key, "must be true or false");
    return true;
  }
  // Calls use(item) for each item of a list, if there is one.
  template <typename Use>
  void each(std::string_view key, Use use) const {
    const auto value = find(key);
    if (!value) return;
    if (!value->is_list()) fail(key, "must be a list");
    value->each(use);
  }
  std::vector<int> counts(std::string_view key) const {
    std::vector<int> list;
    each(key, [&](JsonSlice item) {
      list.push_back(static_cast<int>(integer(key, item, 0, max_count)));
    });
    return list;
  }
  std::vector<std::string> strings(std::string_view key) const {
    std::vector<std::string> list;
    each(key, [&](JsonSlice item) {
      const auto text = item.string();
      if (!text) fail(key, "must hold strings");
      list.push_back(*text);
    });
    return list;
  }
  std::string json_or_nothing(std::string_view key) const {
    const auto value = find(key);
    return value ? std::string(value->text()) : std::string();
  }

 private:
  JsonSlice object_;
  const std::string& path_;
  std::string name_;
};

Source source_of(const Members& members) {
  const std::string source = members.string_or_nothing("source");
  for (const Source known : {Source::predicted, Source::measured}) {
    if (source == name_of(known)) return known;
  }
  members.fail("source", fmt::format("{} is neither 'predicted' nor 'measured'", quote(source)));
}

RecordedClock clock_of(JsonSlice item, const std::string& path) {
  const Members clock(item, path, "metadata.pipesim.clocks");
  const auto time = [&](std::string_view key) {
    return clock.integer_or(key, 0, INT64_MIN / 4, INT64_MAX / 4);
  };
  return {time("offset_ns"), time("drift_ppb"), time("uncertainty_ns"), time("shift_ns")};
}

MeasuredFacts facts_of(const Members& members, const std::string& path) {
  const auto count = [&](const Members& object, std::string_view key) {
    return object.integer_or(key, 0, 0, max_index);
  };
  MeasuredFacts facts;
  if (const auto machine = members.find("machine"); machine && machine->is_object()) {
    const Members object(*machine, path, "metadata.pipesim.machine");
    facts.processors = static_cast<int>(count(object, "processors"));
  }
  facts.warmup_iterations = static_cast<int>(count(members, "warmup_iterations"));
  facts.adjusted_transfers = members.integer_or("adjusted_transfers", 0, 0, INT64_MAX);
  facts.pace = members.string_or_nothing("pace");
  facts.micro_batch_size = count(members, "micro_batch_size");
  facts.sequence_length = count(members, "sequence_length");
  facts.recompute = members.string_or_nothing("recompute");
  facts.attention = members.string_or_nothing("attention");
  facts.precision = members.string_or_nothing("precision");
  return facts;
}

// The placement: each rank from 0 to the last has a stage.
void place_stages(const Members& members, NativeMetadata& own) {
  own.about.rank_of_stage = members.counts("rank_of_stage");
  const auto& rank_of_stage = own.about.rank_of_stage;
  const auto stages = static_cast<int>(rank_of_stage.size());
  const int highest = stages == 0 ? -1 : std::ranges::max(rank_of_stage);
  if (highest < 0) members.fail("rank_of_stage", "is missing or empty");
  if (highest >= stages) members.fail("rank_of_stage", "names more ranks than stages");
  if (members.find("rank_of_second")) {
    own.about.rank_of_second = members.counts("rank_of_second");
    if (std::ssize(own.about.rank_of_second) != stages) {
      members.fail("rank_of_second", "must have a rank a stage");
    }
    if (std::ranges::max(own.about.rank_of_second) > highest) {
      members.fail("rank_of_second", "names a rank that rank_of_stage does not");
    }
  }
  std::vector<int> chunks(static_cast<std::size_t>(highest) + 1);
  for (int stage = 0; stage < stages; ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    own.chunk_of_stage.push_back(chunks[static_cast<std::size_t>(rank_of_stage[at])]++);
    if (own.about.rank_of_second.empty()) continue;
    const int second = own.about.rank_of_second[at];
    if (second == rank_of_stage[at] ||
        chunks[static_cast<std::size_t>(second)]++ != own.chunk_of_stage[at]) {
      members.fail("rank_of_second",
                   "must name another rank than rank_of_stage, on which the stage has the same "
                   "place among others");
    }
  }
  if (std::ranges::find(chunks, 0) != chunks.end()) {
    members.fail("rank_of_stage", "leaves a rank without a stage");
  }
  own.ranks = highest + 1;
  own.microbatches = static_cast<int>(
      members.integer("microbatches", members.require("microbatches"), 1, max_results / stages));
}

std::optional<JsonSlice> pipesim_metadata(const ChromeTrace& trace) {
  const auto member = trace.members.find("metadata");
  if (member == trace.members.end()) return std::nullopt;
  return JsonSlice(member->second).find("pipesim");
}

}  // namespace

std::optional<JsonSlice> input_metadata(const ChromeTrace& trace) {
  const auto own = pipesim_metadata(trace);
  if (!own || !own->is_object()) return std::nullopt;
  const auto format = own->find("format");
  if (!format) return std::nullopt;
  const bool is_input = format->string() == old_input_format ||
                        (format->string() == trace_format && own->find("input_pipeline"));
  return is_input ? own : std::nullopt;
}

std::optional<NativeMetadata> native_metadata(const std::string& path, const ChromeTrace& trace) {
  const auto pipesim = pipesim_metadata(trace);
  if (!pipesim) return std::nullopt;
  if (input_metadata(trace)) {
    throw input_error(
        path +
        ": it is the trace of an input pipeline, which stands by itself; give it as a "
        "file, alone, or with another of these");
  }
  const auto format = pipesim->find("format");
  if (!format || format->string() != trace_format) return std::nullopt;

  const Members members(*pipesim, path, "metadata.pipesim");
  if (members.integer("version", members.require("version"), 0, max_count) != 1) {
    members.fail("version", "is not 1, the only one that this program reads");
  }
  NativeMetadata own;
  own.text = pipesim->text();
  place_stages(members, own);
  RunDescription& about = own.about;
  about.source = source_of(members);
  about.schedule = members.string_or_nothing("schedule");
  about.program = members.strings("program");
  about.dependencies = members.strings("dependencies");
  if (!about.program.empty() && std::ssize(about.program) != own.ranks) {
    members.fail("program", "must have a row per rank");
  }
  about.continuous = members.flag("continuous");
  about.costs_json = members.json_or_nothing("costs");
  about.costs_from = members.string_or_nothing("costs_from");
  about.p2p = members.string_or_nothing("p2p");
  about.eager_limit_bytes = members.integer_or("eager_limit_bytes", 0, 0, INT64_MAX);
  about.device = members.string_or_nothing("device");
  about.transport = members.string_or_nothing("transport");
  about.measured = facts_of(members, path);
  about.replicas = static_cast<int>(members.integer_or("data_parallel", 1, 1, max_count));
  about.tensor_parallel = static_cast<int>(members.integer_or("tensor_parallel", 1, 1, max_count));
  about.sequence_parallel = members.flag("sequence_parallel");
  about.zero = static_cast<int>(members.integer_or("zero", 0, 0, 3));
  about.shards = static_cast<int>(members.integer_or("shard_over", 1, 1, about.replicas));
  about.bucket_bytes = members.integer_or("bucket_bytes", 0, 0, max_bytes);
  about.accumulate = static_cast<int>(members.integer_or("accumulate", 1, 1, max_count));
  about.saves.every = static_cast<int>(members.integer_or("checkpoint_every", 0, 0, max_count));
  about.saves.beside = members.flag("async_checkpoint");
  about.model_json = members.json_or_nothing("model");
  about.layers = members.strings("layers");
  about.layout = members.counts("layout");
  if (!about.layout.empty() && about.layout.size() != about.rank_of_stage.size()) {
    members.fail("layout", "must have a number per virtual stage");
  }
  members.each("clocks", [&](JsonSlice item) { about.clocks.push_back(clock_of(item, path)); });
  if (!about.clocks.empty() && std::ssize(about.clocks) != own.ranks) {
    members.fail("clocks", "must have an entry per rank");
  }
  return own;
}

}  // namespace pipesim
