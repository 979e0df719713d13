#include "traces/action.h"

#include <array>
#include <charconv>

namespace pipesim {
namespace {

constexpr std::array<std::string_view, kind_count> names{"F",
                                                         "I",
                                                         "W",
                                                         "B",
                                                         "SEND_F",
                                                         "RECV_F",
                                                         "SEND_B",
                                                         "RECV_B",
                                                         "UNSHARD",
                                                         "RESHARD",
                                                         "REDUCE_GRAD",
                                                         "REDUCE_TIED",
                                                         "GRAD_NORM",
                                                         "OPTIMIZER",
                                                         "SAVE",
                                                         "IDLE",
                                                         "NEXT",
                                                         "COPY",
                                                         "PREPARE",
                                                         "SPLITS",
                                                         "READ",
                                                         "IDS",
                                                         "PREFETCH",
                                                         "LOOKUP",
                                                         "OUTPUT",
                                                         "ZERO_GRAD",
                                                         "BOTTOM",
                                                         "TOP",
                                                         "TOP_BACKWARD",
                                                         "OUTPUT_BACKWARD",
                                                         "UPDATE",
                                                         "BOTTOM_BACKWARD",
                                                         "REDUCE_TOP",
                                                         "REDUCE_BOTTOM",
                                                         "OPTIMIZER"};

void append_number(std::string& text, std::int32_t value) {
  std::array<char, 12> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

// Removes leading digits from `text`; nothing if there are none or the number exceeds max_index.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t value = 0;
  std::size_t length = 0;
  while (length < text.size() && text[length] >= '0' && text[length] <= '9') {
    if (length == 9) return std::nullopt;
    value = value * 10 + (text[length] - '0');
    ++length;
  }
  if (length == 0) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

}  // namespace

std::string_view kind_name(Kind kind) { return names[static_cast<std::size_t>(kind)]; }

std::optional<Kind> parse_kind(std::string_view name) {
  for (int i = 0; i < static_cast<int>(Kind::IDLE); ++i) {
    if (names[static_cast<std::size_t>(i)] == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

void append_text(std::string& text, const Action& action) {
  if (action.kind == Kind::IDLE) return;
  if (!is_of_input(action.kind)) append_number(text, action.stage);
  text += kind_name(action.kind);
  if (takes_microbatch(action.kind)) append_number(text, action.microbatch);
}

std::string to_text(const Action& action) {
  std::string text;
  append_text(text, action);
  return text;
}

void append_cell(std::string& text, const Action* cell, std::size_t size) {
  if (size == 1) {
    append_text(text, *cell);
    return;
  }
  for (std::size_t i = 0; i < size; ++i) {
    text += i == 0 ? '(' : ';';
    append_text(text, cell[i]);
  }
  text += is_transfer(cell->kind) ? ")BATCH_P2P" : ")OVERLAP_F_B";
}

std::optional<Action> parse_action(std::string_view text, bool* is_bw) {
  if (is_bw != nullptr) *is_bw = false;
  const auto stage = take_number(text);
  if (!stage) return std::nullopt;
  const std::size_t length = std::min(text.find_first_of("0123456789"), text.size());
  std::string_view name = text.substr(0, length);
  text.remove_prefix(length);
  if (name == "BW") {
    if (is_bw != nullptr) *is_bw = true;
    name = "B";
  }
  const auto kind = parse_kind(name);
  if (!kind) return std::nullopt;
  Action action = make_action(*stage, *kind);
  if (takes_microbatch(*kind)) {
    const auto microbatch = take_number(text);
    if (!microbatch) return std::nullopt;
    action.microbatch = *microbatch;
  }
  if (!text.empty()) return std::nullopt;
  return action;
}

}  // namespace pipesim
