#include "traces/input_action.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace pipesim {
namespace {

constexpr std::array<std::string_view, input_stream_count> stream_names{
    "host",   "memcpy",  "prepare", "data_dist", "prefetch",
    "lookup", "compute", "output",  "reduction"};

constexpr std::array<std::string_view, input_group_count> input_group_names{
    "compute", "rows", "exchange", "copy", "host"};

template <typename Value, std::size_t count>
std::optional<Value> find_name(const std::array<std::string_view, count>& names,
                               std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Value>(found - names.begin());
}

}  // namespace

std::string_view input_stream_name(InputStream stream) {
  return stream_names[static_cast<std::size_t>(stream)];
}
std::optional<Kind> parse_input_kind(std::string_view name) {
  const auto found = std::ranges::find(input_kinds, name, kind_name);
  return found == input_kinds.end() ? std::nullopt : std::optional(*found);
}
std::optional<InputStream> parse_input_stream(std::string_view name) {
  return find_name<InputStream>(stream_names, name);
}

InputGroup input_group_of(Kind kind) {
  using enum Kind;
  switch (kind) {
    case NEXT:
    case READ: return InputGroup::host;
    case COPY:
    case PREFETCH: return InputGroup::copy;
    case LOOKUP:
    case UPDATE: return InputGroup::rows;
    default: return is_meeting(kind) ? InputGroup::exchange : InputGroup::compute;
  }
}

std::string_view input_group_name(InputGroup group) {
  return input_group_names[static_cast<std::size_t>(group)];
}

std::optional<Action> parse_input_action(std::string_view text) {
  constexpr std::size_t max_digits = 9;
  const std::size_t length = std::min(text.find_first_of("0123456789"), text.size());
  const auto kind = parse_input_kind(text.substr(0, length));
  const std::string_view digits = text.substr(length);
  if (!kind || digits.empty() || digits.size() > max_digits) return std::nullopt;
  Action action = input_action(*kind, 0);
  const auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), action.microbatch);
  if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return action;
}

}  // namespace pipesim
