#include "traces/print/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/draw/colours.h"
#include "traces/draw/letters.h"
#include "traces/input_action.h"
#include "traces/print/action_label.h"
#include "traces/print/row_shares.h"
#include "traces/print/time_axis.h"

namespace pipesim {
namespace {

// In pixels.
constexpr int page_width = 1200;
constexpr int margin = 16;
constexpr int row_height = 18;
constexpr int cell_height = 30;  // for rows with two-action cells
constexpr int row_gap = 2;
constexpr int line_height = 18;
constexpr int font_pixels = 11;
constexpr std::size_t narrowest =
    2;  // average width of actions; rows with narrower ones show proportions
constexpr int column_width = 10;  // of those

constexpr int svg_scale = 20;
constexpr int png_scale = 2;

constexpr Rgb idle = 0xf1f1ee;
constexpr Rgb grid = 0xc9c9c3;
constexpr Rgb faint_ink = 0x5c5c5c;

// An entry of the legend, by colour.
struct Meaning {
  Kind kind;  // that represents all of them
  std::string_view text;
};
constexpr std::array<Meaning, 10> meanings{{{Kind::F, "forward"},
                                            {Kind::B, "backward"},
                                            {Kind::W, "weight gradient"},
                                            {Kind::OPTIMIZER, "reduction, optimizer"},
                                            {Kind::SAVE, "checkpoint"},
                                            {Kind::TOP, "dense part"},
                                            {Kind::LOOKUP, "rows of tables"},
                                            {Kind::IDS, "exchange"},
                                            {Kind::COPY, "copy"},
                                            {Kind::NEXT, "host"}}};
Kind representative_of(InputGroup group) {
  switch (group) {
    case InputGroup::compute: return Kind::TOP;
    case InputGroup::rows: return Kind::LOOKUP;
    case InputGroup::exchange: return Kind::IDS;
    case InputGroup::copy: return Kind::COPY;
    case InputGroup::host: break;
  }
  return Kind::NEXT;
}
std::size_t meaning_of(Kind kind) {
  if (kind == Kind::I) kind = Kind::B;
  const bool is_own = is_compute(kind) || kind == Kind::SAVE;
  const Kind shown = is_of_input(kind)    ? representative_of(input_group_of(kind))
                     : kind == Kind::IDLE ? Kind::NEXT
                     : is_own             ? kind
                                          : Kind::OPTIMIZER;
  return static_cast<std::size_t>(std::ranges::find(meanings, shown, &Meaning::kind) -
                                  meanings.begin());
}

// The order in which kinds of RowShares are stacked in a column, the lowest first.
constexpr std::array<std::size_t, 13> stacked = [] {
  constexpr std::array kinds{Kind::F, Kind::B, Kind::W};
  std::array<std::size_t, 13> places{};
  std::size_t next = 0;
  for (const Kind kind : kinds) {
    for (const int chunk : {0, 1}) places[next++] = RowShares::place_of(kind, chunk);
  }
  using enum Kind;
  for (const Kind kind : {OPTIMIZER, SAVE, TOP, LOOKUP, IDS, COPY, NEXT}) {
    places[next++] = RowShares::place_of(kind, 0);
  }
  return places;
}();
using Heights = std::array<int, stacked.size()>;

// Rounding remainders go to the next one above.
Heights heights_of(const RowShares::Column& column, int height) {
  Heights heights{};
  double sum = 0;
  int drawn = 0;
  for (std::size_t i = 0; i < stacked.size(); ++i) {
    const std::size_t place = stacked[i];
    sum += column[place];
    heights[i] = static_cast<int>(std::lround(std::min(sum, 1.0) * height)) - drawn;
    drawn += heights[i];
  }
  return heights;
}

class FigurePage {
 public:
  FigurePage(const std::vector<TimelineGroup>& groups, int scale) : scale_(scale) {
    list_.background = colours::paper.light;
    y_ = margin;
    for (const TimelineGroup& group : groups) draw(group);
    draw_legend();
    list_.width = page_width * scale_;
    list_.height = y_ * scale_;
  }

  DrawList take() { return std::move(list_); }

 private:
  // An action of a row with few actions.
  struct Bar {
    Action action;
    std::int64_t start_ns, end_ns;
    int chunk;
    bool is_upper, is_lower;  // of a cell's two actions
  };
  struct Row {
    int rank = 0;
    std::vector<Bar> bars;
    std::optional<RowShares> shares;
    bool joined = false;  // the last span opened a cell
  };

  int right() const { return page_width - margin; }
  int plot_width() const { return right() - left_; }
  int width_of(std::string_view text) const {
    return static_cast<int>(std::ceil(letters_.width(text)));
  }

  void add_text(int x, int y, int width, std::string text, Rgb colour = faint_ink,
                DrawList::Align align = DrawList::Align::left, bool bold = false) {
    list_.texts.push_back({.x = x * scale_,
                           .y = y * scale_,
                           .width = width * scale_,
                           .height = line_height * scale_,
                           .colour = colour,
                           .align = align,
                           .bold = bold,
                           .text = std::move(text)});
  }

  // Adds a separate line.
  void add_line(const std::string& text, Rgb colour, bool bold = false) {
    if (text.empty()) return;
    add_text(margin, y_, right() - margin, text, colour, DrawList::Align::left, bold);
    y_ += line_height;
  }

  void draw(const TimelineGroup& group) {
    std::int64_t longest_ns = 1;
    int widest = 0;
    for (const TimelinePanel& panel : group.panels) {
      longest_ns = std::max(longest_ns, panel.makespan_ns);
      for (std::size_t row = 0; row < panel.actions_of_rank.size(); ++row) {
        widest = std::max(widest, width_of(row_name(panel, row)));
      }
    }
    left_ = margin + widest + 8;
    axis_.emplace(0, longest_ns, plot_width() * scale_);
    add_line(group.heading, colours::ink.light, true);
    const std::vector<TimeTick> ticks = time_ticks({0, longest_ns, plot_width()}, 110);
    for (const TimeTick& tick : ticks) {
      const int width = width_of(tick.label);
      const int x = left_ + axis_->column(tick.ns) / scale_;
      add_text(std::clamp(x - width / 2, margin, right() - width), y_, width, tick.label, faint_ink,
               DrawList::Align::centre);
    }
    y_ += line_height;
    const int top = y_;
    for (const TimelinePanel& panel : group.panels) draw(panel);
    for (const TimeTick& tick : ticks) {
      list_.grounds.push_back({.x = left_ * scale_ + axis_->column(tick.ns),
                               .y = (top - 2) * scale_,
                               .width = std::max(1, scale_ / 2),
                               .height = (y_ - top) * scale_,
                               .fill = grid});
    }
    add_line(group.note, faint_ink);
    y_ += 8;
  }

  static std::string row_name(const TimelinePanel& panel, std::size_t row) {
    return panel.row_names.empty() ? fmt::format("rank {}", row) : panel.row_names[row];
  }

  void draw(const TimelinePanel& panel) {
    add_line(panel.title, colours::ink.light);
    const std::size_t ranks = panel.actions_of_rank.size();
    std::vector<std::optional<Row>> rows(ranks);
    for (const int rank : shown_ranks(static_cast<int>(ranks))) {
      const auto at = static_cast<std::size_t>(rank);
      rows[at].emplace().rank = rank;
      if (panel.actions_of_rank[at] * narrowest > static_cast<std::size_t>(plot_width())) {
        rows[at]->shares.emplace(plot_width() / column_width);
      }
    }
    panel.replay([&](const Span& span) {
      std::optional<Row>& row = rows[static_cast<std::size_t>(span.rank)];
      if (row && !is_communication(span.action)) add(span, panel, *row);
    });
    const auto has_cell = [](const std::optional<Row>& row) {
      return row && std::ranges::any_of(row->bars, &Bar::is_upper);
    };
    const int height = std::ranges::any_of(rows, has_cell) ? cell_height : row_height;
    const bool stages = labels_have_stages(rows, panel.chunks());
    for (const std::optional<Row>& row : rows) {
      if (!row) continue;
      add_text(margin, y_ + (height - line_height) / 2, left_ - margin - 8,
               row_name(panel, static_cast<std::size_t>(row->rank)), faint_ink,
               DrawList::Align::right);
      list_.grounds.push_back({.x = left_ * scale_,
                               .y = y_ * scale_,
                               .width = axis_->column(panel.makespan_ns),
                               .height = height * scale_,
                               .fill = idle});
      for (const Bar& bar : row->bars) draw(bar, height, panel.chunks(), stages);
      if (row->shares) draw(*row->shares, height, panel.chunks());
      y_ += height + row_gap;
    }
    y_ += 6;
  }

  void add(const Span& span, const TimelinePanel& panel, Row& row) {
    const Action& action = span.action;
    const bool is_second = std::exchange(row.joined, action.joined);
    const std::int64_t start_ns = std::max<std::int64_t>(span.start_ns, 0);
    if (span.end_ns <= start_ns) return;
    const int chunk =
        is_compute(action.kind) ? panel.chunk_of_stage[static_cast<std::size_t>(action.stage)] : 0;
    used_[meaning_of(action.kind)] = true;
    (action.kind == Kind::I ? has_input_gradients_ : has_backwards_) |= is_backward(action.kind);
    has_later_ = has_later_ || chunk > 0;
    if (!row.shares) {
      row.bars.push_back({action, start_ns, span.end_ns, chunk, action.joined, is_second});
      return;
    }
    const double column =
        static_cast<double>(axis_->columns()) / static_cast<double>(row.shares->columns().size());
    row.shares->add(RowShares::place_of(meanings[meaning_of(action.kind)].kind, chunk),
                    axis_->exact(start_ns) / column, axis_->exact(span.end_ns) / column,
                    is_second || action.joined ? 0.5 : 1);
  }

  DrawList::Box box_of(const Bar& bar, int height) const {
    const int part = bar.is_upper || bar.is_lower ? height / 2 : height;
    const int x = axis_->column(bar.start_ns);
    // Slightly narrower, so that neighbours of one kind look separate.
    const int width = std::max(1, axis_->column(bar.end_ns) - x - scale_ / 2);
    return {.x = left_ * scale_ + x,
            .y = (y_ + (bar.is_lower ? part : 0)) * scale_,
            .width = width,
            .height = part * scale_};
  }
  bool fits(const std::string& label, const DrawList::Box& box) const {
    return letters_.width(label) * scale_ <= box.width - 3 * scale_;
  }

  // Whether all labels of a panel can name stages; otherwise none does.
  bool labels_have_stages(const std::vector<std::optional<Row>>& rows, int chunks) const {
    if (chunks <= 1) return false;
    for (const std::optional<Row>& row : rows) {
      if (!row) continue;
      for (const Bar& bar : row->bars) {
        if (is_compute(bar.action.kind) && !fits(to_text(bar.action), box_of(bar, row_height))) {
          return false;
        }
      }
    }
    return true;
  }

  void draw(const Bar& bar, int height, int chunks, bool stages) {
    DrawList::Box box = box_of(bar, height);
    box.fill = lighter(colour_of(bar.action.kind), bar.chunk, chunks).light;
    box.title = to_text(bar.action);
    for (const std::string& label : action_labels(bar.action, stages)) {
      const bool says_less_than_colour = is_compute(bar.action.kind) && label.size() == 1;
      if (label.empty() || says_less_than_colour || !fits(label, box)) continue;
      list_.texts.push_back(
          {.x = box.x,
           .y = box.y,
           .width = box.width,
           .height = box.height,
           .colour = is_light(box.fill) ? colours::ink.light : colours::paper.light,
           .align = DrawList::Align::centre,
           .text = label});
      has_stages_ = has_stages_ || stages;
      auto& has_numbers = is_of_input(bar.action.kind) ? has_batches_ : has_microbatches_;
      has_numbers = has_numbers || label.size() > 1;
      break;
    }
    list_.boxes.push_back(std::move(box));
  }

  // Columns split by kind; equal neighbours are one box.
  void draw(const RowShares& shares, int height, int chunks) {
    has_proportions_ = true;
    const auto columns = static_cast<int>(shares.columns().size());
    const auto x_of = [&](int column) {
      return static_cast<int>(std::int64_t{axis_->columns()} * column / columns);
    };
    std::vector<Heights> heights;
    for (const RowShares::Column& column : shares.columns()) {
      heights.push_back(heights_of(column, height));
    }
    for (int from = 0; from < columns;) {
      const Heights& own = heights[static_cast<std::size_t>(from)];
      int to = from + 1;
      while (to < columns && heights[static_cast<std::size_t>(to)] == own) ++to;
      int y = y_ + height;
      for (std::size_t i = 0; i < stacked.size(); ++i) {
        if (own[i] == 0) continue;
        y -= own[i];
        const Kind kind = RowShares::kind_of(stacked[i]);
        const int chunk = RowShares::is_later(stacked[i]) ? chunks - 1 : 0;
        list_.boxes.push_back({.x = left_ * scale_ + x_of(from),
                               .y = y * scale_,
                               .width = x_of(to) - x_of(from),
                               .height = own[i] * scale_,
                               .fill = lighter(colour_of(kind), chunk, chunks).light});
      }
      from = to;
    }
  }

  void draw_legend() {
    int x = left_;
    const auto make_room = [&](int width) {
      if (x + width <= right() || x == left_) return;
      x = left_;
      y_ += line_height;
    };
    const auto add = [&](std::string_view text) {
      const int width = width_of(text);
      make_room(width);
      add_text(x, y_, width, std::string(text), colours::ink.light);
      x += width + 20;
    };
    for (std::size_t i = 0; i < meanings.size(); ++i) {
      if (!used_[i]) continue;
      std::string_view text = meanings[i].text;
      if (meanings[i].kind == Kind::B && has_input_gradients_) {
        text = has_backwards_ ? "backward, or input gradient" : "input gradient";
      }
      make_room(17 + width_of(text));
      list_.boxes.push_back({.x = x * scale_,
                             .y = (y_ + 3) * scale_,
                             .width = 12 * scale_,
                             .height = 12 * scale_,
                             .fill = colour_of(meanings[i].kind).light});
      x += 17;
      add(text);
    }
    if (has_later_) add("lighter: later chunks");
    if (has_stages_) {
      add("4B0: virtual stage 4, microbatch 0");
    } else if (has_microbatches_) {
      add("B0: microbatch 0");
    }
    if (has_batches_) add("T0: TOP of batch 0");
    if (has_proportions_) add("heights in proportion to time");
    y_ += line_height + margin / 2;
  }

  DrawList list_;
  int scale_;
  Letters letters_{font_pixels, false};
  int y_ = 0;  // height of the page so far
  int left_ = 0;
  std::optional<TimeScale> axis_;  // from left_, in pixels of the list
  std::array<bool, meanings.size()> used_{};
  bool has_backwards_ = false, has_input_gradients_ = false;
  bool has_later_ = false, has_stages_ = false, has_microbatches_ = false, has_batches_ = false;
  bool has_proportions_ = false;
};

}  // namespace

FigureForm figure_form(std::string_view path, std::string_view flag) {
  if (path.ends_with(".svg")) return FigureForm::svg;
  if (path.ends_with(".png")) return FigureForm::png;
  throw input_error(
      fmt::format("{} {}: a figure is SVG or PNG; give a name that ends in .svg or "
                  ".png",
                  flag, quote(path)));
}

DrawList figure_list(const std::vector<TimelineGroup>& groups, int scale) {
  return FigurePage(groups, scale).take();
}

std::string draw_figure(const std::vector<TimelineGroup>& groups, FigureForm form) {
  const bool is_svg = form == FigureForm::svg;
  const int scale = is_svg ? svg_scale : png_scale;
  const DrawList list = figure_list(groups, scale);
  return is_svg ? to_svg(list, font_pixels, scale) : to_png(list, font_pixels * scale);
}

}  // namespace pipesim
