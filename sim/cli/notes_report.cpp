#include "sim/cli/notes_report.h"

#include <fmt/format.h>

#include "traces/print/terminal.h"

namespace pipesim::cli {

std::string notes_report(const std::vector<Note>& notes, int width) {
  if (notes.empty()) return {};
  const std::string margin = "  ";
  std::string out = "\nNotes\n";
  for (const Note& note : notes) {
    std::string text = wrap(fmt::format("{} See sim/LESSONS.md: {}.", note.text, note.lesson),
                            width - static_cast<int>(margin.size()));
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += margin.size()) {
      text.insert(++at, margin);
    }
    out += margin + text + "\n";
  }
  return out;
}

}  // namespace pipesim::cli
