// A layout in characters.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "traces/base/text.h"
#include "traces/base/utf8.h"
#include "traces/print/layout_grid.h"
#include "traces/print/layout_picture.h"

namespace pipesim {
namespace {

using Range = LayoutGrid::Range;
using Direction = LayoutGrid::Direction;

enum class Ink : std::uint8_t { plain, bold, faint, forward, backward };

// Lines of coloured characters, written in any order.
class Canvas {
 public:
  std::size_t lines() const { return lines_.size(); }

  // Text longer than `most` ends in dots.
  void put(std::size_t line, int column, std::string_view text, Ink ink = Ink::plain,
           int most = 1000) {
    std::vector<std::string> glyphs;
    while (!text.empty()) {
      const std::size_t size = std::max<std::size_t>(1, utf8_size(text));
      glyphs.emplace_back(text.substr(0, size));
      text.remove_prefix(size);
    }
    const auto room = static_cast<std::size_t>(std::max(most, 3));
    if (glyphs.size() > room) {
      glyphs.resize(room);
      std::fill(glyphs.end() - 3, glyphs.end(), ".");
    }
    if (lines_.size() <= line) lines_.resize(line + 1);
    std::vector<Cell>& cells = lines_[line];
    const auto at = static_cast<std::size_t>(column);
    if (cells.size() < at + glyphs.size()) cells.resize(at + glyphs.size());
    for (std::size_t i = 0; i < glyphs.size(); ++i) cells[at + i] = {glyphs[i], ink};
  }

  std::string text(bool colour) const {
    std::string out;
    for (const std::vector<Cell>& cells : lines_) {
      for (std::size_t i = 0; i < cells.size();) {
        const Ink ink = cells[i].ink;
        std::string run;
        for (; i < cells.size() && cells[i].ink == ink; ++i) run += cells[i].glyph;
        out += in_ink(run, ink, colour);
      }
      out += '\n';
    }
    return out;
  }

 private:
  struct Cell {
    std::string glyph = " ";
    Ink ink = Ink::plain;
  };

  static std::string in_ink(const std::string& run, Ink ink, bool colour) {
    switch (ink) {
      case Ink::bold: return bold(run, colour);
      case Ink::faint: return faint(run, colour);
      case Ink::forward: return paint(run, Kind::F, colour);
      case Ink::backward: return paint(run, Kind::B, colour);
      default: return run;
    }
  }

  std::vector<std::vector<Cell>> lines_;
};

class Drawing {
 public:
  static constexpr int gap = 3;          // between boxes
  static constexpr int frame = 4;        // a box's sides, with a blank each
  static constexpr int min_inside = 18;  // of a box
  static constexpr int left_out = 12;    // the column of omitted chunks
  static constexpr int min_column = min_inside + frame + gap;
  static constexpr int max_ranks = 9;

  Drawing(const PipelineLayout& layout, const LayoutGrid& grid, int width)
      : layout_(layout), grid_(grid) {
    for (const Range& row : grid.rows()) {
      for (const std::string& line : grid.label(row)) {
        margin_ = std::max(margin_, static_cast<int>(line.size()) + 2);
      }
    }
    place_columns(width);
  }

  // Whether the columns are wide enough to be read.
  bool is_readable() const { return inside_ >= min_inside; }

  void draw(Canvas& canvas) {
    if (grid_.chunks() > 1) {
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const Range& chunks = grid_.columns()[c];
        canvas.put(line_, columns_[c].left,
                   chunks.is_one() ? fmt::format("chunk {}", chunks.first)
                                   : fmt::format("{} more", chunks.count()),
                   Ink::faint);
      }
      ++line_;
    }
    for (std::size_t r = 0; r < grid_.rows().size(); ++r) {
      draw_sends(canvas, r, false);
      draw_row(canvas, r);
      draw_sends(canvas, r, true);
    }
  }

 private:
  struct Column {
    int left = 0;
    int width = 0;  // outside
  };

  void place_columns(int width) {
    int widest = min_inside;
    int boxes = 0;
    for (const Range& chunks : grid_.columns()) {
      if (!chunks.is_one()) continue;
      ++boxes;
      for (const Range& ranks : grid_.rows()) {
        for (const std::string& line : grid_.words(ranks, chunks)) {
          widest = std::max(widest, static_cast<int>(line.size()));
        }
        const int stage = ranks.is_one() ? grid_.stage_at(ranks.first, chunks.first) : -1;
        if (stage < 0 || grid_.direction_from(stage) == Direction::end) continue;
        widest = std::max(widest, 9 + 2 * static_cast<int>(bytes_text(stage).size()));
      }
    }
    const int others = static_cast<int>(grid_.columns().size()) - boxes;
    const int room = width - margin_ - others * (left_out + gap) - (boxes - 1) * gap;
    inside_ = std::min(widest, room / std::max(boxes, 1) - frame);
    int left = margin_;
    for (const Range& chunks : grid_.columns()) {
      const int outside = chunks.is_one() ? inside_ + frame : left_out;
      columns_.push_back({left, outside});
      left += outside + gap;
    }
  }

  // The stage of a box whose message to the next stage is drawn at it, and the one whose message to
  // it is; -1 if there is none, or the box stands for several.
  int sender(const Range& ranks, const Range& chunks) const {
    if (!ranks.is_one() || !chunks.is_one()) return -1;
    const int stage = grid_.stage_at(ranks.first, chunks.first);
    return stage >= 0 && grid_.direction_from(stage) == Direction::far ? stage : -1;
  }
  int receiver(const Range& ranks, const Range& chunks) const {
    if (!ranks.is_one() || !chunks.is_one()) return -1;
    const int stage = grid_.stage_at(ranks.first, chunks.first) - 1;
    return stage >= 0 && grid_.direction_from(stage) == Direction::far ? stage : -1;
  }

  std::string bytes_text(int stage) const {
    const std::int64_t bytes = grid_.bytes_from(stage);
    return bytes == 0 ? "" : " " + format_bytes(bytes);
  }

  // Arrows in both directions, and then the destination, as far as there is room.
  void put_arrows(Canvas& canvas, std::size_t line, const Column& column, int stage, bool is_up,
                  const std::string& where) const {
    const std::string bytes = bytes_text(stage);
    const char* forward = is_up ? "^ F" : "v F";
    const char* backward = is_up ? "v B" : "^ B";
    const int room = column.width - 2;
    int at = column.left + 2;
    // As much as there is room for: bytes in each direction, or once, or at least the destination.
    const auto arrows = static_cast<int>(9 + 2 * bytes.size());
    const auto words = static_cast<int>(where.empty() ? 0 : 3 + where.size());
    const bool is_wide = arrows + words <= room;
    const bool has_bytes =
        where.empty() || 8 + static_cast<int>(bytes.size() + where.size()) <= room;
    const auto put = [&](std::string_view text, Ink ink) {
      canvas.put(line, at, text, ink, column.left + column.width - at);
      at += static_cast<int>(text.size());
    };
    put(forward, Ink::forward);
    if (is_wide) {
      put(bytes, Ink::plain);
      put("   ", Ink::plain);
      put(backward, Ink::backward);
      put(bytes, Ink::plain);
      if (!where.empty()) put("   " + where, Ink::faint);
      return;
    }
    put(" ", Ink::plain);
    put(backward, Ink::backward);
    if (has_bytes) put(bytes, Ink::plain);
    if (!where.empty()) put(" " + where, Ink::faint);
  }

  // Messages between a row and the next one or, for messages that go elsewhere, the previous one
  // (`is_below`: the next one).
  void draw_sends(Canvas& canvas, std::size_t row, bool is_below) {
    const Range& ranks = grid_.rows()[row];
    bool any = false;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Range& chunks = grid_.columns()[c];
      const int stage = is_below ? sender(ranks, chunks) : receiver(ranks, chunks);
      if (stage < 0) continue;
      const auto end = static_cast<std::size_t>(is_below ? stage + 1 : stage);
      put_arrows(canvas, line_, columns_[c], stage, false,
                 fmt::format("{} rank {}", is_below ? "to" : "from", layout_.stages[end].rank));
      any = true;
    }
    if (any) ++line_;
    if (!is_below || row + 1 == grid_.rows().size()) return;
    any = false;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Range& chunks = grid_.columns()[c];
      if (!chunks.is_one()) continue;
      const int above = grid_.stage_at(ranks.last, chunks.first);
      const int below = grid_.stage_at(ranks.last + 1, chunks.first);
      if (above >= 0 && grid_.direction_from(above) == Direction::down) {
        put_arrows(canvas, line_, columns_[c], above, false, "");
      } else if (below >= 0 && grid_.direction_from(below) == Direction::up) {
        put_arrows(canvas, line_, columns_[c], below, true, "");
      } else {
        continue;
      }
      any = true;
    }
    if (any) ++line_;
  }

  void draw_row(Canvas& canvas, std::size_t row) {
    const Range& ranks = grid_.rows()[row];
    const std::vector<std::string> label = grid_.label(ranks);
    std::vector<std::vector<std::string>> boxes;
    std::size_t height = std::max<std::size_t>(label.size(), 1);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::vector<std::string> words = grid_.words(ranks, grid_.columns()[c]);
      // Omitted chunks have room for the number of stages.
      if (!grid_.columns()[c].is_one() && !words.empty()) words.resize(1);
      std::vector<std::string> lines = fitted(words, columns_[c].width - frame);
      constexpr std::size_t max_lines = 6;
      if (lines.size() > max_lines) {
        lines.resize(max_lines);
        lines.back() = "...";
      }
      height = std::max(height, lines.size());
      boxes.push_back(std::move(lines));
    }
    if (has_beside(ranks)) height = std::max<std::size_t>(height, 2);
    for (std::size_t i = 0; i < label.size(); ++i) {
      canvas.put(line_ + 1 + i, 0, label[i], i == 0 ? Ink::bold : Ink::faint);
    }
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!boxes[c].empty())
        draw_box(canvas, columns_[c], grid_.columns()[c], ranks, boxes[c], height);
      if (c + 1 < columns_.size()) draw_beside(canvas, ranks, c);
    }
    line_ += height + 2;
  }

  void draw_box(Canvas& canvas, const Column& column, const Range& chunks, const Range& ranks,
                const std::vector<std::string>& lines, std::size_t height) const {
    const bool is_one = ranks.is_one() && chunks.is_one();
    const std::string side(1, is_one ? '|' : ':');
    std::string edge(static_cast<std::size_t>(column.width), is_one ? '-' : '.');
    edge.front() = edge.back() = is_one ? '+' : ':';
    canvas.put(line_, column.left, edge);
    canvas.put(line_ + height + 1, column.left, edge);
    for (std::size_t i = 0; i < height; ++i) {
      canvas.put(line_ + 1 + i, column.left, side);
      canvas.put(line_ + 1 + i, column.left + column.width - 1, side);
      if (i < lines.size()) {
        canvas.put(line_ + 1 + i, column.left + 2, lines[i], i == 0 ? Ink::bold : Ink::plain,
                   column.width - frame);
      }
    }
  }

  bool goes_beside(int rank, const Range& chunks) const {
    const int stage = grid_.stage_at(rank, chunks.last);
    return stage >= 0 && grid_.direction_from(stage) == Direction::beside;
  }
  bool has_beside(const Range& ranks) const {
    return ranks.is_one() && std::ranges::any_of(grid_.columns(), [&](const Range& chunks) {
             return goes_beside(ranks.first, chunks);
           });
  }
  void draw_beside(Canvas& canvas, const Range& ranks, std::size_t column) const {
    if (!ranks.is_one() || !goes_beside(ranks.first, grid_.columns()[column])) return;
    const int at = columns_[column].left + columns_[column].width;
    canvas.put(line_ + 1, at, "F >", Ink::forward);
    canvas.put(line_ + 2, at, "< B", Ink::backward);
  }

  const PipelineLayout& layout_;
  const LayoutGrid& grid_;
  int margin_ = 0;
  int inside_ = 0;
  std::vector<Column> columns_;
  std::size_t line_ = 0;
};

std::string notes_text(const std::vector<LayoutNote>& notes, int width) {
  std::size_t margin = 0;
  for (const LayoutNote& note : notes) margin = std::max(margin, note.about.size() + 2);
  std::string out = notes.empty() ? "" : "\n";
  for (const LayoutNote& note : notes) {
    const std::string text = wrap(note.text, width - static_cast<int>(margin));
    std::string about = note.about;
    for (const std::string_view line : split(text, '\n')) {
      out += fmt::format("{:<{}}{}\n", about, margin, line);
      about.clear();
    }
  }
  return out;
}

}  // namespace

std::string layout_text(const PipelineLayout& layout, const Terminal& terminal) {
  const int width = terminal.width;
  // As many chunks as are readable next to each other.
  int chunks = std::max(1, width / Drawing::min_column);
  while (chunks > 1 &&
         !Drawing(layout, LayoutGrid(layout, Drawing::max_ranks, chunks), width).is_readable()) {
    --chunks;
  }
  const LayoutGrid grid(layout, Drawing::max_ranks, chunks);
  Canvas canvas;
  Drawing(layout, grid, width).draw(canvas);
  return bold(wrap(layout_heading(layout), width), terminal.colour) + "\n\n" +
         canvas.text(terminal.colour) + notes_text(layout_notes(layout, grid), width);
}

}  // namespace pipesim
