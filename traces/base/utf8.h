// UTF-8 in texts from files, which may hold any bytes. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipesim {

// The bytes of the character at the front of `text`, 1 to 4; 0 if the text is
// empty or no character begins there (Unicode 15, table 3-7).
std::size_t utf8_size(std::string_view text);

// With U+FFFD for every byte that belongs to no character.
std::string valid_utf8(std::string_view text);

// The beginning of `text`, at most this many bytes, without cutting a character.
std::string_view utf8_prefix(std::string_view text, std::size_t most_bytes);

}  // namespace pipesim
