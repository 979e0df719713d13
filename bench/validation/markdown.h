// Tables of a document, as text. Plain values; any thread.
#pragma once

#include <string>
#include <vector>

namespace pipesim::validation {

class Table {
 public:
  explicit Table(const std::vector<std::string>& heads) {
    add(heads);
    add(std::vector<std::string>(heads.size(), "---"));
  }
  // As many cells as there are heads.
  void add(const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) text_ += "| " + cell + " ";
    text_ += "|\n";
  }
  // With a blank line behind it.
  std::string text() const { return text_ + "\n"; }

 private:
  std::string text_;
};

}  // namespace pipesim::validation
