// A strict look at a page: well-formed as HTML5 and as little of it as we write.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace pipesim::testing {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string raw;  // of a script or a style: what it holds
};

struct Page {
  std::vector<Element> elements;  // in the order of their opening tags
  std::string text;               // all text outside scripts and styles, entities as they stand
  std::string fault;              // the first, with its surroundings; empty where all is well

  std::vector<Element> named(const std::string& name) const;
};

// Every element that is not void is closed in its turn, attributes are quoted and
// given once, and text has no bare '<', '>' or '&'.
Page read_page(const std::string& html);

}  // namespace pipesim::testing
