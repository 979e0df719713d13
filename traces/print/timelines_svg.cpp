// Small multiples as an SVG.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "traces/base/text.h"
#include "traces/draw/colours.h"
#include "traces/draw/xml_text.h"
#include "traces/print/picture.h"
#include "traces/print/small_multiples.h"
#include "traces/print/time_axis.h"

namespace pipesim {
namespace {

// Time times pixels needs more than 64 bits.
__extension__ using Wide = __int128;

class TimelinePage {
 public:
  explicit TimelinePage(const std::vector<TimelineGroup>& groups) {
    std::size_t actions = 0;
    for (const TimelineGroup& group : groups) {
      for (const TimelinePanel& panel : group.panels) {
        for (const std::size_t own : panel.actions_of_rank) actions += own;
      }
    }
    has_few_ = actions <= few;
    for (const TimelineGroup& group : groups) draw(group);
    draw_legend();
  }

  std::string text() const {
    return fmt::format(
               R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="12">
<path d="M0 0h{0}v{1}h-{0}z" fill="#{2:06x}"/>
{3})",
               page_width, y_, colours::paper.light,
               // Between actions of one kind; many are too narrow for it.
               has_few_ ? "<style>rect{stroke:#fff;stroke-width:0.5}</style>\n" : "") +
           body_ + "</svg>\n";
  }

 private:
  // Pixels.
  static constexpr int page_width = 1200;
  static constexpr int margin = 24;
  static constexpr int label_width = 44;  // of ranks
  static constexpr int left = margin + label_width;
  static constexpr int plot_width = page_width - left - margin;
  static constexpr int row_height = 16;
  static constexpr int row_gap = 2;
  static constexpr int letter = 6;  // of labels within actions
  static constexpr int line_height = 20;
  static constexpr std::size_t few = 5'000;

  static constexpr std::uint32_t idle = 0xf1f1ee;
  static constexpr std::uint32_t grid = 0xc9c9c3;
  static constexpr std::uint32_t faint_ink = 0x5c5c5c;

  // The colours of kinds, and what they mean.
  struct Paint {
    Colour colour;
    std::string_view meaning;
  };
  static constexpr std::array<Paint, 5> paints{{{colours::forward, "forward"},
                                                {colours::backward, "backward, or input gradient"},
                                                {colours::weight_gradient, "weight gradient"},
                                                {colours::other, "reduction and optimizer"},
                                                {colours::neutral, "checkpoint"}}};
  static std::size_t paint_of(Kind kind) {
    if (kind == Kind::F) return 0;
    if (is_backward(kind)) return 1;
    if (kind == Kind::W) return 2;
    return kind == Kind::SAVE ? 4 : 3;
  }

  template <typename... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Values>(values)...);
    body_ += '\n';
  }

  // A time's place in hundredths of a pixel.
  static std::int64_t place(std::int64_t ns, std::int64_t longest_ns) {
    const std::int64_t all = std::max<std::int64_t>(longest_ns, 1);
    return static_cast<std::int64_t>((Wide{ns} * (plot_width * 100) + all / 2) / all);
  }
  static std::string pixels(std::int64_t hundredths) {
    std::string text = fmt::format("{}.{:02}", hundredths / 100, hundredths % 100);
    text.resize(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  void draw(const TimelineGroup& group) {
    std::int64_t longest_ns = 0;
    int rows = 0;
    for (const TimelinePanel& panel : group.panels) {
      longest_ns = std::max(longest_ns, panel.makespan_ns);
      rows += static_cast<int>(shown_ranks(static_cast<int>(panel.actions_of_rank.size())).size());
    }
    y_ += line_height + 10;
    add(R"(<text x="{}" y="{}" fill="#{:06x}" font-size="16" font-weight="bold">{}</text>)", margin,
        y_, colours::ink.light, xml_text(group.heading));
    y_ += line_height;
    const int height =
        static_cast<int>(group.panels.size()) * (line_height + 8) + rows * (row_height + row_gap);
    for (const auto& [ns, label] : time_ticks({0, longest_ns, plot_width}, 110)) {
      const std::string x = pixels(left * 100 + place(ns, longest_ns));
      add(R"(<path d="M{} {}v{}" stroke="#{:06x}" stroke-width="1"/>)", x, y_ + 6, height, grid);
      add(R"(<text x="{}" y="{}" fill="#{:06x}" font-size="11">{}</text>)", x, y_, faint_ink,
          xml_text(label));
    }
    for (const TimelinePanel& panel : group.panels) draw(panel, longest_ns);
    if (group.note.empty()) return;
    y_ += line_height;
    add(R"(<text x="{}" y="{}" fill="#{:06x}">{}</text>)", margin, y_, faint_ink,
        xml_text(group.note));
  }

  void draw(const TimelinePanel& panel, std::int64_t longest_ns) {
    y_ += line_height + 8;
    add(R"(<text x="{}" y="{}" fill="#{:06x}" font-weight="bold">{}</text>)", margin, y_ - 6,
        colours::ink.light, xml_text(panel.title));
    const int ranks = static_cast<int>(panel.actions_of_rank.size());
    const std::vector<int> shown = shown_ranks(ranks);
    const std::string width = pixels(place(panel.makespan_ns, longest_ns));
    std::vector<int> top_of_rank(static_cast<std::size_t>(ranks), -1);
    for (const int rank : shown) {
      top_of_rank[static_cast<std::size_t>(rank)] = y_;
      add(R"(<text x="{}" y="{}" fill="#{:06x}" font-size="11" text-anchor="end">{}</text>)",
          left - 8, y_ + 12, faint_ink, rank);
      add(R"(<path d="M{} {}h{}v{}h-{}z" fill="#{:06x}"/>)", left, y_, width, row_height, width,
          idle);
      y_ += row_height + row_gap;
    }
    // A cell's two actions have a half of the row each.
    std::vector<bool> joined(static_cast<std::size_t>(ranks));
    panel.replay([&](const Span& span) {
      const auto rank = static_cast<std::size_t>(span.rank);
      if (top_of_rank[rank] < 0 || is_communication(span.action)) return;
      const bool is_second = joined[rank];
      joined[rank] = span.action.joined;
      const int height = is_second || span.action.joined ? row_height / 2 : row_height;
      const int top = top_of_rank[rank] + (is_second ? height : 0);
      draw(span, panel.chunk_of_stage, top, height, longest_ns);
    });
  }

  void draw(const Span& span, const std::vector<int>& chunk_of_stage, int top, int height,
            std::int64_t longest_ns) {
    const Action& action = span.action;
    const std::size_t paint = paint_of(action.kind);
    used_[paint] = true;
    const int chunk =
        is_compute(action.kind) ? chunk_of_stage[static_cast<std::size_t>(action.stage)] : 0;
    const std::int64_t begin = place(std::max<std::int64_t>(span.start_ns, 0), longest_ns);
    const std::int64_t width = place(span.end_ns, longest_ns) - begin;
    const Colour& colour = paints[paint].colour;
    const std::string label = is_compute(action.kind)
                                  ? fmt::format("{}{}", kind_name(action.kind), action.microbatch)
                                  : std::string(kind_name(action.kind).substr(0, 1));
    std::string title;
    if (has_few_) title = fmt::format("<title>{}</title>", xml_text(to_text(action)));
    lighter_ = lighter_ || chunk > 0;
    add(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="#{:06x}"{}>{}</rect>)",
        pixels(left * 100 + begin), top, pixels(width), height, colour.light,
        chunk % 2 == 1 ? R"( fill-opacity="0.6")" : "", title);
    const int room = (static_cast<int>(label.size()) * letter + 4) * 100;
    if (width < room || height < row_height) return;
    const bool is_dark = chunk % 2 == 0 && (paint == 0 || paint == 2);
    add(R"(<text x="{}" y="{}" fill="#{:06x}" font-size="9">{}</text>)",
        pixels(left * 100 + begin + 200), top + 12,
        is_dark ? colours::paper.light : colours::ink.light, xml_text(label));
  }

  void draw_legend() {
    y_ += line_height + 8;
    int x = left;
    for (std::size_t i = 0; i < paints.size(); ++i) {
      if (!used_[i]) continue;
      add(R"(<path d="M{} {}h12v12h-12z" fill="#{:06x}"/>)", x, y_ - 10, paints[i].colour.light);
      add(R"(<text x="{}" y="{}" fill="#{:06x}">{}</text>)", x + 18, y_, colours::ink.light,
          xml_text(paints[i].meaning));
      x += 40 + 7 * static_cast<int>(paints[i].meaning.size());
    }
    if (lighter_) {
      add(R"(<text x="{}" y="{}" fill="#{:06x}">lighter: every other chunk of a rank</text>)", x,
          y_, colours::ink.light);
    }
    y_ += margin;
  }

  std::string body_;
  int y_ = 0;
  bool has_few_ = false;
  bool lighter_ = false;
  std::array<bool, paints.size()> used_{};
};

}  // namespace

std::string timelines_svg(const std::vector<TimelineGroup>& groups) {
  return TimelinePage(groups).text();
}

}  // namespace pipesim
