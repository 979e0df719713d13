#include "traces/draw/xml_text.h"

#include <algorithm>

#include "traces/base/utf8.h"

namespace pipesim {
namespace {

// The bytes of the first character; 0 if it is not valid in XML.
std::size_t xml_character(std::string_view text) {
  const std::size_t size = utf8_size(text);
  const bool control = size == 1 && (text[0] < 0x20 || text[0] == 0x7f);
  const bool none = text.starts_with("\xef\xbf\xbe") || text.starts_with("\xef\xbf\xbf");
  return control || none ? 0 : size;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = xml_character(text);
    switch (size == 1 ? text[0] : 0) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += size == 0 ? "\xef\xbf\xbd" : text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

}  // namespace pipesim
