// A strict look at XML, such as an SVG: well-formed, and as little of it as we write.
#pragma once

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace pipesim::testing {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // what stands directly in it, entities as they are written
  int parent = -1;   // index of the element that it stands in
};

struct Xml {
  std::vector<XmlElement> elements;  // in the order of their opening tags
  std::string fault;                 // the first, with what follows; empty where all is well

  std::vector<XmlElement> named(const std::string& name) const {
    std::vector<XmlElement> some;
    for (const XmlElement& element : elements) {
      if (element.name == name) some.push_back(element);
    }
    return some;
  }
  // Of all elements of that name, each once.
  std::multiset<std::string> texts(const std::string& name) const {
    std::multiset<std::string> all;
    for (const XmlElement& element : named(name)) all.insert(element.text);
    return all;
  }
};

class XmlReader {
 public:
  explicit XmlReader(const std::string& text) : text_(text) {}

  Xml read() {
    const std::string declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    if (!text_.starts_with(declaration)) fail("no declaration");
    at_ = declaration.size();
    while (at_ < text_.size() && xml_.fault.empty()) {
      if (text_[at_] != '<') {
        characters();
      } else if (text_.compare(at_, 2, "</") == 0) {
        close();
      } else {
        open();
      }
    }
    if (xml_.fault.empty() && !open_.empty()) fail("open at the end");
    if (xml_.fault.empty() && xml_.elements.empty()) fail("no element");
    return xml_;
  }

 private:
  void fail(const std::string& what) {
    if (xml_.fault.empty()) xml_.fault = what + ", at: " + text_.substr(at_, 60);
  }

  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':';
  }
  std::string name() {
    std::string name;
    while (at_ < text_.size() && is_name(text_[at_])) name += text_[at_++];
    if (name.empty()) fail("no name");
    return name;
  }
  bool take(const std::string& what) {
    if (text_.compare(at_, what.size(), what) != 0) return false;
    at_ += what.size();
    return true;
  }

  // Up to `end`, without markup but known entities.
  std::string plain(char end) {
    std::string text;
    while (at_ < text_.size() && text_[at_] != end) {
      const char c = text_[at_];
      if (c == '<' || c == '>') fail("markup in a text");
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n') fail("control character");
      if (c == '&') {
        bool is_known = false;
        for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"}) {
          is_known = is_known || text_.compare(at_, std::string(entity).size(), entity) == 0;
        }
        if (!is_known) fail("unknown entity");
      }
      if (!xml_.fault.empty()) return text;
      text += c;
      ++at_;
    }
    return text;
  }

  void characters() {
    const std::string text = plain('<');
    if (!open_.empty()) {
      xml_.elements[static_cast<std::size_t>(open_.back())].text += text;
    } else if (text.find_first_not_of('\n') != std::string::npos || xml_.elements.empty()) {
      fail("text outside the element");
    }
  }

  void open() {
    ++at_;
    if (open_.empty() && !xml_.elements.empty()) return fail("a second root");
    XmlElement element;
    element.name = name();
    element.parent = open_.empty() ? -1 : open_.back();
    while (xml_.fault.empty() && take(" ")) {
      const std::string key = name();
      if (!take("=\"")) return fail("not an attribute");
      if (!element.attributes.emplace(key, plain('"')).second) fail("attribute twice");
      if (!take("\"")) return fail("an attribute without end");
    }
    const bool is_closed = take("/");
    if (!take(">")) return fail("a tag without end");
    xml_.elements.push_back(std::move(element));
    if (!is_closed) open_.push_back(static_cast<int>(xml_.elements.size()) - 1);
  }

  void close() {
    at_ += 2;
    const std::string closed = name();
    if (open_.empty() || xml_.elements[static_cast<std::size_t>(open_.back())].name != closed) {
      return fail("closes what is not open");
    }
    open_.pop_back();
    if (!take(">")) fail("a tag without end");
  }

  const std::string& text_;
  std::size_t at_ = 0;
  std::vector<int> open_;
  Xml xml_;
};

inline Xml read_xml(const std::string& text) { return XmlReader(text).read(); }

}  // namespace pipesim::testing
