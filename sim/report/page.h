// The page's fixed parts. In page_html, {{name}} is a placeholder.
#pragma once

#include <string_view>

namespace pipesim {

extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view page_js;

}  // namespace pipesim
