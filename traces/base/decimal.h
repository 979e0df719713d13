// Decimal numbers of any length, scaled to integers without going through
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

// The whole number nearest to `text`: 3, 3.0, or in blanks. Nothing if it is not
// a 64-bit number.
std::optional<std::int64_t> whole_number(std::string_view text);

}  // namespace pipesim
