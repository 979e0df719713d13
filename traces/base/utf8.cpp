#include "traces/base/utf8.h"

#include <algorithm>

namespace pipesim {

std::size_t utf8_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  if (byte(0) < 0x80) return 1;
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
  const bool too_large = byte(0) == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : size;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    valid += size == 0 ? "\xef\xbf\xbd" : text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return valid;
}

std::string_view utf8_prefix(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  for (std::size_t cut = most_bytes; cut + 4 > most_bytes && cut > 0; --cut) {
    // A character that spans the cut.
    const std::size_t size = utf8_size(text.substr(cut - 1));
    if (size > 1 && cut - 1 + size > most_bytes) return text.substr(0, cut - 1);
  }
  return text.substr(0, most_bytes);
}

}  // namespace pipesim
