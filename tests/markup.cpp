#include "tests/markup.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

namespace pipesim::testing {
namespace {

const std::set<std::string> void_elements{"meta", "br", "hr", "img", "input", "link"};
const std::set<std::string> raw_elements{"script", "style"};

class Reader {
 public:
  explicit Reader(const std::string& html) : html_(html) {}

  Page read() {
    const std::string doctype = "<!DOCTYPE html>\n";
    if (!html_.starts_with(doctype)) fail("no doctype");
    at_ = doctype.size();
    while (at_ < html_.size() && page_.fault.empty()) {
      if (html_[at_] == '<') {
        html_[at_ + 1] == '/' ? close() : open();
      } else {
        text();
      }
    }
    if (page_.fault.empty() && !open_.empty()) fail("open at the end: " + open_.back());
    return page_;
  }

 private:
  void fail(const std::string& what) {
    if (page_.fault.empty()) page_.fault = what + ", at: " + html_.substr(at_, 60);
  }

  void text() {
    const std::size_t end = std::min(html_.find('<', at_), html_.size());
    const std::string text = html_.substr(at_, end - at_);
    check_text(text);
    page_.text += text;
    at_ = end;
  }

  void check_text(const std::string& text) {
    static const std::regex entity("&(amp|lt|gt|quot|nbsp|#39);");
    if (std::regex_replace(text, entity, "").find_first_of("&<>") != std::string::npos) {
      fail("markup in a text");
    }
  }

  void open() {
    std::size_t at = at_ + 1;
    Element element;
    while (std::isalnum(static_cast<unsigned char>(html_[at])) != 0) element.name += html_[at++];
    if (element.name.empty()) return fail("no name of a tag");
    while (html_[at] != '>') {
      // " name" or " name="value"".
      static const std::regex attribute("\\s+([a-z-]+)(=\"([^\"]*)\")?");
      std::smatch match;
      const auto from = html_.cbegin() + static_cast<std::ptrdiff_t>(at);
      if (!std::regex_search(from, html_.cend(), match, attribute,
                             std::regex_constants::match_continuous)) {
        return fail("not an attribute");
      }
      check_text(match[3]);
      if (!element.attributes.emplace(match[1], match[3]).second) return fail("attribute twice");
      at += static_cast<std::size_t>(match.length(0));
    }
    at_ = at + 1;
    const std::string name = element.name;
    if (raw_elements.contains(name)) {
      const std::size_t end = html_.find("</" + name, at_);
      if (end == std::string::npos) return fail("never closed");
      element.raw = html_.substr(at_, end - at_);
      at_ = end;
    }
    page_.elements.push_back(std::move(element));
    if (!void_elements.contains(name)) open_.push_back(name);
  }

  void close() {
    const std::size_t end = html_.find('>', at_);
    if (end == std::string::npos) return fail("a tag without end");
    const std::string name = html_.substr(at_ + 2, end - at_ - 2);
    if (open_.empty() || open_.back() != name) return fail("closes what is not open");
    open_.pop_back();
    at_ = end + 1;
  }

  const std::string& html_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  Page page_;
};

}  // namespace

std::vector<Element> Page::named(const std::string& name) const {
  std::vector<Element> some;
  std::ranges::copy_if(elements, std::back_inserter(some),
                       [&](const Element& element) { return element.name == name; });
  return some;
}

Page read_page(const std::string& html) { return Reader(html).read(); }

}  // namespace pipesim::testing
