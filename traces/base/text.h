// Quantities with units, names with suggestions, readable text.
//
// Pure functions; any thread may call them. Times are int64 nanoseconds,
// sizes int64 bytes, rates int64 bytes per second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

// No single time, size or rate may exceed this: sums of millions of them stay
// within int64 when checked by `Costs`, and 11 days for one action is absurd.
inline constexpr std::int64_t max_time_ns = 1'000'000'000'000'000;               // 11.6 days
inline constexpr std::int64_t max_duration_ns = 1'000'000'000'000'000'000;       // 31.7 years
inline constexpr std::int64_t max_bytes = std::int64_t{1} << 50;                 // 1 PiB
inline constexpr std::int64_t max_bytes_per_second = 1'000'000'000'000'000;      // 1 PB/s
inline constexpr std::int64_t max_flops_per_second = 1'000'000'000'000'000'000;  // 1 EFLOP/s
inline constexpr std::int64_t max_slowdown = 100;         // times as long, more
inline constexpr std::int64_t max_count = 1'000'000'000;  // stages, microbatches

// "1.5ms", "601us", "2s", "40ns", "0": nanoseconds, rounded to the nearest.
// `where` names the flag or key in the error.
std::int64_t parse_time_ns(std::string_view text, std::string_view where);

// The same for longer times, such as a run's: also "5min", "3.1h", "30d", up to max_duration_ns.
std::int64_t parse_duration_ns(std::string_view text, std::string_view where);

// "80GiB", "1.5MB", "4096B", "0": bytes.
std::int64_t parse_bytes(std::string_view text, std::string_view where);

// "25GB/s", "200Gbit/s": bytes per second, more than 0.
std::int64_t parse_bytes_per_second(std::string_view text, std::string_view where);

// "312TFLOP/s": floating-point operations per second, more than 0.
std::int64_t parse_flops_per_second(std::string_view text, std::string_view where);

// "10%": a fraction in millionths, at most max_slowdown.
std::int64_t parse_slowdown_ppm(std::string_view text, std::string_view where);

// A positive whole number, at most max_count.
int parse_count(std::string_view text, std::string_view where);

// The number that all of `text` is, if it is within these bounds.
std::optional<double> number_between(std::string_view text, double least, double most);

// Splits at `separator`; "a,,b" has an empty middle part, "" is one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view strip(std::string_view text);

// "33.00 ms", "601 us", "13.44 s": unit and digits by size.
std::string format_time(std::int64_t ns);
// "50.0 ms", "5.00 min", "3.09 h", "30.0 d": three digits, for longer times.
std::string format_duration(std::int64_t ns);
// "80.0 GiB", "512 B".
std::string format_bytes(std::int64_t bytes);
// 0.2727 -> "27.3 %".
std::string format_percent(double fraction);
// 8192 -> "8,192".
std::string format_count(std::int64_t value);
// The same for fractions, rounded; "4.1e+21" beyond 64 bits.
std::string format_rounded(double value);
// count 1 -> "1 microbatch", 8 -> "8 microbatches".
std::string plural(std::int64_t count, std::string_view singular, std::string_view many = {});

// The known names, nearest to `name` first: by the edit distance of their first 64 bytes,
// then as listed.
std::vector<std::string> nearest_first(std::string_view name, std::vector<std::string> known);
// "unknown schedule 'x1f1b'; known, nearest first: 1f1b, ...".
std::string unknown_name(std::string_view what, std::string_view name,
                         const std::vector<std::string>& known);

// Control characters and invalid UTF-8 escaped: the result stays on one
// line.
std::string printable(std::string_view text);
// User text inside a message: quoted, printable, cut at 60 bytes or up to 3 before.
std::string quote(std::string_view text);

}  // namespace pipesim
