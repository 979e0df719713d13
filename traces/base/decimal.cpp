#include "traces/base/decimal.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "traces/base/text.h"

namespace pipesim {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits_at(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
}

// Removes an exponent from `text`, clamped to a million.
bool take_exponent(std::string_view& text, std::int64_t& exponent) {
  if (text.empty() || (text.front() != 'e' && text.front() != 'E')) return true;
  text.remove_prefix(1);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::size_t length = digits_at(text);
  if (length == 0) return false;
  constexpr std::int64_t most = 1'000'000'000'000;
  std::int64_t value = most;
  const auto status = std::from_chars(text.data(), text.data() + length, value).ec;
  if (status != std::errc() || value > most) value = most;
  exponent = is_negative ? -value : value;
  text.remove_prefix(length);
  return true;
}

}  // namespace

ScaledDecimal scale_decimal(std::string_view text, int scale) {
  constexpr ScaledDecimal not_a_number{0, ScaledDecimal::Status::not_a_number};
  constexpr ScaledDecimal out_of_range{0, ScaledDecimal::Status::out_of_range};
  text = strip(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string_view whole = text.substr(0, digits_at(text));
  text.remove_prefix(whole.size());
  std::string_view fraction;
  if (text.starts_with('.')) {
    fraction = text.substr(1, digits_at(text.substr(1)));
    text.remove_prefix(1 + fraction.size());
  }
  std::int64_t exponent = 0;
  if (whole.empty() && fraction.empty()) return not_a_number;
  if (!take_exponent(text, exponent) || !text.empty()) return not_a_number;

  // Digits up to the scaled decimal point count, the next one rounds.
  const auto count = static_cast<std::int64_t>(whole.size() + fraction.size());
  const std::int64_t point = static_cast<std::int64_t>(whole.size()) + exponent + scale;
  const auto digit = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    return static_cast<unsigned>((at < whole.size() ? whole[at] : fraction[at - whole.size()]) -
                                 '0');
  };
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  std::uint64_t value = 0;
  for (std::int64_t i = 0; i < std::min(point, count); ++i) {
    if (value > (most - digit(i)) / 10) return out_of_range;
    value = value * 10 + digit(i);
  }
  for (std::int64_t i = count; value > 0 && i < point; ++i) {
    if (value > most / 10) return out_of_range;
    value *= 10;
  }
  if (point >= 0 && point < count && digit(point) >= 5 && ++value > most) return out_of_range;
  const auto magnitude = static_cast<std::int64_t>(value);
  return {is_negative ? -magnitude : magnitude, ScaledDecimal::Status::fine};
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc() && end == text.data() + text.size()) return value;
  const ScaledDecimal scaled = scale_decimal(text, 0);
  if (scaled.status != ScaledDecimal::Status::fine) return std::nullopt;
  return scaled.value;
}

}  // namespace pipesim
