#include "sim/cost/hardware/kernel_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/cost/hardware/hardware_json.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::array<std::string_view, traffic_count> traffic_names{"stream", "norm", "optimizer"};

AttentionRate read_attention(const JsonCursor& object, const Sources& sources) {
  AttentionRate rate;
  Section section(object, sources);
  section.required("rate", rate.flops_per_second, read_flops);
  section.optional("ramp", rate.ramp, read_ramp);
  section.optional("start", rate.start_ns, read_time);
  section.finish();
  return rate;
}

// Adds libraries to those there are, or replaces them.
void read_libraries(const JsonCursor& object, const Sources& sources,
                    std::vector<AttentionRates>& libraries) {
  const auto* members = object.value().get_if<JsonValue::Object>();
  if (members == nullptr || members->empty()) {
    object.fail("must be an object: rates by the name of a library of attention");
  }
  JsonMembers known(object);
  for (const auto& [key, value] : *members) {
    const std::string& name = key;  // a lambda takes no structured binding
    JsonMembers directions(known.required(name));
    std::erase_if(libraries, [&](const AttentionRates& one) { return one.name == name; });
    libraries.push_back({name, read_attention(directions.required("forward"), sources),
                         read_attention(directions.required("backward"), sources)});
    directions.finish();
  }
}

double read_watts(const JsonCursor& value) {
  const double watts = value.number();
  if (!(watts > 0 && watts <= 100'000)) {
    value.fail(
        fmt::format("{} is out of range: it must be watts, over 0 and at most 100000", watts));
  }
  return watts;
}

}  // namespace

std::string_view traffic_name(Traffic traffic) {
  return traffic_names[static_cast<std::size_t>(traffic)];
}

const AttentionRates& KernelRates::attention_of(const std::string& library,
                                                const std::string& device,
                                                std::string_view place) const {
  const auto found = std::ranges::find(attention, library, &AttentionRates::name);
  if (found != attention.end()) return *found;
  std::vector<std::string> known;
  for (const AttentionRates& one : attention) known.push_back(one.name);
  throw input_error(
      fmt::format("{}: {}; give {} its rates (kernels.attention), or the software another", place,
                  unknown_name("library of attention", library, known), device));
}

void read_kernel_rates(const JsonCursor& object, const Sources& sources,
                       std::optional<KernelRates>& kernels) {
  const bool has_base = kernels.has_value();
  if (!has_base) kernels.emplace();
  KernelRates& rates = *kernels;
  Section section(object, sources);
  section.members().optional("base", [](const JsonCursor&) {});  // whose rates `kernels` has
  section.needed(has_base, "product_rate", rates.product_flops_per_second, read_flops);
  section.optional("product_ramp", rates.product_ramp, read_ramp);
  section.optional("product_start", rates.product_start_ns, read_time);
  section.optional("fp8", rates.fp8, read_factor);
  section.optional("epilogue", rates.epilogue, read_part);
  section.optional("sustained", rates.sustained, read_share);
  section.optional("watts", rates.watts, read_watts);
  for (std::size_t i = 0; i < traffic_names.size(); ++i) {
    section.needed(
        has_base, traffic_names[i], rates.bytes_per_second[i],
        [](const JsonCursor& value) { return static_cast<double>(read_bandwidth(value)); });
  }
  section.optional("start", rates.start_ns, read_time);
  if (!has_base || section.members().has("attention")) {
    read_libraries(section.members().required("attention"), sources, rates.attention);
  }
  section.finish();
}

}  // namespace pipesim
