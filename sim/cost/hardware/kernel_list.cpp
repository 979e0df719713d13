#include "sim/cost/hardware/kernel_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/cost/hardware/hardware_json.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr double most_bytes = 1000;
constexpr int max_launches = 1000;
constexpr std::array<std::string_view, kernel_size_count> size_names{"hidden", "heads",  "keys",
                                                                     "mlp",    "logits", "weights"};
constexpr std::array<std::string_view, 3> pass_names{"forward", "input_gradient",
                                                     "weight_gradient"};

constexpr std::array<std::string_view, 3> kernel_part_names{"none", "norms", "activation"};

double read_amount(const JsonCursor& value) {
  const double bytes = value.number();
  if (!(bytes >= 0 && bytes <= most_bytes)) {
    value.fail(fmt::format("{} is out of range: it must be between 0 and {}", bytes, most_bytes));
  }
  return bytes;
}

// One of some names, by its place.
template <typename Names>
std::size_t read_name(const JsonCursor& value, std::string_view what, const Names& names) {
  const auto found = std::ranges::find(names, value.string());
  if (found == names.end()) {
    value.fail(unknown_name(what, value.string(), {names.begin(), names.end()}));
  }
  return static_cast<std::size_t>(found - names.begin());
}

KernelBytes read_sizes(const JsonCursor& object) {
  KernelBytes bytes{};
  JsonMembers sizes(object);
  for (std::size_t i = 0; i < size_names.size(); ++i) {
    sizes.optional(size_names[i], [&](const JsonCursor& value) { bytes[i] = read_amount(value); });
  }
  sizes.finish();
  return bytes;
}

KernelLine read_line(const JsonCursor& object) {
  constexpr std::array<std::string_view, 2> architectures{"gpt", "llama"};
  std::array<std::string_view, traffic_count> traffics;
  for (std::size_t i = 0; i < traffics.size(); ++i) {
    traffics[i] = traffic_name(static_cast<Traffic>(i));
  }
  KernelLine line;
  JsonMembers members(object);
  line.name = members.required("kernel").string();
  line.pass = static_cast<KernelPass>(read_name(members.required("pass"), "pass", pass_names));
  line.launches = static_cast<int>(members.integer_or("launches", 1, 0, max_launches));
  members.optional("traffic", [&](const JsonCursor& value) {
    line.traffic = static_cast<Traffic>(read_name(value, "traffic", traffics));
  });
  line.bytes = read_sizes(members.required("bytes"));
  members.optional("kept", [&](const JsonCursor& value) { line.kept = read_sizes(value); });
  members.optional("workspace",
                   [&](const JsonCursor& value) { line.workspace = read_sizes(value); });
  members.optional("only", [&](const JsonCursor& value) {
    line.only = static_cast<Architecture>(read_name(value, "architecture", architectures));
  });
  members.optional("part", [&](const JsonCursor& value) {
    line.part = static_cast<KernelPart>(read_name(value, "part", kernel_part_names));
  });
  line.is_of_fp8 = members.boolean_or("of_fp8", false);
  line.ends_block = members.boolean_or("ends_block", false);
  members.optional("source", [](const JsonCursor& value) { value.string(); });
  members.finish();
  return line;
}

std::vector<KernelLine> read_lines(const JsonCursor& list) {
  std::vector<KernelLine> lines;
  for (const JsonCursor& item : list.array()) lines.push_back(read_line(item));
  return lines;
}

HostTimes read_host(const JsonCursor& object, const Sources& sources) {
  HostTimes host;
  Section section(object, sources);
  section.optional("product", host.product_ns, read_time);
  section.optional("kernel", host.kernel_ns, read_time);
  section.optional("block", host.block_ns, read_time);
  section.finish();
  return host;
}

}  // namespace

void read_kernel_list(const JsonCursor& object, const Sources& sources,
                      std::optional<KernelList>& kernels) {
  const bool has_base = kernels.has_value();
  if (!has_base) kernels.emplace();
  KernelList& list = *kernels;
  Section section(object, sources);
  const auto flag = [](const JsonCursor& value) { return value.boolean(); };
  section.needed(has_base, "attention", list.attention, [&](const JsonCursor& value) {
    list.attention_place = value.place();
    return value.string();
  });
  section.optional("splits_products", list.splits_products, flag);
  section.optional("sums_in_products", list.sums_in_products, flag);
  section.optional("stops_early", list.stops_early, flag);
  const auto host = [&](std::string_view key, HostTimes& times) {
    section.members().optional(key,
                               [&](const JsonCursor& given) { times = read_host(given, sources); });
  };
  host("host_forward", list.host_forward);
  host("host_backward", list.host_backward);
  section.optional("host_step", list.host_step_ns, read_time);
  section.needed(has_base, "optimizer_bytes", list.optimizer_bytes, read_amount);
  section.optional("optimizer_kept", list.optimizer_kept,
                   [](const JsonCursor& value) { return value.integer(0, 64); });
  section.optional("residual_bytes", list.residual_bytes,
                   [](const JsonCursor& value) { return value.integer(1, 8); });
  section.optional("keeps_wide_weights", list.keeps_wide_weights, flag);
  section.optional("keeps_wide_gradients", list.keeps_wide_gradients, flag);
  section.needed(has_base, "block", list.block, read_lines);
  section.needed(has_base, "head", list.head, read_lines);
  section.finish();
}

}  // namespace pipesim
