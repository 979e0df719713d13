#include "sim/input_pipeline/input_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t max_links = 16;  // crossed by bytes of one action

// ---- The file

class InputCostsReader {
 public:
  explicit InputCostsReader(JsonMembers& members) : members_(members) {}

  InputCosts read() {
    costs_.work.resize(
        static_cast<std::size_t>(members_.required("ranks").integer(1, max_input_ranks)));
    costs_.batch_size = members_.integer_or("batch_size", 0, 1, max_count);
    members_.optional("links", [&](const JsonCursor& list) { read_links(list); });
    const JsonCursor work = members_.required("work");
    JsonMembers kinds(work);
    for (const Kind kind : input_kinds) {
      read_kind(kinds, kind);
    }
    kinds.finish();
    members_.optional("holdings", [&](const JsonCursor& value) {
      costs_.holdings.resize(costs_.work.size());
      by_rank(value, read_holdings,
              [&](const InputHoldings& one, std::size_t rank) { costs_.holdings[rank] = one; });
    });
    return std::move(costs_);
  }

 private:
  void read_links(const JsonCursor& list) {
    for (const JsonCursor& item : list.array()) {
      JsonMembers link(item);
      const JsonCursor name = link.required("name");
      if (!links_.emplace(name.string(), static_cast<std::uint32_t>(links_.size())).second) {
        name.fail(fmt::format("there are two links {}; give each a name of its own",
                              quote(name.string())));
      }
      costs_.links.push_back(
          {name.string(), link.required("bandwidth_bytes_per_s").integer(1, max_bytes_per_second)});
      link.finish();
    }
  }

  // One value for all ranks, or a list with one per rank, read by `read_one` and given to `use`.
  template <typename Read, typename Use>
  void by_rank(const JsonCursor& value, Read read_one, Use use) const {
    const std::size_t ranks = costs_.work.size();
    if (!value.is_array()) {
      const auto same = read_one(value);
      for (std::size_t rank = 0; rank < ranks; ++rank) use(same, rank);
      return;
    }
    const std::vector<JsonCursor> list = value.array();
    if (list.size() != ranks) {
      value.fail(fmt::format("{} for {}; give one for all, or one per rank",
                             plural(std::ssize(list), "value"),
                             plural(static_cast<std::int64_t>(ranks), "rank")));
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) use(read_one(list[rank]), rank);
  }

  void read_kind(JsonMembers& kinds, Kind kind) {
    kinds.optional(kind_name(kind), [&](const JsonCursor& value) {
      by_rank(
          value, [&](const JsonCursor& one) { return read_work(one, kind); },
          [&](const InputWork& one, std::size_t rank) {
            costs_.work[rank][static_cast<std::size_t>(kind)] = one;
          });
    });
  }

  InputWork read_work(const JsonCursor& cursor, Kind kind) const {
    JsonMembers members(cursor);
    InputWork work;
    work.duration_ns = members.integer_or("duration_ns", 0, 0, max_time_ns);
    work.bytes = members.integer_or("bytes", 0, 0, max_bytes);
    members.optional("links", [&](const JsonCursor& list) {
      const std::vector<JsonCursor> items = list.array();
      if (items.size() > max_links) {
        list.fail(fmt::format("{} links are more than {}; name those that are full", items.size(),
                              max_links));
      }
      for (const JsonCursor& item : items) {
        const std::uint32_t link = find_link(item);
        if (std::ranges::find(work.links, link) != work.links.end()) {
          item.fail(fmt::format("link {} is given twice; name each once", quote(item.string())));
        }
        work.links.push_back(link);
      }
    });
    members.optional("host_ns", [&](const JsonCursor& value) {
      work.host_ns = value.integer(0, max_time_ns);
      if (work.host_ns == 0 || !is_of_host(kind)) return;
      value.fail(
          fmt::format("the host does {} itself; give its time as duration_ns", kind_name(kind)));
    });
    members.finish();
    return work;
  }

  std::uint32_t find_link(const JsonCursor& name) const {
    const auto found = links_.find(name.string());
    if (found != links_.end()) return found->second;
    if (links_.empty()) name.fail("there are no links; list them in `links`");
    std::vector<std::string> names;
    for (const auto& [known, unused] : links_) names.push_back(known);
    constexpr std::size_t most = 5;
    names = nearest_first(name.string(), std::move(names));
    names.resize(std::min(names.size(), most));
    name.fail(unknown_name("link", name.string(), names));
  }

  static InputHoldings read_holdings(const JsonCursor& cursor) {
    JsonMembers members(cursor);
    const auto bytes = [&](std::string_view key) {
      return members.integer_or(key, 0, 0, max_bytes);
    };
    InputHoldings held;
    held.always.tables = bytes("table_bytes");
    held.always.optimizer = bytes("optimizer_bytes");
    held.always.dense = bytes("dense_bytes");
    held.batch_bytes = bytes("batch_bytes");
    held.ids_bytes = bytes("ids_bytes");
    held.pooled_bytes = bytes("pooled_bytes");
    held.activation_bytes = bytes("activation_bytes");
    members.finish();
    return held;
  }

  JsonMembers& members_;
  InputCosts costs_;
  std::map<std::string, std::uint32_t, std::less<>> links_;
};

// One value if all are equal, else a list of them.
template <typename List, typename Write>
Json by_rank_json(const List& list, Write write) {
  const auto is_first = [&](const auto& one) { return one == *std::begin(list); };
  if (std::ranges::all_of(list, is_first)) return write(*std::begin(list));
  Json json = Json::array();
  for (const auto& one : list) json.push_back(write(one));
  return json;
}

Json work_json(const InputWork& work, const InputCosts& costs) {
  Json json;
  json["duration_ns"] = work.duration_ns;
  if (work.bytes > 0 || !work.links.empty()) {
    json["bytes"] = work.bytes;
    json["links"] = Json::array();
    for (const std::uint32_t link : work.links) json["links"].push_back(costs.links[link].name);
  }
  if (work.host_ns > 0) json["host_ns"] = work.host_ns;
  return json;
}

Json holdings_json(const InputHoldings& held) {
  Json json;
  json["table_bytes"] = held.always.tables;
  json["optimizer_bytes"] = held.always.optimizer;
  json["dense_bytes"] = held.always.dense;
  json["batch_bytes"] = held.batch_bytes;
  json["ids_bytes"] = held.ids_bytes;
  json["pooled_bytes"] = held.pooled_bytes;
  json["activation_bytes"] = held.activation_bytes;
  return json;
}

// ---- Sizes

// The time of a call alone; concurrent calls together take no longer than in sequence.
double longest_alone(const InputWork& work, const std::vector<InputLink>& links) {
  double bytes_ns = 0;
  for (const std::uint32_t link : work.links) {
    bytes_ns = std::max(bytes_ns, static_cast<double>(work.bytes) * 1e9 /
                                      static_cast<double>(links[link].bytes_per_second));
  }
  return static_cast<double>(work.host_ns) + static_cast<double>(work.duration_ns) + bytes_ns;
}

// ---- Memory

// Bytes that come or go at a time.
struct MemoryStep {
  std::int64_t time_ns = 0;
  std::int64_t batches = 0;
  std::int64_t buffers = 0;

  bool goes() const { return batches < 0 || buffers < 0; }
};

// One rank's memory over time.
class MemorySweep {
 public:
  MemorySweep(const InputRun& run, int rank)
      : spans_(run.spans[static_cast<std::size_t>(rank)]),
        places_(run.program.calls[static_cast<std::size_t>(rank)], run.program.batches) {}

  void add(const InputHoldings& held, std::int32_t batch) {
    using enum Kind;
    hold(COPY, {UPDATE, BOTTOM_BACKWARD}, batch, held.batch_bytes, 0);
    hold(IDS, {UPDATE}, batch, 0, held.ids_bytes);
    hold(LOOKUP, {UPDATE}, batch, 0, held.pooled_bytes);
    hold(BOTTOM, {BOTTOM_BACKWARD}, batch, 0, held.activation_bytes);
  }

  InputMemory fullest(InputMemory always) {
    // At one time frees come before allocations.
    std::ranges::sort(steps_, [](const MemoryStep& a, const MemoryStep& b) {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.goes() && !b.goes();
    });
    InputMemory now = always;
    InputMemory most = always;
    for (const MemoryStep& step : steps_) {
      now.batches += step.batches;
      now.buffers += step.buffers;
      if (now.total() > most.total()) most = now;
    }
    return most;
  }

 private:
  // Holds memory from the start of one to the end of the last of others; forever if none of these
  // exists.
  void hold(Kind first, std::initializer_list<Kind> last, std::int32_t batch, std::int64_t batches,
            std::int64_t buffers) {
    const std::uint32_t start = places_.of(first, batch);
    if (start == InputPlaces::none || batches + buffers == 0) return;
    std::optional<std::int64_t> end;
    for (const Kind kind : last) {
      const std::uint32_t place = places_.of(kind, batch);
      if (place == InputPlaces::none) continue;
      end = std::max(end.value_or(0), spans_[place].end_ns);
    }
    steps_.push_back({spans_[start].start_ns, batches, buffers});
    if (end) steps_.push_back({*end, -batches, -buffers});
  }

  const std::vector<InputSpan>& spans_;
  InputPlaces places_;
  std::vector<MemoryStep> steps_;
};

constexpr std::string_view old_costs_format = "pipesim-input-costs";  // read, no longer written

}  // namespace

InputCosts parse_input_costs(std::string_view text, const std::string& file) {
  const JsonValue document = parse_json(text, file);
  const JsonCursor root(document, file);
  JsonMembers members(root);
  members.format("pipesim-costs", 1, old_costs_format);
  if (members.has("stages") || members.has("layers")) {
    root.fail("these are costs of a pipeline's stages; an input pipeline's have `work`");
  }
  InputCosts costs = InputCostsReader(members).read();
  members.finish();
  return costs;
}

InputCosts read_input_costs(const std::string& path) {
  return parse_input_costs(read_file(path), path);
}

std::string to_json(const InputCosts& costs, int indent) {
  Json json;
  json["format"] = "pipesim-costs";
  json["version"] = 1;
  json["ranks"] = costs.ranks();
  if (costs.batch_size > 0) json["batch_size"] = costs.batch_size;
  for (const InputLink& link : costs.links) {
    json["links"].push_back(
        {{"name", link.name}, {"bandwidth_bytes_per_s", link.bytes_per_second}});
  }
  json["work"] = Json::object();
  for (const Kind kind : input_kinds) {
    std::vector<InputWork> of_ranks;
    for (const auto& rank : costs.work) of_ranks.push_back(rank[static_cast<std::size_t>(kind)]);
    if (std::ranges::all_of(of_ranks, [](const InputWork& one) { return one == InputWork(); })) {
      continue;
    }
    json["work"][kind_name(kind)] =
        by_rank_json(of_ranks, [&](const InputWork& one) { return work_json(one, costs); });
  }
  if (!costs.holdings.empty()) json["holdings"] = by_rank_json(costs.holdings, holdings_json);
  return json.dump(indent);
}

void check_costs(const InputProgram& program, const InputCosts& costs) {
  if (costs.ranks() != program.ranks()) {
    throw input_error(fmt::format("costs are for {}, but the input pipeline has {}; give the same",
                                  plural(costs.ranks(), "rank"), program.ranks()));
  }
  // Nothing takes longer than all calls in sequence, and no rank holds more than all batches at
  // once.
  double time = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    std::array<double, kind_count> takes{};
    for (const Kind kind : input_kinds) {
      takes[static_cast<std::size_t>(kind)] = longest_alone(costs.of(rank, kind), costs.links);
    }
    for (const InputCall& call : program.calls[static_cast<std::size_t>(rank)]) {
      time += takes[static_cast<std::size_t>(call.action.kind)];
    }
  }
  if (time > static_cast<double>(max_input_ns)) {
    throw input_error(fmt::format("{} take more than 146 years together; use smaller costs",
                                  plural(program.size(), "call")));
  }
  for (std::size_t rank = 0; rank < costs.holdings.size(); ++rank) {
    const InputHoldings& held = costs.holdings[rank];
    const double of_batch =
        static_cast<double>(held.batch_bytes) + static_cast<double>(held.ids_bytes) +
        static_cast<double>(held.pooled_bytes) + static_cast<double>(held.activation_bytes);
    if (of_batch * program.batches > static_cast<double>(max_input_bytes)) {
      throw input_error(fmt::format(
          "rank {} holds {:.3g} bytes of each batch, too many for {}; use smaller costs", rank,
          of_batch, plural(program.batches, "batch", "batches")));
    }
  }
}

std::vector<InputMemory> memory_of(const InputRun& run, const InputCosts& costs) {
  std::vector<InputMemory> memory;
  for (int rank = 0; rank < run.program.ranks(); ++rank) {
    const InputHoldings& held = costs.holdings[static_cast<std::size_t>(rank)];
    MemorySweep sweep(run, rank);
    for (std::int32_t batch = 0; batch < run.program.batches; ++batch) sweep.add(held, batch);
    memory.push_back(sweep.fullest(held.always));
  }
  return memory;
}

}  // namespace pipesim
