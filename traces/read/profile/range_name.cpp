#include "traces/read/profile/range_name.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

namespace pipesim {
namespace {

constexpr std::array<std::pair<std::string_view, Kind>, 9> turns{{
    {"forward_step", Kind::F},               // Megatron-LM
    {"backward_step", Kind::B},              //
    {"forward-compute", Kind::F},            // its timers
    {"backward-compute", Kind::B},           //
    {"_exec_forward_pass", Kind::F},         // DeepSpeed
    {"_exec_backward_pass", Kind::B},        //
    {"forward_one_chunk", Kind::F},          // PyTorch
    {"backward_one_chunk", Kind::B},         //
    {"backward_weight_one_chunk", Kind::W},  //
}};

// Parses `text` as a non-negative int32; nothing if it is not one.
std::optional<std::int32_t> index_number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Removes `prefix` from the start of `text`, if it is there.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

RangeName pipeline_range(std::string_view text) {
  RangeName name;
  if (const auto action = parse_action(text)) {
    name.says = RangeName::Says::action;
    name.action = *action;
  } else if (parse_overlap(text, name.action, name.partner)) {
    name.says = RangeName::Says::action;
  } else {
    const std::size_t kind = text.find_first_not_of("0123456789");
    const bool waits =
        kind != 0 && kind != std::string_view::npos && text.substr(kind).starts_with("WAIT_");
    name.says = waits ? RangeName::Says::wait : RangeName::Says::unknown;
  }
  return name;
}

}  // namespace

bool parse_overlap(std::string_view text, Action& first, Action& second) {
  if (!take(text, "(") || !text.ends_with(")OVERLAP_F_B")) return false;
  text = text.substr(0, text.find(')'));
  const std::size_t middle = text.find(';');
  if (middle == std::string_view::npos) return false;
  const auto forward = parse_action(text.substr(0, middle));
  const auto backward = parse_action(text.substr(middle + 1));
  if (!forward || !backward) return false;
  if (forward->kind != Kind::F || !is_backward(backward->kind)) return false;
  first = *forward;
  first.joined = true;
  second = *backward;
  return true;
}

std::string_view turn_name(std::string_view name) {
  const std::size_t place = name.rfind("): ");  // "file.py(12): function"
  if (place != std::string_view::npos) name.remove_prefix(place + 3);
  for (const auto& turn : turns) {
    if (turn.first == name) return turn.first;
  }
  return {};
}

RangeName parse_range_name(std::string_view text) {
  if (take(text, "PP:")) return pipeline_range(text);
  RangeName name;
  if (take(text, "ProfilerStep#")) {
    const auto number = index_number(text);
    if (!number || *number > max_index) return name;
    name.says = RangeName::Says::iteration;
    name.number = *number;
    return name;
  }
  if (text.starts_with("Optimizer.step#")) {
    name.says = RangeName::Says::optimizer;
    name.action = make_action(0, Kind::OPTIMIZER);
    return name;
  }
  const bool forward = take(text, "Forward ");
  if (forward || take(text, "Backward ")) {
    const auto microbatch = index_number(text);
    if (!microbatch || *microbatch > max_index) return name;
    name.says = RangeName::Says::microbatch;
    name.action = make_action(0, forward ? Kind::F : Kind::B, *microbatch);
    return name;
  }
  const std::string_view function = turn_name(text);
  for (const auto& [turn, kind] : turns) {
    if (function != turn) continue;
    name.says = RangeName::Says::turn;
    name.action = make_action(0, kind);
  }
  return name;
}

}  // namespace pipesim
