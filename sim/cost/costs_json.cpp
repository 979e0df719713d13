// costs.json, read and written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/cost/costs.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Per stage: so that their bytes are within limits, too.
constexpr std::int64_t max_parameters = max_bytes / 16;

// A stage's `unshard` or `reduce`.
CollectiveCosts read_collective(const JsonCursor& cursor, bool is_stage) {
  JsonMembers members(cursor);
  CollectiveCosts collective;
  collective.latency_ns = members.integer_or("latency_ns", 0, 0, max_time_ns);
  collective.bytes = members.required("bytes").integer(1, max_bytes);
  collective.parts = members.integer_or("parts", 1, 1, CollectiveCosts::max_parts);
  if (is_stage) {
    members.optional("side_by_side",
                     [&](const JsonCursor& value) { collective.side_by_side = value.boolean(); });
    members.optional("holds_gradients", [&](const JsonCursor& value) {
      collective.holds_gradients = value.boolean();
    });
    members.optional("part_bytes", [&](const JsonCursor& list) {
      for (const JsonCursor& item : list.array()) {
        const std::int64_t before = collective.part_ends.empty() ? 0 : collective.part_ends.back();
        collective.part_ends.push_back(before + item.integer(0, collective.bytes - before));
      }
      if (std::ssize(collective.part_ends) != collective.parts ||
          collective.part_ends.back() != collective.bytes) {
        list.fail(fmt::format("give {} that sum to {}", plural(collective.parts, "number"),
                              collective.bytes));
      }
    });
  }
  members.finish();
  return collective;
}

// The compute of messages in an action of a stage, under that key.
std::int64_t read_messages(JsonMembers& members, std::string_view key, Kind kind,
                           const StageCosts& stage) {
  std::int64_t messages_ns = 0;
  members.optional(key, [&](const JsonCursor& value) {
    messages_ns = value.integer(0, max_time_ns);
    if (messages_ns <= max_time_ns - stage.duration_ns(kind)) return;
    value.fail(fmt::format("{} and {} ns of {} are more than {} ns; use smaller times", messages_ns,
                           stage.duration_ns(kind), kind_name(kind), max_time_ns));
  });
  return messages_ns;
}

// One entry of `stages` or `layers`.
StageCosts read_entry(const JsonCursor& cursor, bool is_stage) {
  JsonMembers members(cursor);
  StageCosts stage;
  stage.forward_ns = members.required("forward_ns").integer(0, max_time_ns);
  const bool whole = members.has("backward_ns");
  const bool split = members.has("backward_input_ns") || members.has("backward_weight_ns");
  if (whole && split) {
    cursor.fail("give backward_ns, or backward_input_ns and backward_weight_ns, not both");
  }
  members.optional("backward_ns", [&](const JsonCursor& value) {
    stage.split_backward(value.integer(0, max_time_ns));
  });
  if (!whole) {
    if (!split) {
      cursor.fail(
          "a backward is missing: give backward_ns, or backward_input_ns and backward_weight_ns");
    }
    stage.backward_input_ns = members.required("backward_input_ns").integer(0, max_time_ns);
    stage.backward_weight_ns = members.required("backward_weight_ns").integer(0, max_time_ns);
  }
  members.optional("backward_input_ns", [](const JsonCursor&) {});
  members.optional("backward_weight_ns", [](const JsonCursor&) {});
  if (is_stage) {
    stage.forward_messages_ns = read_messages(members, "forward_messages_ns", Kind::F, stage);
    stage.backward_messages_ns = read_messages(members, "backward_messages_ns", Kind::I, stage);
    members.optional("overlap_ns", [&](const JsonCursor& value) {
      stage.overlap_ns = value.integer(0, max_time_ns);
    });
  } else {
    stage.optimizer_ns = members.integer_or("optimizer_ns", 0, 0, max_time_ns);
    stage.reduce_gradients_ns = members.integer_or("reduce_gradients_ns", 0, 0, max_time_ns);
  }
  const auto bytes = [&](std::string_view key) { return members.integer_or(key, 0, 0, max_bytes); };
  stage.activation_bytes = bytes("activation_bytes");
  stage.weight_residue_bytes = bytes("weight_residue_bytes");
  stage.weight_bytes = bytes("weight_bytes");
  stage.gradient_bytes = bytes("gradient_bytes");
  stage.optimizer_bytes = bytes("optimizer_bytes");
  stage.output_bytes = bytes("output_bytes");
  stage.workspace_bytes = bytes("workspace_bytes");
  members.optional("unshard", [&](const JsonCursor& value) {
    stage.unshard = read_collective(value, is_stage);
  });
  members.optional("unsharded_bytes", [&](const JsonCursor& value) {
    if (!stage.unshard.exists()) value.fail("without unshard nothing is gathered; give both");
    stage.unsharded_bytes = value.integer(0, max_bytes);
  });
  members.optional(
      "reduce", [&](const JsonCursor& value) { stage.reduce = read_collective(value, is_stage); });
  members.optional("parameters", [&](const JsonCursor& value) {
    if (!is_stage || !value.is_array()) {
      stage.parameters.push_back(value.integer(0, max_parameters));
      return;
    }
    std::int64_t sum = 0;
    for (const JsonCursor& item : value.array()) {
      stage.parameters.push_back(item.integer(0, max_parameters - sum));
      sum += stage.parameters.back();
    }
    if (stage.parameters.empty()) value.fail("an empty list; give one number, or one per layer");
  });
  members.finish();
  return stage;
}

// The keys that a link and an edge share; absent keys leave the link unchanged.
void read_link(JsonMembers& members, Link& link) {
  link.latency_ns = members.integer_or("latency_ns", link.latency_ns, 0, max_time_ns);
  members.optional("bandwidth_bytes_per_s", [&](const JsonCursor& value) {
    link.bytes_per_second.reset();
    if (!value.is_null()) link.bytes_per_second = value.rounded(1, max_bytes_per_second);
  });
}

// Shared links by name: their indices.
using LinkPlaces = std::map<std::string, int, std::less<>>;

// An edge's `links`: names of shared links, turned into their indices.
std::vector<int> read_route(const JsonCursor& list, const LinkPlaces& shared) {
  std::vector<int> route;
  std::set<int> seen;
  for (const JsonCursor& item : list.array()) {
    const auto found = shared.find(item.string());
    if (found == shared.end()) {
      if (shared.empty()) item.fail("names a link, but p2p.links lists none");
      std::vector<std::string> names;
      for (const auto& [name, place] : shared) names.push_back(name);
      names = nearest_first(item.string(), std::move(names));
      constexpr std::size_t most = 5;
      if (names.size() > most) names.resize(most);
      for (std::string& name : names) name = quote(name);
      item.fail(unknown_name("link", item.string(), names));
    }
    if (!seen.insert(found->second).second) item.fail("is named twice");
    route.push_back(found->second);
  }
  return route;
}

// A `tied_gradients` or `gradient_norm`.
GroupCosts read_group_costs(const JsonCursor& cursor, const LinkPlaces& shared) {
  JsonMembers members(cursor);
  Link link;
  read_link(members, link);
  members.optional("links",
                   [&](const JsonCursor& names) { link.through = read_route(names, shared); });
  const std::int64_t bytes = members.integer_or("bytes", 0, 0, max_bytes);
  members.finish();
  return {link.latency_ns, bytes, link.bytes_per_second, std::move(link.through)};
}

void read_p2p(const JsonCursor& cursor, CostsFile& file, LinkPlaces& places) {
  Costs& costs = file.costs;
  JsonMembers members(cursor);
  read_link(members, costs.p2p);
  file.receive_ns = members.integer_or("receive_ns", 0, 0, max_time_ns);
  members.optional("compute_slowdown", [&](const JsonCursor& value) {
    costs.compute_slowdown_ppm = value.millionths(max_slowdown);
  });
  members.optional("links", [&](const JsonCursor& list) {
    for (const JsonCursor& item : list.array()) {
      JsonMembers link(item);
      SharedLink shared;
      shared.name = link.required("name").string();
      shared.bytes_per_second =
          link.required("bandwidth_bytes_per_s").rounded(1, max_bytes_per_second);
      link.finish();
      if (!places.emplace(shared.name, static_cast<int>(places.size())).second) {
        item.fail(fmt::format("link {} is given twice", quote(shared.name)));
      }
      costs.shared_links.push_back(std::move(shared));
    }
  });
  members.optional("edges", [&](const JsonCursor& list) {
    for (const JsonCursor& item : list.array()) {
      JsonMembers edge(item);
      const int from = static_cast<int>(edge.required("from").integer(0, max_count));
      const int to = static_cast<int>(edge.required("to").integer(0, max_count));
      Link link = costs.p2p;
      read_link(edge, link);
      edge.optional("links",
                    [&](const JsonCursor& names) { link.through = read_route(names, places); });
      edge.finish();
      if (from == to) item.fail("an edge joins two different ranks");
      if (!costs.edges.emplace(std::pair(from, to), link).second) {
        item.fail(fmt::format("edge {}->{} is given twice", from, to));
      }
    }
  });
  members.finish();
}

// One number for every rank, or a list with one per rank.
void read_closing_work(const JsonCursor& cursor, std::optional<std::int64_t>& every,
                       std::vector<std::int64_t>& by_rank) {
  if (!cursor.is_array()) {
    every = cursor.integer(0, max_time_ns);
    return;
  }
  for (const JsonCursor& item : cursor.array()) by_rank.push_back(item.integer(0, max_time_ns));
  if (by_rank.empty()) cursor.fail("an empty list; give one time, or one per rank");
}

// The route from a rank to its replicas.
Link read_collective_link(const JsonCursor& cursor, const LinkPlaces& shared) {
  JsonMembers members(cursor);
  Link link;
  members.optional("bandwidth_bytes_per_s", [&](const JsonCursor& value) {
    if (!value.is_null()) link.bytes_per_second = value.rounded(1, max_bytes_per_second);
  });
  members.optional("links",
                   [&](const JsonCursor& names) { link.through = read_route(names, shared); });
  members.finish();
  return link;
}

// One for every rank, or a list with one per rank.
void read_collective_links(const JsonCursor& cursor, CostsFile& file, const LinkPlaces& shared) {
  if (!cursor.is_array()) {
    file.collective_link = read_collective_link(cursor, shared);
    return;
  }
  for (const JsonCursor& item : cursor.array()) {
    file.costs.collective_links.push_back(read_collective_link(item, shared));
  }
  if (file.costs.collective_links.empty()) {
    cursor.fail("an empty list; give one entry, or one per rank");
  }
}

ReplicaCosts read_replica_costs(const JsonCursor& cursor) {
  JsonMembers members(cursor);
  Link link;
  read_link(members, link);
  ReplicaCosts replicas{link.latency_ns, link.bytes_per_second};
  replicas.weight_bytes = members.integer_or("weight_bytes", replicas.weight_bytes, 1, 8);
  members.finish();
  return replicas;
}

void read_save(const JsonCursor& cursor, CostsFile& file) {
  JsonMembers members(cursor);
  SaveCosts& save = file.costs.save.emplace();
  members.optional("bytes", [&](const JsonCursor& value) {
    if (!value.is_array()) {
      file.save_bytes = value.integer(0, max_bytes);
      return;
    }
    for (const JsonCursor& item : value.array()) save.bytes.push_back(item.integer(0, max_bytes));
    if (save.bytes.empty()) value.fail("an empty list; give one number, or one per rank");
  });
  save.writers = members.integer_or("writers", 1, 1, max_count);
  if (members.has("writers") && !members.has("bytes")) {
    members.required("writers").fail("they follow from replicas if bytes do; give bytes, too");
  }
  const auto read_rate = [&](std::string_view key, std::optional<std::int64_t>& rate) {
    members.optional(key, [&](const JsonCursor& value) {
      if (!value.is_null()) rate = value.rounded(1, max_bytes_per_second);
    });
  };
  read_rate("bandwidth_bytes_per_s", save.bytes_per_second);
  save.sync_ns = members.integer_or("sync_ns", 0, 0, max_time_ns);
  save.publish_ns = members.integer_or("publish_ns", 0, 0, max_time_ns);
  read_rate("copy_bandwidth_bytes_per_s", save.copy_bytes_per_second);
  members.finish();
}

constexpr std::int64_t max_variation_ppm = 1'000'000'000;  // a thousand times what is typical

Spread read_spread(const JsonCursor& cursor) {
  JsonMembers members(cursor);
  Spread spread;
  spread.samples = members.required("samples").integer(1, max_count);
  spread.p10_ns = members.required("p10_ns").integer(0, max_time_ns);
  spread.p90_ns = members.required("p90_ns").integer(spread.p10_ns, max_time_ns);
  members.finish();
  return spread;
}

// The times of a calibrated entry, by their keys in the costs.
constexpr std::pair<const char*, std::optional<Spread> Provenance::Entry::*> spreads_of_entry[] = {
    {"forward_ns", &Provenance::Entry::forward},
    {"backward_input_ns", &Provenance::Entry::backward_input},
    {"backward_weight_ns", &Provenance::Entry::backward_weight},
    {"backward_ns", &Provenance::Entry::backward}};

Provenance read_provenance(const JsonCursor& cursor, std::size_t entries) {
  JsonMembers members(cursor);
  Provenance result;
  for (const JsonCursor& item : members.required("from").array()) {
    result.from.push_back(item.string());
  }
  const JsonCursor list = members.required("entries");
  for (const JsonCursor& item : list.array()) {
    JsonMembers entry(item);
    Provenance::Entry& made = result.entries.emplace_back();
    made.name = entry.required("name").string();
    for (const auto& [key, spread] : spreads_of_entry) {
      entry.optional(key,
                     [&, to = spread](const JsonCursor& value) { made.*to = read_spread(value); });
    }
    entry.finish();
  }
  if (result.entries.size() != entries) {
    list.fail(fmt::format(
        "has {} for {}; give one entry per stage or layer",
        plural(static_cast<std::int64_t>(result.entries.size()), "entry", "entries"), entries));
  }
  members.optional("p2p", [&](const JsonCursor& value) { result.transfers = read_spread(value); });
  members.optional("replicas",
                   [&](const JsonCursor& value) { result.replicas = read_spread(value); });
  members.optional("variation_ppm", [&](const JsonCursor& list_of_ppm) {
    for (const JsonCursor& item : list_of_ppm.array()) {
      const std::int64_t least = result.variation_ppm.empty() ? 0 : result.variation_ppm.back();
      result.variation_ppm.push_back(item.integer(least, max_variation_ppm));
    }
  });
  members.optional("notes", [&](const JsonCursor& notes) {
    for (const JsonCursor& item : notes.array()) result.notes.push_back(item.string());
  });
  members.finish();
  return result;
}

Json collective_json(const CollectiveCosts& collective) {
  Json json = {{"latency_ns", collective.latency_ns},
               {"bytes", collective.bytes},
               {"parts", collective.parts}};
  if (collective.side_by_side) json["side_by_side"] = true;
  if (collective.holds_gradients) json["holds_gradients"] = true;
  if (collective.part_ends.empty()) return json;
  for (std::int64_t part = 0; part < collective.parts; ++part) {
    json["part_bytes"].push_back(collective.bytes_of(part));
  }
  return json;
}

Json entries_json(const std::vector<StageCosts>& entries) {
  Json list = Json::array();
  for (const StageCosts& stage : entries) {
    Json entry;
    entry["forward_ns"] = stage.forward_ns;
    entry["backward_input_ns"] = stage.backward_input_ns;
    entry["backward_weight_ns"] = stage.backward_weight_ns;
    if (stage.forward_messages_ns > 0) entry["forward_messages_ns"] = stage.forward_messages_ns;
    if (stage.backward_messages_ns > 0) entry["backward_messages_ns"] = stage.backward_messages_ns;
    if (stage.overlap_ns) entry["overlap_ns"] = *stage.overlap_ns;
    entry["activation_bytes"] = stage.activation_bytes;
    entry["weight_residue_bytes"] = stage.weight_residue_bytes;
    entry["weight_bytes"] = stage.weight_bytes;
    entry["gradient_bytes"] = stage.gradient_bytes;
    entry["optimizer_bytes"] = stage.optimizer_bytes;
    entry["output_bytes"] = stage.output_bytes;
    if (stage.workspace_bytes > 0) entry["workspace_bytes"] = stage.workspace_bytes;
    if (stage.unshard.exists()) {
      entry["unshard"] = collective_json(stage.unshard);
      entry["unsharded_bytes"] = stage.unsharded_bytes;
    }
    if (stage.reduce.exists()) entry["reduce"] = collective_json(stage.reduce);
    if (stage.parameters.size() == 1) entry["parameters"] = stage.parameters.front();
    if (stage.parameters.size() > 1) entry["parameters"] = stage.parameters;
    if (stage.optimizer_ns > 0) entry["optimizer_ns"] = stage.optimizer_ns;
    if (stage.reduce_gradients_ns > 0) entry["reduce_gradients_ns"] = stage.reduce_gradients_ns;
    list.push_back(std::move(entry));
  }
  return list;
}

void put_link(Json& json, const Link& link) {
  json["latency_ns"] = link.latency_ns;
  json["bandwidth_bytes_per_s"] = link.bytes_per_second;
}

void put_route(Json& json, const Link& link, const Costs& costs) {
  for (const int index : link.through) {
    json["links"].push_back(costs.shared_links[static_cast<std::size_t>(index)].name);
  }
}

void put_group_costs(Json& json, const Costs& costs) {
  const auto put = [&](const char* key, const std::optional<GroupCosts>& group) {
    if (!group) return;
    json[key]["latency_ns"] = group->latency_ns;
    json[key]["bytes"] = group->bytes;
    json[key]["bandwidth_bytes_per_s"] = group->bytes_per_second;
    put_route(json[key], group->link(), costs);
  };
  put("tied_gradients", costs.tied_gradients);
  put("gradient_norm", costs.gradient_norm);
}

Json collective_link_json(const Link& link, const Costs& costs) {
  Json json;
  json["bandwidth_bytes_per_s"] = link.bytes_per_second;
  put_route(json, link, costs);
  return json;
}

void put_collective_links(Json& json, const Costs& costs) {
  for (const Link& link : costs.collective_links) {
    json["collectives"].push_back(collective_link_json(link, costs));
  }
}

void put_replica_costs(Json& json, const Costs& costs) {
  if (!costs.replicas) return;
  json["replicas"]["latency_ns"] = costs.replicas->latency_ns;
  json["replicas"]["bandwidth_bytes_per_s"] = costs.replicas->bytes_per_second;
  json["replicas"]["weight_bytes"] = costs.replicas->weight_bytes;
}

void put_save(Json& json, const Costs& costs, const std::optional<std::int64_t>& every) {
  if (!costs.save) return;
  const SaveCosts& save = *costs.save;
  Json& own = json["save"];
  if (every) own["bytes"] = *every;
  if (!save.bytes.empty()) own["bytes"] = save.bytes;
  if (save.writers > 1) own["writers"] = save.writers;
  own["bandwidth_bytes_per_s"] = save.bytes_per_second;
  own["sync_ns"] = save.sync_ns;
  own["publish_ns"] = save.publish_ns;
  own["copy_bandwidth_bytes_per_s"] = save.copy_bytes_per_second;
}

Json p2p_json(const Costs& costs, std::int64_t receive_ns) {
  Json p2p;
  put_link(p2p, costs.p2p);
  if (receive_ns > 0) p2p["receive_ns"] = receive_ns;
  if (costs.compute_slowdown_ppm > 0) {
    p2p["compute_slowdown"] = static_cast<double>(costs.compute_slowdown_ppm) / 1e6;
  }
  for (const SharedLink& link : costs.shared_links) {
    p2p["links"].push_back({{"name", link.name}, {"bandwidth_bytes_per_s", link.bytes_per_second}});
  }
  for (const auto& [edge, link] : costs.edges) {
    Json entry;
    entry["from"] = edge.first;
    entry["to"] = edge.second;
    put_link(entry, link);
    put_route(entry, link, costs);
    p2p["edges"].push_back(std::move(entry));
  }
  return p2p;
}

Json provenance_json(const Provenance& provenance) {
  const auto spread_json = [](const Spread& spread) {
    return Json{{"samples", spread.samples}, {"p10_ns", spread.p10_ns}, {"p90_ns", spread.p90_ns}};
  };
  Json json;
  json["from"] = provenance.from;
  json["entries"] = Json::array();
  for (const Provenance::Entry& entry : provenance.entries) {
    Json made;
    made["name"] = entry.name;
    for (const auto& [key, spread] : spreads_of_entry) {
      if (entry.*spread) made[key] = spread_json(*(entry.*spread));
    }
    json["entries"].push_back(std::move(made));
  }
  if (provenance.transfers) json["p2p"] = spread_json(*provenance.transfers);
  if (provenance.replicas) json["replicas"] = spread_json(*provenance.replicas);
  if (!provenance.variation_ppm.empty()) json["variation_ppm"] = provenance.variation_ppm;
  if (!provenance.notes.empty()) json["notes"] = provenance.notes;
  return json;
}

// The head that all costs.json have.
Json head_json() { return {{"format", "pipesim-costs"}, {"version", 1}}; }

}  // namespace

CostsFile parse_costs(std::string_view text, const std::string& file) {
  const JsonValue document = parse_json(text, file);
  const JsonCursor root(document, file);
  JsonMembers members(root);
  if (members.has("work")) root.fail("these are for `pipesim feed`");
  members.format("pipesim-costs", 1);

  CostsFile result;
  result.name = file;
  if (members.has("stages") == members.has("layers")) {
    root.fail("give either stages, one entry per virtual stage, or layers");
  }
  const auto read_list = [&](std::string_view key, std::vector<StageCosts>& out) {
    members.optional(key, [&](const JsonCursor& list) {
      for (const JsonCursor& item : list.array()) out.push_back(read_entry(item, key == "stages"));
      if (out.empty()) list.fail("an empty list; give at least one entry");
    });
  };
  read_list("stages", result.costs.stages);
  read_list("layers", result.layers);
  LinkPlaces shared;
  members.optional("p2p", [&](const JsonCursor& value) { read_p2p(value, result, shared); });
  members.optional("collectives",
                   [&](const JsonCursor& value) { read_collective_links(value, result, shared); });
  const auto given_by_layer = [&](std::int64_t StageCosts::*field, const JsonCursor& value) {
    const auto has = [&](const StageCosts& layer) { return layer.*field > 0; };
    if (std::ranges::any_of(result.layers, has)) value.fail("layers have it, too; keep one");
  };
  result.costs.reserved_bytes = members.integer_or("reserved_bytes", 0, 0, max_bytes);
  members.optional("optimizer_ns", [&](const JsonCursor& value) {
    given_by_layer(&StageCosts::optimizer_ns, value);
    read_closing_work(value, result.optimizer_ns, result.costs.optimizer_ns);
  });
  members.optional("reduce_gradients_ns", [&](const JsonCursor& value) {
    given_by_layer(&StageCosts::reduce_gradients_ns, value);
    read_closing_work(value, result.reduce_gradients_ns, result.costs.reduce_gradients_ns);
  });
  members.optional("tied_gradients", [&](const JsonCursor& value) {
    result.costs.tied_gradients = read_group_costs(value, shared);
  });
  members.optional("gradient_norm", [&](const JsonCursor& value) {
    result.costs.gradient_norm = read_group_costs(value, shared);
  });
  members.optional("replicas", [&](const JsonCursor& value) {
    result.costs.replicas = read_replica_costs(value);
    const auto tells = [](const StageCosts& entry) { return !entry.parameters.empty(); };
    if (!std::ranges::all_of(result.layers.empty() ? result.costs.stages : result.layers, tells)) {
      value.fail("the exchanged size is not known; give each stage or layer its parameters");
    }
  });
  members.optional("save", [&](const JsonCursor& value) { read_save(value, result); });
  members.optional("calibration", [&](const JsonCursor& value) {
    result.calibration =
        read_provenance(value, std::max(result.costs.stages.size(), result.layers.size()));
  });
  members.finish();
  return result;
}

CostsFile read_costs(const std::string& path) { return parse_costs(read_file(path), path); }

std::string to_json(const Costs& costs) {
  Json json = head_json();
  json["stages"] = entries_json(costs.stages);
  json["p2p"] = p2p_json(costs, 0);
  put_collective_links(json, costs);
  if (costs.reserved_bytes > 0) json["reserved_bytes"] = costs.reserved_bytes;
  if (!costs.optimizer_ns.empty()) json["optimizer_ns"] = costs.optimizer_ns;
  if (!costs.reduce_gradients_ns.empty()) json["reduce_gradients_ns"] = costs.reduce_gradients_ns;
  put_group_costs(json, costs);
  put_replica_costs(json, costs);
  put_save(json, costs, {});
  return json.dump();
}

std::string to_json(const CostsFile& file) {
  const Costs& costs = file.costs;
  Json json = head_json();
  if (file.layers.empty()) {
    json["stages"] = entries_json(costs.stages);
  } else {
    json["layers"] = entries_json(file.layers);
  }
  json["p2p"] = p2p_json(costs, file.receive_ns);
  if (file.collective_link) {
    json["collectives"] = collective_link_json(*file.collective_link, costs);
  }
  put_collective_links(json, costs);
  if (costs.reserved_bytes > 0) json["reserved_bytes"] = costs.reserved_bytes;
  const auto put_closing = [&](const char* key, const std::optional<std::int64_t>& every,
                               const std::vector<std::int64_t>& by_rank) {
    if (every) json[key] = *every;
    if (!by_rank.empty()) json[key] = by_rank;
  };
  put_closing("optimizer_ns", file.optimizer_ns, costs.optimizer_ns);
  put_closing("reduce_gradients_ns", file.reduce_gradients_ns, costs.reduce_gradients_ns);
  put_group_costs(json, costs);
  put_replica_costs(json, costs);
  put_save(json, costs, file.save_bytes);
  if (file.calibration) json["calibration"] = provenance_json(*file.calibration);
  return json.dump(2) + "\n";
}

}  // namespace pipesim
