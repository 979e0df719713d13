#include "traces/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/utf8.h"

namespace pipesim {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array time_units{Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};
constexpr std::array duration_units{Unit{"ns", 1},     Unit{"us", 1e3},   Unit{"ms", 1e6},
                                    Unit{"s", 1e9},    Unit{"min", 6e10}, Unit{"h", 3.6e12},
                                    Unit{"d", 8.64e13}};
constexpr std::array byte_units{Unit{"B", 1},
                                Unit{"kB", 1e3},
                                Unit{"KB", 1e3},
                                Unit{"MB", 1e6},
                                Unit{"GB", 1e9},
                                Unit{"TB", 1e12},
                                Unit{"KiB", 1024},
                                Unit{"MiB", 1048576},
                                Unit{"GiB", 1073741824.0},
                                Unit{"TiB", 1099511627776.0}};
constexpr std::array rate_units{Unit{"B/s", 1},
                                Unit{"kB/s", 1e3},
                                Unit{"KB/s", 1e3},
                                Unit{"MB/s", 1e6},
                                Unit{"GB/s", 1e9},
                                Unit{"TB/s", 1e12},
                                Unit{"KiB/s", 1024},
                                Unit{"MiB/s", 1048576},
                                Unit{"GiB/s", 1073741824.0},
                                Unit{"TiB/s", 1099511627776.0},
                                Unit{"Mbit/s", 125e3},
                                Unit{"Gbit/s", 125e6},
                                Unit{"Tbit/s", 125e9}};

constexpr std::array flops_units{Unit{"FLOP/s", 1}, Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                                 Unit{"PFLOP/s", 1e15}};

constexpr std::array percent_units{Unit{"%", 1e4}, Unit{"ppm", 1}};

std::string list_units(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) {
    if (!names.empty()) names += ", ";
    names += unit.name;
  }
  return names;
}

std::int64_t parse_quantity(std::string_view text, std::string_view where,
                            std::span<const Unit> units, std::int64_t limit,
                            std::string_view example) {
  text = strip(text);
  if (text.empty()) {
    throw input_error(fmt::format("{}: nothing given; write a value such as {}", where, example));
  }
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::invalid_argument) {
    throw input_error(
        fmt::format("{}: {} is not a number with a unit, such as {}", where, quote(text), example));
  }
  if (std::isnan(value))
    throw input_error(fmt::format("{}: {} is not a number", where, quote(text)));
  if (text.front() == '-') {
    throw input_error(fmt::format("{}: {} is negative; it must be 0 or more", where, quote(text)));
  }
  const std::string_view unit_name =
      strip(text.substr(static_cast<std::size_t>(end - text.data())));
  double factor = 1;
  if (unit_name.empty()) {
    if (value != 0) {
      throw input_error(fmt::format("{}: {} has no unit; write one of {}, such as {}", where,
                                    quote(text), list_units(units), example));
    }
  } else {
    const auto unit = std::ranges::find(units, unit_name, &Unit::name);
    if (unit == units.end()) {
      throw input_error(fmt::format("{}: unknown unit {} in {}; known: {}", where, quote(unit_name),
                                    quote(text), list_units(units)));
    }
    factor = unit->factor;
  }
  const bool vanishes =
      text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
  if (status == std::errc::result_out_of_range && vanishes) value = 0;  // smaller than a double
  const double scaled = value * factor;
  const bool overflows = status == std::errc::result_out_of_range && !vanishes;
  if (overflows || !(scaled <= static_cast<double>(limit))) {
    throw input_error(fmt::format("{}: {} is too large; the limit is {}{}", where, quote(text),
                                  limit / std::llround(units.front().factor), units.front().name));
  }
  return std::llround(scaled);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row.back();
}

}  // namespace

std::int64_t parse_time_ns(std::string_view text, std::string_view where) {
  return parse_quantity(text, where, time_units, max_time_ns, "1.5ms");
}

std::int64_t parse_duration_ns(std::string_view text, std::string_view where) {
  return parse_quantity(text, where, duration_units, max_duration_ns, "5min");
}

std::int64_t parse_bytes(std::string_view text, std::string_view where) {
  return parse_quantity(text, where, byte_units, max_bytes, "80GiB");
}

std::int64_t parse_slowdown_ppm(std::string_view text, std::string_view where) {
  return parse_quantity(text, where, percent_units, max_slowdown * 1'000'000, "10%");
}

std::int64_t parse_bytes_per_second(std::string_view text, std::string_view where) {
  const std::int64_t rate = parse_quantity(text, where, rate_units, max_bytes_per_second, "25GB/s");
  if (rate == 0) {
    throw input_error(
        fmt::format("{}: a bandwidth of 0 moves nothing; omit it for an unlimited link", where));
  }
  return rate;
}

std::int64_t parse_flops_per_second(std::string_view text, std::string_view where) {
  const std::int64_t rate =
      parse_quantity(text, where, flops_units, max_flops_per_second, "312TFLOP/s");
  if (rate == 0) {
    throw input_error(fmt::format("{}: a device of 0 FLOP/s computes nothing", where));
  }
  return rate;
}

namespace {

// "1,024".
bool has_thousands(std::string_view text) {
  const std::vector<std::string_view> groups = split(text, ',');
  const auto is_number = [](std::string_view group) {
    return !group.empty() && group.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return groups.size() > 1 && groups.front().size() <= 3 && is_number(groups.front()) &&
         std::ranges::all_of(groups.begin() + 1, groups.end(), [&](std::string_view group) {
           return group.size() == 3 && is_number(group);
         });
}

}  // namespace

int parse_count(std::string_view text, std::string_view where) {
  text = strip(text);
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = status == std::errc() && end == text.data() + text.size();
  if (status == std::errc::result_out_of_range || (whole && value > max_count)) {
    throw input_error(
        fmt::format("{}: {} is too large; the limit is {}", where, quote(text), max_count));
  }
  if (!whole) {
    throw input_error(fmt::format("{}: {} is not a whole number{}", where, quote(text),
                                  has_thousands(text) ? "; write it without commas" : ""));
  }
  if (value < 1) throw input_error(fmt::format("{}: {} must be 1 or more", where, value));
  return static_cast<int>(value);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view strip(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string format_time(std::int64_t ns) {
  const double value = static_cast<double>(ns);
  const double magnitude = std::abs(value);
  if (ns == 0) return "0 ms";
  if (magnitude < 1e3) return fmt::format("{} ns", ns);
  if (magnitude < 1e6) return fmt::format("{:.4g} us", value / 1e3);
  if (magnitude < 1e8) return fmt::format("{:.2f} ms", value / 1e6);
  if (magnitude < 1e10) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.2f} s", value / 1e9);
}

std::string format_duration(std::int64_t ns) {
  const double value = static_cast<double>(ns);
  // A unit is used from where three digits of the smaller one would round to it.
  const Unit* unit = &duration_units.front();
  constexpr double hours_to_days = 48;
  for (const Unit& larger : duration_units) {
    const double from = larger.name == "d" ? hours_to_days * 3.6e12 : larger.factor;
    if (value >= from * 0.9995) unit = &larger;
  }
  if (unit == &duration_units.front()) return fmt::format("{} ns", ns);
  const double shown = value / unit->factor;
  const int decimals = shown < 9.995 ? 2 : shown < 99.95 ? 1 : 0;
  return fmt::format(
      "{} {}",
      decimals > 0 ? fmt::format("{:.{}f}", shown, decimals) : format_count(std::llround(shown)),
      unit->name);
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes) < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string format_percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }

std::string format_count(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::ptrdiff_t first = value < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string format_rounded(double value) {
  if (!(std::abs(value) < 0x1p62)) return fmt::format("{:.2g}", value);
  return format_count(std::int64_t{std::llround(value)});
}

std::string plural(std::int64_t count, std::string_view singular, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", singular);
  if (!many.empty()) return fmt::format("{} {}", format_count(count), many);
  return fmt::format("{} {}{}", format_count(count), singular,
                     singular.ends_with("ch") ? "es" : "s");
}

std::vector<std::string> nearest_first(std::string_view name, std::vector<std::string> known) {
  // Similar names are similar from the beginning; a name of a megabyte isn't worth more.
  constexpr std::size_t compared = 64;
  std::vector<std::pair<std::size_t, std::size_t>> by_distance;
  for (const std::string& other : known) {
    by_distance.emplace_back(
        edit_distance(name.substr(0, compared), std::string_view(other).substr(0, compared)),
        by_distance.size());
  }
  std::ranges::sort(by_distance);
  std::vector<std::string> sorted;
  for (const auto& [distance, place] : by_distance) sorted.push_back(std::move(known[place]));
  return sorted;
}

std::string unknown_name(std::string_view what, std::string_view name,
                         const std::vector<std::string>& known) {
  return fmt::format("unknown {} {}; known, nearest first: {}", what, quote(name),
                     fmt::join(nearest_first(name, known), ", "));
}

namespace {

// Whether a character of that many bytes would affect a terminal or reverse the text: controls,
// line separators, direction marks.
bool is_control(std::string_view text, std::size_t size) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (size == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (size == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (size != 3 || byte(0) != 0xe2) return false;
  const bool separates = byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return separates || isolates;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    if (size == 0 || is_control(text, size)) {
      for (const char byte : character) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

std::string quote(std::string_view text) {
  constexpr std::size_t longest = 60;
  return fmt::format("'{}{}'", printable(utf8_prefix(text, longest)),
                     text.size() > longest ? "..." : "");
}

std::optional<double> number_between(std::string_view text, double least, double most) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || at != end || !(value >= least && value <= most)) return std::nullopt;
  return value;
}

}  // namespace pipesim
