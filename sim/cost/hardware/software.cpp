#include "sim/cost/hardware/software.h"

#include <fmt/format.h>

#include <utility>

#include "sim/cost/costs.h"
#include "sim/cost/hardware/hardware_json.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::int64_t read_small(const JsonCursor& value) { return value.integer(0, 64); }

std::int64_t read_bucket(const JsonCursor& value) { return value.integer(0, max_bytes / 4); }

double read_state_bytes(const JsonCursor& value) {
  const double bytes = value.number();
  if (!(bytes >= 0 && bytes <= max_state_bytes)) {
    value.fail(
        fmt::format("{} is out of range: it must be between 0 and {}", bytes, max_state_bytes));
  }
  return bytes;
}

bool read_flag(const JsonCursor& value) { return value.boolean(); }

bool read_deal(const JsonCursor& value) {
  const std::string& text = value.string();
  if (text == "cost") return true;
  if (text != "even") {
    value.fail(fmt::format("{}: no such way to deal layers out; give even or cost", quote(text)));
  }
  return false;
}

void read_values(Section& section, SoftwareSpec& software) {
  section.optional("efficiency", software.efficiency, read_factor);
  section.optional("fp8_efficiency", software.fp8_efficiency, read_factor);
  section.optional("elementwise_traffic", software.elementwise_traffic, read_factor);
  section.optional("kernel_gap", software.kernel_gap_ns, read_time);
  section.optional("host_forward", software.host.forward_ns, read_time);
  section.optional("host_backward", software.host.backward_ns, read_time);
  section.optional("host_peers", software.host.peers_ns, read_time);
  section.optional("host_peer", software.host.peer_ns, read_time);
  section.optional("host_far_peers", software.host.far_peers_ns, read_time);
  section.optional("host_far_peer", software.host.far_peer_ns, read_time);
  section.optional("p2p_overhead", software.p2p_overhead_ns, read_time);
  section.optional("compute_slowdown", software.compute_slowdown_ppm,
                   [](const JsonCursor& value) { return value.millionths(max_slowdown); });
  section.optional("hidden_reduction", software.hidden_reduction, read_part);
  section.optional("hidden_exchange", software.hidden_exchange, read_part);
  section.optional("bucket_parameters", software.bucket_parameters, read_bucket);
  section.optional("bucket_parameters_per_replica", software.bucket_parameters_per_replica,
                   read_bucket);
  section.optional("gathers_ahead", software.gathers_ahead,
                   [](const JsonCursor& value) { return value.boolean(); });
  section.optional("gather_share", software.gather_share, read_share);
  section.optional("network", software.network, [&](const JsonCursor& list) {
    return read_by_nodes<NetworkShare>(
        list, section.sources(), [](Section& item, NetworkShare& one) {
          item.required("share", one.share, read_share);
          item.optional("gather_share", one.gather_share, read_share);
        });
  });
  section.optional("stalls_over_nodes", software.stalls_over_nodes, read_part);
  section.optional("gathers_fp8", software.gathers_fp8, read_flag);
  section.optional("logit_bytes", software.logit_bytes, read_small);
  section.optional("split_logit_bytes", software.split_logit_bytes, read_small);
  section.optional("state_bytes", software.state_bytes, read_state_bytes);
  section.optional("activation_memory", software.activation_memory, read_factor);
  section.optional("reserved_memory", software.reserved_bytes, read_bytes);
  section.optional("keeps_placeholders", software.keeps_placeholders, read_flag);
  section.optional("keeps_gathered", software.keeps_gathered, read_flag);
  section.optional("gathers_again", software.gathers_again, read_flag);
  section.optional("weighs_outputs", software.weighs_outputs, read_flag);
  section.optional("keeps_both_gradients", software.keeps_both_gradients, read_flag);
  section.optional("layers", software.deals_by_cost, read_deal);
  section.members().optional("kernels", [&](const JsonCursor& kernels) {
    read_kernel_list(kernels, section.sources(), software.kernels);
  });
  section.members().optional("bf16_weights", [&](const JsonCursor& keys) {
    if (!software.kernels) {
      keys.fail(
          "changes keys of 'kernels', which this software lacks; give these, or a base that "
          "has them");
    }
    std::optional<KernelList> scratch = software.kernels;  // to find mistakes
    read_kernel_list(keys, section.sources(), scratch);
    software.bf16_weights.push_back({keys.value(), keys.file(), keys.path()});
  });
}

SoftwareSpec find_base(const JsonCursor& base, const std::string& device) {
  const std::string& name = base.string();
  if (!software_presets().contains(name)) {
    base.fail(unknown_name("software", name, known_software()));
  }
  return find_software(name, device);
}

// A section's values, and its unverified keys; its values override earlier ones.
void read_section(const JsonCursor& object, SoftwareSpec& software, bool has_base,
                  const std::string& device) {
  std::vector<std::string> unverified;
  const Sources sources(object, unverified);
  Section section(object, sources);
  if (has_base) {
    section.members().optional("base",
                               [&](const JsonCursor& base) { software = find_base(base, device); });
  }
  read_values(section, software);
  section.finish();
  std::erase_if(software.unverified,
                [&](const std::string& key) { return section.members().has(key); });
  software.unverified.insert(software.unverified.end(), unverified.begin(), unverified.end());
}

// A whole "pipesim-software".
SoftwareSpec read_whole(const JsonCursor& root, const std::string& device) {
  JsonMembers members(root);
  members.format("pipesim-software", 1);
  SoftwareSpec software;
  members.optional("base", [&](const JsonCursor& base) { software = find_base(base, device); });
  software.name = members.required("name").string();
  software.title = software.name;
  members.optional("title", [&](const JsonCursor& title) { software.title = title.string(); });
  members.optional(
      "values", [&](const JsonCursor& values) { read_section(values, software, false, device); });
  // All are read, to find mistakes, and this device's is used.
  members.optional("devices", [&](const JsonCursor& devices) {
    const auto* object = devices.value().get_if<JsonValue::Object>();
    if (object == nullptr) devices.fail("must be an object: values by the name of a device");
    for (const auto& [name, value] : *object) {
      SoftwareSpec other = software;  // whose values these change
      read_section(JsonCursor(value, root.file(), fmt::format("{}.{}", devices.path(), name)),
                   name == device ? software : other, false, device);
    }
  });
  members.finish();
  return software;
}

}  // namespace

std::vector<std::string> known_software() {
  std::vector<std::string> names;
  for (const auto& [name, text] : software_presets()) names.push_back(name);
  return names;
}

std::string_view software_preset(const std::string& name) {
  const auto found = software_presets().find(name);
  if (found == software_presets().end()) {
    throw input_error(unknown_name("software", name, known_software()));
  }
  return found->second;
}

SoftwareSpec find_software(const std::string& name_or_file, const std::string& device) {
  if (names_file(name_or_file)) {
    SoftwareSpec own = parse_software(read_file(name_or_file), name_or_file, device);
    own.is_own = true;
    return own;
  }
  if (!software_presets().contains(name_or_file)) {
    throw input_error(fmt::format("--software: {}; or give a file that ends in .json",
                                  unknown_name("software", name_or_file, known_software())));
  }
  return parse_software(software_preset(name_or_file), name_or_file + ".json", device);
}

SoftwareSpec with_bf16_weights(SoftwareSpec software) {
  if (software.bf16_weights.empty()) {
    std::vector<std::string> known = known_software();
    std::erase_if(known, [](const std::string& name) {
      return software_preset(name).find("\"bf16_weights\"") == std::string_view::npos;
    });
    throw input_error(fmt::format(
        "--weights bf16: {} keeps them in one way (its file has no bf16_weights); omit the flag, "
        "or give --software {}",
        software.title.empty() ? "this device's software" : software.title,
        fmt::join(known, " or ")));
  }
  for (const SoftwareSpec::Written& keys : software.bf16_weights) {
    const JsonCursor object(keys.json, keys.file, keys.path);
    const Sources sources(object, software.unverified);
    read_kernel_list(object, sources, software.kernels);
  }
  software.bf16_weights.clear();
  software.is_own = true;
  return software;
}

SoftwareSpec parse_software(std::string_view text, const std::string& file,
                            const std::string& device) {
  const JsonValue document = parse_json(text, file);
  return read_whole(JsonCursor(document, file), device);
}

void read_software(const JsonCursor& object, const std::string& device, SoftwareSpec& software) {
  if (JsonMembers(object).has("format")) {
    software = read_whole(object, device);
    return;
  }
  read_section(object, software, true, device);
}

}  // namespace pipesim
