// Text within XML, such as an SVG's. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace pipesim {

// Escaped for XML, also within quotes; characters XML can't represent become U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace pipesim
