#include "sim/cost/hardware/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/cost/hardware/hardware_json.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Of a device's power, what does not drive its clock; that rises with the cube root of the rest.
constexpr double static_watts = 100;

DeviceSpec find_device_of(const JsonCursor& given, const std::optional<DeviceSpec>& base) {
  if (given.value().get_if<JsonValue::Object>() != nullptr) return read_device(given, base);
  if (given.value().get_if<std::string>() == nullptr) {
    given.fail("must be a preset's name, a file's name or an object");
  }
  const std::string& name = given.string();
  if (!names_file(name)) {
    if (!device_presets().contains(name)) {
      given.fail(unknown_name("device", name, known_devices()));
    }
    return find_device(name);
  }
  // A path is relative to the folder of the cluster's file.
  return find_device((std::filesystem::path(given.file()).parent_path() / name).string());
}

ErrorBand read_error_band(const JsonCursor& object) {
  JsonMembers members(object);
  ErrorBand band;
  band.fraction = members.required("fraction").number();
  if (!(band.fraction >= 0)) members.required("fraction").fail("must be 0 or more");
  band.rows = members.required("rows").integer(1, max_count);
  for (const JsonCursor& set : members.required("sets").array()) band.sets.push_back(set.string());
  members.finish();
  return band;
}

Cluster find_base(const JsonCursor& base) {
  const std::string& name = base.string();
  if (names_file(name)) base.fail("a base is a preset; copy a file's values instead");
  if (!cluster_presets().contains(name)) base.fail(unknown_name("cluster", name, known_clusters()));
  return find_cluster(name);
}

// Of every node so many devices, with their share of the cards.
void resize_nodes(Cluster& cluster, int devices) {
  cluster.network.cards_per_node =
      cluster.network.cards_per_node * devices / cluster.devices_per_node;
  cluster.devices_per_node = devices;
}

// How many of a node's devices a job gets: by the file, or else by its base.
void take_partition(const JsonCursor& root, Section& section, std::optional<int> partition,
                    Cluster& cluster) {
  const int devices = cluster.devices_per_node;
  JsonCursor place = root;
  section.optional("partition", partition, [&](const JsonCursor& value) {
    place = value;
    return static_cast<int>(value.integer(1, devices));
  });
  if (!partition || *partition == devices) return;
  if (*partition > devices) {
    root.fail(
        fmt::format("key 'partition' is missing: the base's {} are more than the {} of a "
                    "node; give at most {}",
                    *partition, plural(devices, "device"), devices));
  }
  const std::int64_t cards = cluster.network.cards_per_node;
  if (cards * *partition % devices != 0) {
    place.fail(
        fmt::format("{} of a node's {} devices have no whole number of its {}; give a "
                    "partition that has",
                    *partition, devices, plural(cards, "card")));
  }
  cluster.whole_node = devices;
  resize_nodes(cluster, *partition);
}

constexpr const char* collectives_wanted =
    R"(give a list of what 2 and more ranks reach, such as [{"ranks": 2, "bandwidth": "200GB/s"}])";

// Refuses a value that is neither a list nor one with a source before looking for a source.
void require_collectives(const JsonCursor& given) {
  const bool is_list = given.value().get_if<JsonValue::Array>() != nullptr;
  const bool is_object = given.value().get_if<JsonValue::Object>() != nullptr;
  if (is_list || (is_object && JsonMembers(given).has("value"))) return;
  given.fail(fmt::format("is not a list; {}", collectives_wanted));
}

std::vector<BusRate> read_collectives(const JsonCursor& list, const Sources& sources,
                                      int devices_per_node) {
  std::vector<BusRate> rates;
  for (const JsonCursor& item : list.array()) {
    Section section(item, sources);
    BusRate rate;
    section.required("ranks", rate.ranks, [&](const JsonCursor& value) {
      return static_cast<int>(value.integer(2, devices_per_node));
    });
    section.required("bandwidth", rate.bytes_per_second, read_bandwidth);
    section.optional("gather_bandwidth", rate.gather_bytes_per_second, read_bandwidth);
    section.optional("latency", rate.latency_ns, read_time);
    section.finish();
    if (rates.empty() && rate.ranks != 2) {
      item.fail(
          fmt::format("the list begins with {} ranks; begin with what 2 ranks reach, and list the "
                      "others by ascending number of ranks",
                      rate.ranks));
    }
    if (!rates.empty() && rate.ranks <= rates.back().ranks) {
      item.fail(fmt::format("{} ranks after {}; list them by ascending number of ranks", rate.ranks,
                            rates.back().ranks));
    }
    rates.push_back(rate);
  }
  if (rates.empty()) list.fail(fmt::format("is empty; {}", collectives_wanted));
  return rates;
}

void read_node(const JsonCursor& object, const Sources& sources, bool has_base,
               int devices_per_node, NodeLinks& node) {
  Section section(object, sources);
  section.members().optional("collectives", require_collectives);
  section.needed(has_base, "collectives", node.collectives, [&](const JsonCursor& list) {
    return read_collectives(list, sources, devices_per_node);
  });
  section.needed(has_base, "p2p_bandwidth", node.p2p_bytes_per_second, read_bandwidth);
  section.optional("p2p_latency", node.p2p_latency_ns, read_time);
  section.finish();
}

void read_network(const JsonCursor& object, const Sources& sources, bool has_base,
                  int devices_per_node, Network& network) {
  Section section(object, sources);
  section.needed(has_base, "cards_per_node", network.cards_per_node, read_count);
  section.needed(has_base, "card_bandwidth", network.card_bytes_per_second, read_bandwidth);
  section.optional("share", network.share, read_share);
  section.optional("latency", network.latency_ns, read_time);
  section.needed(has_base, "rail_aligned", network.rail_aligned, [&](const JsonCursor& value) {
    const bool aligned = value.boolean();
    const std::int64_t cards = network.cards_per_node;
    if (aligned && cards < devices_per_node && devices_per_node % cards != 0) {
      value.fail(
          fmt::format("{} cannot be shared evenly by {}; say false, or give as many "
                      "devices to each card",
                      plural(cards, "card"), plural(devices_per_node, "device")));
    }
    return aligned;
  });
  section.optional("oversubscription", network.oversubscription, read_least_factor);
  section.optional("collectives", network.collectives, [&](const JsonCursor& list) {
    return read_by_nodes<NetworkRate>(list, sources, [](Section& one, NetworkRate& rate) {
      one.required("bandwidth", rate.bytes_per_second, read_bandwidth);
      one.optional("gather_bandwidth", rate.gather_bytes_per_second, read_bandwidth);
    });
  });
  section.finish();
}

void read_losses(const JsonCursor& object, const Sources& sources, const DeviceSpec& device,
                 Losses& losses) {
  Section section(object, sources);
  section.optional("watts", losses.watts, [&](const JsonCursor& value) {
    const double watts = value.number();
    const double known = device.kernels ? device.kernels->watts : 0;
    if (known == 0) {
      value.fail(
          fmt::format("{} does not say at which power its kernels were measured; omit this, "
                      "or give its 'kernels' a key 'watts'",
                      device.name));
    }
    if (!(watts > static_watts)) {
      value.fail(fmt::format("{} W run no kernels; give more than {}", watts, static_watts));
    }
    return watts;
  });
  section.optional("node", losses.node, read_share);
  section.optional("per_doubling", losses.per_doubling, read_part);
  section.finish();
}

bool is_of_device(const JsonCursor& root) {
  JsonMembers members(root);
  if (!members.has("format")) return false;
  const auto* format = members.required("format").value().get_if<std::string>();
  return format != nullptr && *format == "pipesim-device";
}

// That device alone.
Cluster cluster_of(DeviceSpec device) {
  Cluster cluster;
  cluster.name = device.name;
  cluster.title = device.title;
  cluster.device = std::move(device);
  cluster.nodes = 1;
  return cluster;
}

}  // namespace

double pace_of(const Cluster& cluster, std::int64_t devices) {
  const Losses& losses = cluster.losses;
  double pace = 1;
  if (losses.watts) {
    const double measured = cluster.device.kernels->watts - static_watts;
    pace = std::min(1.0, std::cbrt((*losses.watts - static_watts) / measured));
  }
  if (devices == 1) return pace;
  const auto nodes =
      std::max(1.0, static_cast<double>(devices) / static_cast<double>(cluster.devices_per_node));
  return pace * losses.node / (1 + losses.per_doubling * std::log2(nodes));
}

void require_devices(const Cluster& cluster, std::int64_t devices, std::string_view in_words) {
  if (cluster.nodes && devices > *cluster.nodes * cluster.devices_per_node) {
    throw input_error(fmt::format("{}, but {} has {} of {}; use fewer, or a larger cluster",
                                  in_words, cluster.name, plural(*cluster.nodes, "node"),
                                  cluster.devices_per_node));
  }
  if (devices > cluster.devices_per_node && cluster.network.cards_per_node == 0) {
    throw input_error(
        fmt::format("{} devices are more than the {} of a node, and {} has no "
                    "network; use at most {}, or describe its network",
                    devices, cluster.devices_per_node, cluster.name, cluster.devices_per_node));
  }
}

Cluster parse_cluster(std::string_view text, const std::string& file) {
  const JsonValue document = parse_json(text, file);
  const JsonCursor root(document, file);
  Cluster cluster;
  if (is_of_device(root)) return cluster_of(read_device(root));
  std::optional<DeviceSpec> base_device;
  std::optional<int> partition;
  std::vector<std::string> unverified;
  const Sources sources(root, unverified);
  Section section(root, sources);
  JsonMembers& members = section.members();
  members.format("pipesim-cluster", 1);
  members.optional("base", [&](const JsonCursor& base) {
    cluster = find_base(base);
    base_device = cluster.device;
    if (!cluster.whole_node) return;
    // What the file says is of whole nodes.
    partition = cluster.devices_per_node;
    resize_nodes(cluster, *cluster.whole_node);
    cluster.whole_node.reset();
  });
  const bool has_base = base_device.has_value();
  if (has_base) cluster.title = fmt::format("{}, changed", cluster.title);
  if (!has_base || members.has("name")) {
    cluster.name = members.required("name").string();
    cluster.title = cluster.name;
  }
  members.optional("title", [&](const JsonCursor& title) { cluster.title = title.string(); });
  if (!has_base || members.has("device")) {
    cluster.device = find_device_of(members.required("device"), base_device);
  }
  section.needed(has_base, "devices_per_node", cluster.devices_per_node,
                 [](const JsonCursor& value) { return static_cast<int>(read_count(value)); });
  section.optional("nodes", cluster.nodes, read_count);
  members.optional("node", [&](const JsonCursor& node) {
    if (cluster.devices_per_node == 1) node.fail("one device has no links; omit it");
    const bool has_links = !cluster.node.collectives.empty();
    read_node(node, sources, has_links, cluster.devices_per_node, cluster.node);
  });
  if (cluster.devices_per_node > 1 && cluster.node.collectives.empty()) {
    root.fail(fmt::format("key 'node' is missing: say how the {} of a node are linked",
                          plural(cluster.devices_per_node, "device")));
  }
  members.optional("network", [&](const JsonCursor& network) {
    const bool has_cards = cluster.network.cards_per_node > 0;
    read_network(network, sources, has_cards, cluster.devices_per_node, cluster.network);
  });
  if (cluster.network.cards_per_node == 0) {
    if (cluster.nodes.value_or(1) > 1) {
      root.fail(fmt::format("key 'network' is missing: say how the {} are linked",
                            plural(*cluster.nodes, "node")));
    }
    cluster.nodes = 1;
  }
  take_partition(root, section, partition, cluster);
  members.optional("losses", [&](const JsonCursor& losses) {
    read_losses(losses, sources, cluster.device, cluster.losses);
  });
  members.optional("error_band",
                   [&](const JsonCursor& band) { cluster.error_band = read_error_band(band); });
  section.finish();
  replace_unverified(root, std::move(unverified), cluster.unverified);
  return cluster;
}

}  // namespace pipesim
