#include "gui/layout/flame_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "gui/layout/parts.h"
#include "gui/scene/shading.h"
#include "traces/base/text.h"
#include "traces/base/utf8.h"

namespace pipesim::gui {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

std::string name_of(const FlameGraph& graph, std::uint32_t node) {
  constexpr std::size_t longest = 256;  // bytes; no label has room for more
  if (node == FlameGraph::root) return "all";
  const std::string& name = graph.frame(node).name;
  return name.empty() ? "(no name)" : printable(utf8_prefix(name, longest));
}

double share_of(std::int64_t part_ns, std::int64_t whole_ns) {
  return whole_ns == 0 ? 0 : static_cast<double>(part_ns) / static_cast<double>(whole_ns);
}

// The picture in the making.
class FlameDrawing {
 public:
  FlameDrawing(const FlameGraph& graph, const FlameView& view, const FlameMatches& matches,
               const Canvas& canvas, const Palette& palette)
      : graph_(graph),
        view_(view),
        matches_(matches),
        canvas_(canvas),
        palette_(palette),
        row_(canvas.text_height + canvas.scaled(4)) {
    picture_.list.width = canvas.width;
    picture_.list.height = canvas.height;
    picture_.list.background = palette.background;
  }

  FlamePicture draw() {
    std::vector<std::uint32_t> around{view_.zoomed};
    while (around.back() != FlameGraph::root) around.push_back(graph_.nodes[around.back()].parent);
    Place place{FlameGraph::root, 0, canvas_.width, false};
    for (std::size_t i = around.size(); i-- > 0;) {
      place = {around[i], 0, canvas_.width, place.found || is_found(around[i])};
      if (place.node != FlameGraph::root) ++depth_;
      add_box(place, i > 0);
    }
    // Row by row; of each node from where to where it is.
    std::vector<Place> row{place};
    while (!row.empty()) {
      std::vector<Place> below;
      for (const Place& one : row) add_children(one, below);
      if (!below.empty()) ++depth_;
      for (const Place& one : below) one.node == rest ? add_rest(one) : add_box(one, false);
      std::erase_if(below, [](const Place& one) { return one.node == rest; });
      row = std::move(below);
    }
    picture_.content_height = (depth_ + 1) * row_;
    return std::move(picture_);
  }

 private:
  static constexpr std::uint32_t rest = static_cast<std::uint32_t>(-1);
  struct Place {
    std::uint32_t node;
    int x, width;
    bool found;  // it, or what is around it
  };

  bool is_found(std::uint32_t node) const {
    return node != FlameGraph::root && !matches_.frames.empty() &&
           matches_.frames[graph_.nodes[node].frame];
  }

  void add_children(const Place& place, std::vector<Place>& below) const {
    const FlameGraph::Node& own = graph_.nodes[place.node];
    std::int64_t before_ns = 0;
    const auto x_after = [&](std::int64_t ns) {
      return place.x + static_cast<int>(share_of(ns, own.total_ns) * place.width);
    };
    for (std::uint32_t child = own.first; child < own.first + own.count; ++child) {
      const int x = x_after(before_ns);
      before_ns += graph_.nodes[child].total_ns;
      const int end = x_after(before_ns);
      if (end - x >= 1) {
        below.push_back({child, x, end - x, place.found || is_found(child)});
        continue;
      }
      // Those that follow are no longer.
      const int rest_end = x_after(own.total_ns - own.self_ns);
      if (rest_end > x) below.push_back({rest, x, rest_end - x, place.found});
      break;
    }
  }

  int y_of_row() const { return depth_ * row_ - view_.scroll; }
  bool in_sight() const { return y_of_row() + row_ > 0 && y_of_row() < canvas_.height; }

  Rgb fill_of(const Place& place, bool around) const {
    const Rgb ground = palette_.background;
    Rgb fill = mix(ground, palette_.text, is_light(ground) ? 28 : 40);
    if (place.node == FlameGraph::root) return fill;
    const StackFrame& frame = graph_.frame(place.node);
    if (frame.work) {
      fill = palette_.shades[static_cast<std::size_t>(shade_of(*frame.work))];
    } else if (frame.idle) {
      fill = palette_.shades[static_cast<std::size_t>(shade_of(*frame.idle))];
    } else if (frame.slice) {
      fill = mix(palette_.shades[static_cast<std::size_t>(shade_of_name(frame.name))], ground, 64);
    }
    if (!matches_.frames.empty() && !place.found) return mix(fill, ground, 180);
    return around ? mix(fill, ground, 100) : fill;
  }

  void add_box(const Place& place, bool around) {
    if (!in_sight()) return;
    const auto [node, x, width, unused] = place;
    const int gap = canvas_.scaled(1);
    const int drawn = width > 3 * gap ? width - gap : width;
    const int y = y_of_row();
    picture_.boxes.push_back({node, x, y, width, row_});
    const Rgb fill = fill_of(place, around);
    picture_.list.grounds.push_back(
        {.x = x, .y = y, .width = drawn, .height = row_ - gap, .fill = fill});
    const bool found = is_found(node);
    if (found && drawn > 3 * gap) {
      picture_.list.boxes.push_back({.x = x,
                                     .y = y,
                                     .width = drawn,
                                     .height = row_ - gap,
                                     .filled = false,
                                     .framed = true,
                                     .frame = palette_.selection});
    }
    add_label(node, x, drawn, y, fill, found);
  }

  void add_label(std::uint32_t node, int x, int width, int y, Rgb fill, bool bold) {
    constexpr int min_letters = 3;
    const int margin = canvas_.scaled(3);
    const int room = width - 2 * margin;
    if (room < min_letters * canvas_.char_width) return;
    std::string text = name_of(graph_, node);
    const double share =
        share_of(graph_.nodes[node].total_ns, graph_.nodes[FlameGraph::root].total_ns);
    const std::string with_share = text + "  " + format_percent(share);
    if (letters(with_share) * canvas_.char_width <= room) text = with_share;
    picture_.list.texts.push_back(
        {.x = x + margin,
         .y = y,
         .width = room,
         .height = row_ - canvas_.scaled(1),
         .colour = is_light(fill) ? palette_.on_bar : palette_.on_dark_bar,
         .bold = bold,
         .text = std::move(text)});
  }

  void add_rest(const Place& place) {
    if (!in_sight()) return;
    picture_.list.grounds.push_back({.x = place.x,
                                     .y = y_of_row(),
                                     .width = place.width,
                                     .height = row_ - canvas_.scaled(1),
                                     .fill = mix(palette_.background, palette_.text, 60)});
  }

  const FlameGraph& graph_;
  const FlameView& view_;
  const FlameMatches& matches_;
  const Canvas& canvas_;
  const Palette& palette_;
  int row_;
  int depth_ = 0;
  FlamePicture picture_;
};

}  // namespace

FlameMatches find_frames(const FlameGraph& graph, const std::string& text) {
  FlameMatches matches;
  if (text.empty()) return matches;
  const std::string wanted = lower(text);
  matches.frames.reserve(graph.frames.size());
  for (const StackFrame& frame : graph.frames) {
    matches.frames.push_back(lower(frame.name).find(wanted) != std::string::npos);
  }
  std::vector<bool> within(graph.nodes.size());
  for (std::uint32_t node = 1; node < graph.nodes.size(); ++node) {
    const FlameGraph::Node& own = graph.nodes[node];
    const bool found = matches.frames[own.frame];
    if (found) ++matches.nodes;
    if (found && !within[own.parent]) matches.total_ns += own.total_ns;
    within[node] = found || within[own.parent];
  }
  return matches;
}

std::string text_of(const FlameGraph& graph, const FlameMatches& matches) {
  if (matches.frames.empty()) return {};
  if (matches.nodes == 0) return "nothing is called so";
  return fmt::format(
      "{}, {} of all", plural(matches.nodes, "box", "boxes"),
      format_percent(share_of(matches.total_ns, graph.nodes[FlameGraph::root].total_ns)));
}

FlamePicture layout_flame(const FlameGraph& graph, const FlameView& view,
                          const FlameMatches& matches, const Canvas& canvas,
                          const Palette& palette) {
  return FlameDrawing(graph, view, matches, canvas, palette).draw();
}

std::optional<std::uint32_t> flame_at(const FlamePicture& picture, int x, int y) {
  for (const FlamePicture::Box& box : picture.boxes) {
    if (x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height) {
      return box.node;
    }
  }
  return std::nullopt;
}

std::string text_of(const FlameGraph& graph, std::uint32_t node) {
  const FlameGraph::Node& own = graph.nodes[node];
  std::string text = format_time(own.total_ns);
  if (node == FlameGraph::root) return text + ": all";
  text +=
      fmt::format(", {} of all",
                  format_percent(share_of(own.total_ns, graph.nodes[FlameGraph::root].total_ns)));
  if (own.parent != FlameGraph::root) {
    text += fmt::format(", {} of {}",
                        format_percent(share_of(own.total_ns, graph.nodes[own.parent].total_ns)),
                        name_of(graph, own.parent));
  }
  if (own.count > 0 && own.self_ns > 0) text += ", itself " + format_time(own.self_ns);
  std::string path = name_of(graph, node);
  for (std::uint32_t up = own.parent; up != FlameGraph::root; up = graph.nodes[up].parent) {
    path = name_of(graph, up) + " > " + path;
  }
  return text + ": " + path;
}

}  // namespace pipesim::gui
