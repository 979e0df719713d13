// Text within XML, such as an SVG's. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace pipesim {

// As XML takes it, also within quotes; what it takes in no form becomes U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace pipesim
