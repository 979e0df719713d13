// Decimal numbers of any length, scaled to whole ones without a detour over
// binary fractions. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pipesim {

struct ScaledDecimal {
  enum class Status : std::uint8_t { fine, not_a_number, out_of_range };

  std::int64_t value = 0;
  Status status = Status::fine;
};

// `text` times ten to the power `scale`, rounded to the nearest, halves away
// from zero: "12.3456" by 3 is 12346. Takes a sign, an exponent and blanks
// around; out of range beyond 64 bits.
ScaledDecimal scale_decimal(std::string_view text, int scale);

// The whole number nearest to `text`: 3, 3.0, or in blanks. Nothing where it is no
// number of 64 bits.
std::optional<std::int64_t> whole_number(std::string_view text);

}  // namespace pipesim
