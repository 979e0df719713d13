// A layout as a draw list, and that as an SVG.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "traces/base/text.h"
#include "traces/draw/colours.h"
#include "traces/draw/draw_list.h"
#include "traces/draw/letters.h"
#include "traces/print/layout_grid.h"
#include "traces/print/layout_picture.h"

namespace pipesim {
namespace {

using Range = LayoutGrid::Range;
using Direction = LayoutGrid::Direction;

struct Point {
  int x = 0;
  int y = 0;
};

struct LayoutStyle {
  Rgb colour = colours::ink.light;
  bool bold = false;
  DrawList::Align align = DrawList::Align::left;  // of where the text is said to be
};

class Page {
 public:
  explicit Page(const PipelineLayout& layout)
      : layout_(layout), grid_(layout, max_rows, max_columns) {
    place();
  }

  std::string draw() {
    list_.background = colours::paper.light;
    for (std::size_t i = 0; i < heading_.size(); ++i) {
      text({page_margin, 36 + static_cast<int>(i) * line_height}, heading_[i], strong);
    }
    draw_panel();
    for (std::size_t r = 0; r < rows_.size(); ++r) draw_row(r);
    for (int stage = 0; stage + 1 < std::ssize(layout_.stages); ++stage) draw_way(stage);
    list_.width = width_;
    list_.height = draw_notes(panel_at_.y + panel_height_ + stack() + 34);
    return to_svg(list_, font_pixels);
  }

 private:
  // Pixels; where lines are broken, letters are assumed to have the usual width.
  static constexpr int font_pixels = 12;
  static constexpr int letter = 7;
  static constexpr int bold_letter = 8;
  static constexpr int line_height = 17;
  static constexpr int page_margin = 24;
  static constexpr int inset = 12;        // of a box's words
  static constexpr int near_height = 46;  // between rows, for arrows and their bytes
  static constexpr int lane = 22;         // of a message that goes around boxes: both directions
  static constexpr int wide_lane = 66;    // the same upwards, with its bytes
  static constexpr int both = 8;          // between its two directions
  static constexpr int sheet = 7;         // between the sheets that represent replicas
  static constexpr int chip = 11;         // a layer
  static constexpr int max_rows = 9;
  static constexpr int max_columns = 6;

  static constexpr Rgb panel = 0xf6f6f3;
  static constexpr Rgb outline = 0xc9c9c3;
  static constexpr Rgb box_outline = 0x7d8b96;
  static constexpr Rgb chip_fill = 0xbcd9ea;
  static constexpr Rgb faint = 0x5c5c5c;
  static constexpr LayoutStyle strong{.bold = true};
  static constexpr LayoutStyle small{.colour = faint};
  static constexpr LayoutStyle centred{.colour = faint, .align = DrawList::Align::centre};
  static constexpr LayoutStyle before{.colour = faint, .align = DrawList::Align::right};

  struct Row {
    int top = 0;
    int height = 0;  // of its boxes
  };
  // A message that goes around boxes, between two visible ones.
  struct Detour {
    int stage = 0;
    std::size_t from_row = 0, from_column = 0, to_row = 0, to_column = 0;
    std::size_t channel = 0;  // left of that column
    int channel_lane = 0, exit_lane = 0, entry_lane = 0;
  };

  // Horizontal routes next to a row: crossing ones are in different lanes.
  class Lanes {
   public:
    // Takes a lane for a route between two positions, in half columns.
    int take(int from, int to) {
      const Stretch own{std::min(from, to), std::max(from, to)};
      std::size_t at = 0;
      const auto meets = [&](const Stretch& other) {
        return own.first <= other.last && other.first <= own.last;
      };
      while (at < lanes_.size() && std::ranges::any_of(lanes_[at], meets)) ++at;
      if (at == lanes_.size()) lanes_.emplace_back();
      lanes_[at].push_back(own);
      return static_cast<int>(at);
    }
    int count() const { return static_cast<int>(lanes_.size()); }

   private:
    struct Stretch {
      int first = 0;
      int last = 0;
    };
    std::vector<std::vector<Stretch>> lanes_;
  };

  static std::vector<std::string> wrapped(const std::string& text, int letters) {
    std::vector<std::string> lines;
    const std::string all = wrap(text, letters);
    for (const std::string_view line : split(all, '\n')) lines.emplace_back(line);
    return lines;
  }

  // The number of sheets behind the panel.
  int stack() const {
    return sheet * static_cast<int>(std::min<std::int64_t>(layout_.sizes.data - 1, 2));
  }

  void box(Point at, int width, int height, Rgb fill, Rgb frame) {
    list_.boxes.push_back({.x = at.x,
                           .y = at.y,
                           .width = width,
                           .height = height,
                           .fill = fill,
                           .framed = true,
                           .frame = frame});
  }
  // On a baseline.
  void text(Point at, std::string words, const LayoutStyle& style = {}) {
    const auto width = static_cast<int>((style.bold ? bold_letters_ : letters_).width(words)) + 2;
    const int left = style.align == DrawList::Align::left     ? at.x
                     : style.align == DrawList::Align::centre ? at.x - width / 2
                                                              : at.x - width;
    list_.texts.push_back({.x = left,
                           .y = at.y - line_height + 4,
                           .width = width,
                           .height = line_height,
                           .colour = style.colour,
                           .align = style.align,
                           .bold = style.bold,
                           .text = std::move(words)});
  }
  // `title` is a tooltip. Corners are filled.
  void arrow(const std::vector<Point>& points, bool is_forward, const std::string& title) {
    const auto sign = [](int value) { return (value > 0) - (value < 0); };
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
      const Point& from = points[i];
      const Point& to = points[i + 1];
      const bool is_last = i + 2 == points.size();
      list_.lines.push_back({.x1 = from.x,
                             .y1 = from.y,
                             .x2 = to.x + (is_last ? 0 : sign(to.x - from.x)),
                             .y2 = to.y + (is_last ? 0 : sign(to.y - from.y)),
                             .colour = (is_forward ? colours::forward : colours::backward).light,
                             .width = 2,
                             .arrow = is_last,
                             .title = title});
    }
  }

  // The row of a rank, or the column of a chunk, if it is shown individually.
  static std::optional<std::size_t> place_of(const std::vector<Range>& ranges, int index) {
    const auto found =
        std::ranges::find_if(ranges, [&](const Range& range) { return index <= range.last; });
    if (found == ranges.end() || !found->is_one()) return std::nullopt;
    return static_cast<std::size_t>(found - ranges.begin());
  }

  // A message that goes around with one or no visible end gets a word at that end.
  std::optional<Detour> detour_of(int stage) const {
    const auto at = static_cast<std::size_t>(stage);
    const auto from_row = place_of(grid_.rows(), layout_.stages[at].rank);
    const auto to_row = place_of(grid_.rows(), layout_.stages[at + 1].rank);
    const auto from_column = place_of(grid_.columns(), grid_.chunk_of(stage));
    const auto to_column = place_of(grid_.columns(), grid_.chunk_of(stage + 1));
    if (!from_row || !to_row || !from_column || !to_column) return std::nullopt;
    Detour detour{stage, *from_row, *from_column, *to_row, *to_column};
    detour.channel = *to_column > *from_column ? *to_column : *to_column + 1;
    return detour;
  }

  void place() {
    const std::vector<Range>& rows = grid_.rows();
    const std::vector<Range>& columns = grid_.columns();
    std::vector<int> channels(columns.size() + 1);
    std::vector<Lanes> exits(rows.size());
    std::vector<Lanes> entries(rows.size());
    for (int stage = 0; stage + 1 < std::ssize(layout_.stages); ++stage) {
      if (grid_.direction_from(stage) != Direction::far) continue;
      std::optional<Detour> detour = detour_of(stage);
      if (!detour) continue;
      detour->channel_lane = channels[detour->channel]++;
      const int channel = 2 * static_cast<int>(detour->channel);
      const auto middle = [](std::size_t column) { return 2 * static_cast<int>(column) + 1; };
      detour->exit_lane = exits[detour->from_row].take(middle(detour->from_column), channel);
      detour->entry_lane = entries[detour->to_row].take(middle(detour->to_column), channel);
      detours_.push_back(*detour);
    }
    int label = 0;
    int widest = 0;
    for (const Range& row : rows) {
      for (const std::string& line : grid_.label(row)) {
        label = std::max(label, static_cast<int>(line.size()) * letter);
      }
      for (const Range& column : columns) {
        for (const std::string& words : grid_.words(row, column)) {
          widest = std::max(widest, static_cast<int>(words.size()) * letter);
        }
      }
    }
    box_width_ = std::clamp(widest + 2 * inset, 190, columns.size() > 3 ? 220 : 300);
    int x = page_margin + 16 + label;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      channel_lefts_.push_back(x);
      x += std::max(c == 0 ? 20 : 44, channels[c] * wide_lane + 16);
      lefts_.push_back(x);
      x += box_width_;
    }
    channel_lefts_.push_back(x);
    x += std::max(20, channels.back() * wide_lane + 16);
    panel_width_ = x - page_margin;
    const int tail = stack() > 0 ? 60 : 0;  // for the number of replicas
    width_ = std::max(panel_width_ + stack() + tail + 2 * page_margin, 640);
    heading_ = wrapped(layout_heading(layout_), (width_ - 2 * page_margin) / bold_letter);
    panel_at_ = {page_margin, 32 + line_height * static_cast<int>(heading_.size())};

    const bool has_headings = grid_.chunks() > 1;
    int y = panel_at_.y + (has_headings ? 40 : 20);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      y += entries[r].count() * lane + (has_word(r, false) ? 22 : 0);
      std::size_t lines = 1;
      bool chips = false;
      for (const Range& column : columns) {
        lines = std::max(lines, fitted(grid_.words(rows[r], column), letters()).size());
        chips = chips || layers_in(r, column) > 0;
      }
      rows_.push_back({y, static_cast<int>(lines) * line_height + (chips ? chip + 8 : 0) + 16});
      y += rows_.back().height + exits[r].count() * lane + (has_word(r, true) ? 22 : 0);
      if (r + 1 < rows.size()) y += near_height;
    }
    panel_height_ = y + 20 - panel_at_.y;
  }

  int letters() const { return (box_width_ - 2 * inset) / letter; }

  // For a box of a single stage.
  int layers_in(std::size_t row, const Range& column) const {
    const Range& ranks = grid_.rows()[row];
    if (!ranks.is_one() || !column.is_one()) return 0;
    const int stage = grid_.stage_at(ranks.first, column.first);
    return stage < 0 ? 0 : layout_.stages[static_cast<std::size_t>(stage)].layers.value_or(0);
  }

  // Whether a message of the row, from it if `is_below`, else to it, has an end that is not shown.
  bool has_word(std::size_t row, bool is_below) const {
    const Range& ranks = grid_.rows()[row];
    return ranks.is_one() && std::ranges::any_of(grid_.columns(), [&](const Range& column) {
             return column.is_one() && word_stage(ranks.first, column.first, is_below) >= 0;
           });
  }
  int word_stage(int rank, int chunk, bool is_below) const {
    const int own = grid_.stage_at(rank, chunk);
    const int stage = is_below || own < 0 ? own : own - 1;
    if (stage < 0 || grid_.direction_from(stage) != Direction::far || detour_of(stage)) return -1;
    return stage;
  }

  std::string bytes_text(int stage) const {
    const std::int64_t bytes = grid_.bytes_from(stage);
    return bytes == 0 ? "" : format_bytes(bytes);
  }
  void arrow(const std::vector<Point>& points, bool is_forward, int stage) {
    const std::string bytes = bytes_text(stage);
    arrow(points, is_forward,
          fmt::format("{} stage {} to stage {}{}{}", is_forward ? "F" : "B",
                      is_forward ? stage : stage + 1, is_forward ? stage + 1 : stage,
                      bytes.empty() ? "" : ", ", bytes));
  }

  void draw_panel() {
    for (int behind = stack(); behind > 0; behind -= sheet) {
      box({panel_at_.x + behind, panel_at_.y + behind}, panel_width_, panel_height_, panel,
          outline);
    }
    box(panel_at_, panel_width_, panel_height_, panel, outline);
    if (stack() > 0) {
      text({panel_at_.x + panel_width_ + stack() + 10, panel_at_.y + panel_height_ / 2},
           fmt::format("x {}", layout_.sizes.data), strong);
    }
    if (grid_.chunks() == 1) return;
    for (std::size_t c = 0; c < lefts_.size(); ++c) {
      const Range& chunks = grid_.columns()[c];
      text({lefts_[c] + box_width_ / 2, panel_at_.y + 24},
           chunks.is_one() ? fmt::format("chunk {}", chunks.first)
                           : fmt::format("chunks {}-{}", chunks.first, chunks.last),
           centred);
    }
  }

  void draw_row(std::size_t r) {
    const Range& ranks = grid_.rows()[r];
    const Row& row = rows_[r];
    int y = row.top + 22;
    for (const std::string& line : grid_.label(ranks)) {
      const bool is_first = y == row.top + 22;
      text({panel_at_.x + 16, y}, line, is_first ? strong : small);
      y += line_height;
    }
    for (std::size_t c = 0; c < lefts_.size(); ++c) {
      const Range& chunks = grid_.columns()[c];
      const std::vector<std::string> words = grid_.words(ranks, chunks);
      if (words.empty()) continue;
      const bool is_one = ranks.is_one() && chunks.is_one();
      box({lefts_[c], row.top}, box_width_, row.height, is_one ? colours::paper.light : panel,
          is_one ? box_outline : outline);
      y = row.top + 20;
      bool is_title = true;
      for (const std::string& line : fitted(words, letters())) {
        text({lefts_[c] + inset, y}, line, is_title ? strong : LayoutStyle{});
        y += line_height;
        if (is_title) y = draw_chips(layers_in(r, chunks), {lefts_[c] + inset, y - 9});
        is_title = false;
      }
    }
  }

  // Draws a chip per layer, if there is room for all; returns the position of the next line.
  int draw_chips(int layers, Point at) {
    if (layers == 0) return at.y + 9;
    const int room = box_width_ - 2 * inset;
    const int width = std::min(2 * chip, room / layers - 2);
    if (width < 3) {
      box(at, room, chip, chip_fill, colours::forward.light);
    } else {
      for (int i = 0; i < layers; ++i) {
        box({at.x + i * (width + 2), at.y}, width, chip, chip_fill, colours::forward.light);
      }
    }
    return at.y + 9 + chip + 8;
  }

  // Draws the messages from a stage to the next, and back, as far as they are visible.
  void draw_way(int stage) {
    const auto at = static_cast<std::size_t>(stage);
    const Direction way = grid_.direction_from(stage);
    if (way == Direction::far) {
      const auto detour = std::ranges::find(detours_, stage, &Detour::stage);
      if (detour != detours_.end()) return draw_detour(*detour);
      draw_word(stage, true);
      draw_word(stage, false);
      return;
    }
    const int from = layout_.stages[at].rank;
    const int to = layout_.stages[at + 1].rank;
    if (way == Direction::beside) return draw_beside(stage, from);
    const auto column = place_of(grid_.columns(), grid_.chunk_of(stage));
    const auto upper = place_or_range(std::min(from, to));
    const auto lower = place_or_range(std::max(from, to));
    if (!column || upper == lower) return;
    const int top = rows_[upper].top + rows_[upper].height;
    const int bottom = rows_[lower].top;
    const int x = lefts_[*column];
    const int xs[] = {x + box_width_ / 4 - 20, x + box_width_ * 2 / 3 - 10};
    for (const bool is_forward : {true, false}) {
      const int own = xs[is_forward ? 0 : 1];
      Point start{own, top + 2};
      Point end{own, bottom - 2};
      if ((way == Direction::up) == is_forward) std::swap(start, end);
      arrow({start, end}, is_forward, stage);
      text({own + 8, (top + bottom) / 2 + 4}, bytes_text(stage), small);
    }
  }

  std::size_t place_or_range(int rank) const {
    const auto found =
        std::ranges::find_if(grid_.rows(), [&](const Range& range) { return rank <= range.last; });
    return static_cast<std::size_t>(found - grid_.rows().begin());
  }

  void draw_beside(int stage, int rank) {
    const auto row = place_of(grid_.rows(), rank);
    const auto left = place_of(grid_.columns(), grid_.chunk_of(stage));
    const auto right = place_of(grid_.columns(), grid_.chunk_of(stage + 1));
    if (!row || !left || !right) return;
    const int from = lefts_[*left] + box_width_ + 2;
    const int to = lefts_[*right] - 2;
    const int y = rows_[*row].top + rows_[*row].height / 2;
    arrow({{from, y - 9}, {to, y - 9}}, true, stage);
    arrow({{to, y + 9}, {from, y + 9}}, false, stage);
  }

  void draw_detour(const Detour& detour) {
    const Row& from = rows_[detour.from_row];
    const Row& to = rows_[detour.to_row];
    const int bottom = from.top + from.height;
    const int exit = bottom + 12 + detour.exit_lane * lane;
    const int entry = to.top - 12 - detour.entry_lane * lane;
    const int channel =
        channel_lefts_[detour.channel] + wide_lane - 12 + detour.channel_lane * wide_lane;
    const int start = lefts_[detour.from_column] + box_width_ / 2;
    const int end = lefts_[detour.to_column] + box_width_ / 2;
    // The route back runs next to the route forth without crossing it.
    const bool is_right = channel > start;
    const bool ends_right = channel < end;
    const int x0 = is_right ? -both : both;
    const int x1 = ends_right ? both : -both;
    const std::vector<Point> outer{{start + x0, bottom + 2},
                                   {start + x0, exit + both},
                                   {channel + both, exit + both},
                                   {channel + both, entry},
                                   {end, entry},
                                   {end, to.top - 2}};
    std::vector<Point> inner{{start, bottom + 2},      {start, exit},
                             {channel, exit},          {channel, entry - both},
                             {end + x1, entry - both}, {end + x1, to.top - 2}};
    std::ranges::reverse(inner);
    arrow(outer, true, detour.stage);
    arrow(inner, false, detour.stage);
    const std::string bytes = bytes_text(detour.stage);
    if (bytes.empty()) return;
    const int middle = (exit + entry) / 2;
    text({channel - 4, middle}, bytes, before);
  }

  // For messages to or from a box that is not shown.
  void draw_word(int stage, bool is_below) {
    const auto at = static_cast<std::size_t>(is_below ? stage : stage + 1);
    const auto row = place_of(grid_.rows(), layout_.stages[at].rank);
    const auto column = place_of(grid_.columns(), grid_.chunk_of(static_cast<int>(at)));
    if (!row || !column) return;
    const Row& own = rows_[*row];
    const int x = lefts_[*column] + box_width_ / 4 - 20;
    const int near = is_below ? own.top + own.height + 2 : own.top - 2;
    const int far = is_below ? near + 18 : near - 18;
    arrow({{x, std::min(near, far)}, {x, std::max(near, far)}}, true, stage);
    arrow({{x + both, std::max(near, far)}, {x + both, std::min(near, far)}}, false, stage);
    const int other = layout_.stages[static_cast<std::size_t>(is_below ? stage + 1 : stage)].rank;
    text({x + 2 * both, std::max(near, far) - 5},
         fmt::format("{}{}{} rank {}", bytes_text(stage), bytes_text(stage).empty() ? "" : " ",
                     is_below ? "to" : "from", other),
         small);
  }

  // Returns the end of the page.
  int draw_notes(int y) {
    for (const LayoutNote& note : layout_notes(layout_, grid_)) {
      text({page_margin, y}, note.about, strong);
      int x = page_margin + 84;
      if (note.about == "messages") {
        arrow({{x, y - 4}, {x + 24, y - 4}}, true, "");
        arrow({{x + 60, y - 4}, {x + 36, y - 4}}, false, "");
        x += 72;
      }
      for (const std::string& line : wrapped(note.text, (width_ - x - page_margin) / letter)) {
        text({x, y}, line);
        y += line_height;
      }
      y += 4;
    }
    return y + 8;
  }

  const PipelineLayout& layout_;
  LayoutGrid grid_;
  DrawList list_;
  Letters letters_{font_pixels, false};
  Letters bold_letters_{font_pixels, true};
  std::vector<std::string> heading_;
  Point panel_at_;
  int width_ = 0, box_width_ = 0, panel_width_ = 0, panel_height_ = 0;
  std::vector<int> lefts_;          // of columns
  std::vector<int> channel_lefts_;  // before each column, and after the last
  std::vector<Row> rows_;
  std::vector<Detour> detours_;
};

}  // namespace

std::string layout_svg(const PipelineLayout& layout) { return Page(layout).draw(); }

}  // namespace pipesim
