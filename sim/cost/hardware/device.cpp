#include "sim/cost/hardware/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sim/cost/hardware/cluster.h"
#include "sim/cost/hardware/hardware_json.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::array<std::string_view, precision_count> precision_names{"fp32", "tf32", "fp16",
                                                                        "bf16", "fp8"};
constexpr std::int64_t largest_tile = 1 << 20;

void read_peak(const JsonCursor& object, const Sources& sources, DeviceSpec& device) {
  Section section(object, sources);
  for (std::size_t i = 0; i < precision_names.size(); ++i) {
    section.optional(precision_names[i], device.flops_per_second[i], read_flops);
  }
  section.finish();
  if (std::ranges::none_of(device.flops_per_second,
                           [](const auto& peak) { return peak.has_value(); })) {
    object.fail(fmt::format("is empty; give one or more of {}", fmt::join(precision_names, ", ")));
  }
}

std::vector<Tile> read_tiles(const JsonCursor& list, const Sources& sources) {
  std::vector<Tile> tiles;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  const auto edge = [](const JsonCursor& value) { return value.integer(1, largest_tile); };
  for (const JsonCursor& item : list.array()) {
    Section section(item, sources);
    Tile tile;
    section.required("rows", tile.rows, edge);
    section.required("columns", tile.columns, edge);
    section.required("efficiency", tile.efficiency, read_share);
    section.finish();
    if (!shapes.emplace(tile.rows, tile.columns).second) {
      item.fail(fmt::format("tile {}x{} is given twice; keep one", tile.rows, tile.columns));
    }
    tiles.push_back(tile);
  }
  if (tiles.empty()) list.fail("an empty list; omit it where any shape fits");
  return tiles;
}

void read_matmul(const JsonCursor& object, const Sources& sources, MatmulRate& matmul) {
  Section section(object, sources);
  section.optional("peak_share", matmul.peak_share, read_share);
  section.optional("ramp", matmul.ramp, read_ramp);
  section.optional("whole_waves", matmul.whole_waves, read_part);
  section.optional("fp8_share", matmul.fp8_share, read_share);
  section.optional("accumulation", matmul.accumulation, read_least_factor);
  section.optional("unaligned_8", matmul.unaligned_8, read_least_factor);
  section.optional("unaligned_64", matmul.unaligned_64, read_least_factor);
  section.optional("tiles", matmul.tiles,
                   [&](const JsonCursor& list) { return read_tiles(list, sources); });
  section.finish();
}

DeviceSpec find_device_base(const JsonCursor& base) {
  const std::string& name = base.string();
  if (names_file(name)) base.fail("a base is a preset; copy a file's values instead");
  if (!device_presets().contains(name)) base.fail(unknown_name("device", name, known_devices()));
  return find_device(name);
}

void read_reached(const JsonCursor& object, const Sources& sources, DeviceSpec& device) {
  Section section(object, sources);
  section.optional("memory_share", device.memory_share, read_share);
  section.optional("attention_traffic", device.attention_traffic, read_factor);
  section.optional("fused_attention_share", device.fused_attention_share, read_share);
  section.optional("fused_attention_backward_share", device.fused_attention_backward_share,
                   read_share);
  section.finish();
}

}  // namespace

std::string_view precision_name(Precision precision) {
  return precision_names[static_cast<std::size_t>(precision)];
}

std::vector<std::string> all_precision_names() {
  return {precision_names.begin(), precision_names.end()};
}

Precision parse_precision(std::string_view name, std::string_view where) {
  const auto known = std::ranges::find(precision_names, name);
  if (known == precision_names.end()) {
    throw input_error(
        fmt::format("{}: {}", where, unknown_name("precision", name, all_precision_names())));
  }
  return static_cast<Precision>(known - precision_names.begin());
}

double flops_of_values(const DeviceSpec& device) {
  for (const Precision precision :
       {Precision::bf16, Precision::fp16, Precision::tf32, Precision::fp32, Precision::fp8}) {
    const auto& peak = device.flops_per_second[static_cast<std::size_t>(precision)];
    if (peak) return *peak;
  }
  throw input_error(device.name + ": it has no peak rate");
}

namespace {

// A measured device's rates on another, by the peaks of both.
KernelRates scaled_kernels(const DeviceSpec& measured, const DeviceSpec& device) {
  const double compute = flops_of_values(device) / flops_of_values(measured);
  const double memory = static_cast<double>(device.memory_bytes_per_second) /
                        static_cast<double>(measured.memory_bytes_per_second);
  KernelRates rates = *measured.kernels;
  rates.product_flops_per_second *= compute;
  for (double& bytes : rates.bytes_per_second) bytes *= memory;
  for (AttentionRates& library : rates.attention) {
    library.forward.flops_per_second *= compute;
    library.backward.flops_per_second *= compute;
  }
  return rates;
}

}  // namespace

KernelRates kernels_of(const DeviceSpec& device) {
  if (device.kernels) return *device.kernels;
  return scaled_kernels(find_device("h100-sxm-80gb"), device);
}

void require_rate(const DeviceSpec& device, Precision precision) {
  if (device.flops_per_second[static_cast<std::size_t>(precision)]) return;
  std::vector<std::string_view> known;
  for (std::size_t p = 0; p < precision_names.size(); ++p) {
    if (device.flops_per_second[p]) known.push_back(precision_names[p]);
  }
  throw input_error(fmt::format("--precision {}: {} gives no rate for it; there are {}",
                                precision_name(precision), device.name, fmt::join(known, ", ")));
}

DeviceSpec read_device(const JsonCursor& object, std::optional<DeviceSpec> base) {
  DeviceSpec device;
  std::vector<std::string> unverified;
  const Sources sources(object, unverified);
  Section section(object, sources);
  JsonMembers& members = section.members();
  const bool is_inline = !object.path().empty();
  if (!is_inline || members.has("format") || members.has("version")) {
    members.format("pipesim-device", 1);
  }
  members.optional("base", [&](const JsonCursor& name) { base = find_device_base(name); });
  const bool has_base = base.has_value();
  if (has_base) {
    device = *base;
    device.title = fmt::format("{}, changed", device.title);
  }
  if (!has_base || members.has("name")) {
    device.name = members.required("name").string();
    device.title = device.name;
    if (!has_base) device.kind = device.preset = device.name;
  }
  members.optional("title", [&](const JsonCursor& title) { device.title = title.string(); });
  if (!has_base || members.has("peak")) read_peak(members.required("peak"), sources, device);
  section.needed(has_base, "memory", device.memory_bytes, read_size);
  section.needed(has_base, "memory_bandwidth", device.memory_bytes_per_second, read_bandwidth);
  section.optional("host_bandwidth", device.host_bytes_per_second, read_bandwidth);
  section.optional("host_latency", device.host_latency_ns, read_time);
  section.optional("multiprocessors", device.multiprocessors, read_count);
  members.optional("matmul",
                   [&](const JsonCursor& matmul) { read_matmul(matmul, sources, device.matmul); });
  members.optional("reached",
                   [&](const JsonCursor& reached) { read_reached(reached, sources, device); });
  if (has_base && device.kernels) device.kernels = scaled_kernels(*base, device);
  members.optional("kernels", [&](const JsonCursor& kernels) {
    if (has_base) device.kernels = kernels_of(device);
    JsonMembers(kernels).optional("base", [&](const JsonCursor& name) {
      DeviceSpec other = find_device_base(name);
      other.kernels = kernels_of(other);
      device.kernels = scaled_kernels(other, device);
      device.kernels->base = other.name;
      device.kernels->watts = 0;  // of its board
    });
    read_kernel_rates(kernels, sources, device.kernels);
  });
  members.optional("software", [&](const JsonCursor& software) {
    read_software(software, device.kind, device.software);
  });
  section.finish();
  replace_unverified(object, std::move(unverified), device.unverified);
  return device;
}

DeviceSpec parse_device(std::string_view text, const std::string& file) {
  const JsonValue document = parse_json(text, file);
  return read_device(JsonCursor(document, file));
}

}  // namespace pipesim
