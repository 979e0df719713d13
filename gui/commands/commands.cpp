#include "gui/commands/commands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "gui/commands/navigation.h"
#include "gui/commands/objections.h"
#include "gui/commands/realign.h"

namespace pipesim::gui {
namespace {

constexpr double pan_share = 0.2;      // of the range
constexpr double zoom_factor = 1.5;    // factor per step
constexpr double bar_margin = 1;       // a zoomed bar fills a third
constexpr double group_margin = 0.1;   // around several
constexpr double sight_margin = 0.05;  // of the range, around an item brought into view
constexpr double scroll_share = 0.15;  // of the rows' height
constexpr double page_share = 0.9;     // leaves some overlap

constexpr auto commands = std::to_array<CommandHelp>({
    {Command::pan_left, "A, Left", "Move", "Pan Left"},
    {Command::pan_right, "D, Right", "Move", "Pan Right"},
    {Command::zoom_in, "W, +, =", "Move", "Zoom In"},
    {Command::zoom_out, "S, -", "Move", "Zoom Out"},
    {Command::scroll_up, "Up", "Move", "Scroll Up"},
    {Command::scroll_down, "Down", "Move", "Scroll Down"},
    {Command::page_up, "PgUp", "Move", "Page Up"},
    {Command::page_down, "PgDown", "Move", "Page Down"},
    {Command::focus, "F", "Move", "Zoom to Selection"},
    {Command::fit, "0, Home", "Move", "Fit Iteration"},
    {Command::undo, "Ctrl+Z", "Move", "Undo View Change"},
    {Command::redo, "Ctrl+Shift+Z, Ctrl+Y", "Move", "Redo View Change"},
    {Command::previous, ",", "Select", "Previous Bar in Row"},
    {Command::next, ".", "Select", "Next Bar in Row"},
    {Command::flow_back, "[", "Select", "Follow Microbatch Back"},
    {Command::flow_forward, "]", "Select", "Follow Microbatch Forward"},
    {Command::other_side, "O", "Select", "Same Action in Other Trace"},
    {Command::select_area, "R", "Select", "Select Time Range of Selection"},
    {Command::mark, "M", "Select", "Mark Time"},
    {Command::clear_marks, "Shift+M", "Select", "Clear Marks"},
    {Command::clear, "Esc", "Select", "Clear Selection"},
    {Command::align_absolute, "1", "Show", "Align by Time"},
    {Command::align_iteration, "2", "Show", "Align Iterations"},
    {Command::align_slot, "3", "Show", "Align n-th Actions"},
    {Command::show_stacked, "4", "Show", "Stacked View"},
    {Command::show_overlay, "5", "Show", "Overlay View"},
    {Command::show_difference, "6", "Show", "Difference View"},
    {Command::colour_kind, "7", "Show", "Colour by Kind"},
    {Command::colour_microbatch, "8", "Show", "Colour by Microbatch"},
    {Command::colour_error, "9", "Show", "Colour by Difference in Duration"},
    {Command::toggle_arrows, "E", "Show", "Message Arrows"},
    {Command::toggle_curves, "C", "Show", "Memory and Lateness Curves"},
    {Command::toggle_critical, "X", "Show", "Critical Path"},
    {Command::toggle_transfers, "T", "Show", "Transfer Rows"},
    {Command::pin, "P", "Show", "Pin Rank"},
});

std::vector<Pick> selection_of(const View& view) {
  return view.picked ? std::vector{*view.picked} : view.emphasised;
}

// A command's input, and the resulting view.
class Change {
 public:
  Change(const Document& document, const Scene& scene, const View& view, const Picture& picture)
      : document_(document), scene_(scene), picture_(picture), view_(view) {}

  View take() { return std::move(view_); }

  void pan(int direction) {
    const auto by = static_cast<std::int64_t>(
        std::llround(static_cast<double>(view_.range.length_ns()) * pan_share));
    show(panned(view_.range, direction * std::max<std::int64_t>(by, 1)));
  }

  void zoom(double factor) {
    std::int64_t about_ns = view_.range.from_ns + view_.range.length_ns() / 2;
    if (const auto range = range_of(document_, scene_, selection_of(view_));
        range && view_.picked) {
      const std::int64_t middle = range->from_ns + range->length_ns() / 2;
      if (view_.range.contains(middle)) about_ns = middle;
    }
    show(zoomed(view_.range, about_ns, factor));
  }

  void scroll(double share) {
    const int rows = rows_bottom() - rows_top();
    view_.scroll += static_cast<int>(std::lround(share * std::max(rows, 0)));
    view_.scroll = std::clamp(view_.scroll, 0, greatest_scroll(picture_));
  }

  // Shows the bar, the area or the emphasised bars; everything if these are shown already, or
  // nothing is selected.
  void focus() {
    std::optional<TimeRange> wanted = range_of(document_, scene_, selection_of(view_));
    double margin = view_.picked ? bar_margin : group_margin;
    if (!view_.picked && view_.area) {
      wanted = view_.area;
      margin = sight_margin;
    }
    if (!wanted) return fit();
    const TimeRange large = with_margin(scene_, *wanted, margin);
    if (view_.range == large) return fit();
    view_.range = large;
    scroll_to(selection_of(view_));
  }

  void fit() {
    const TimeRange home = kept_within(scene_.home, scene_.extent);
    show(view_.range == home ? scene_.extent : scene_.home);
  }

  // Picks it and brings it into view.
  void pick(const std::optional<Pick>& pick) {
    if (!pick) return;
    view_.picked = pick;
    const auto place = find(scene_, document_, *pick);
    if (!place) return;
    bring_into_sight(place->range);
    scroll_to({*pick});
  }

  void walk(int direction) { pick(neighbour(document_, scene_, view_, picture_, direction)); }
  void follow(int direction) {
    if (view_.picked) pick(along_flow(document_, scene_, *view_.picked, direction));
  }
  void change_side() {
    if (view_.picked) pick(other_side(document_, *view_.picked));
  }

  void emphasise(std::vector<Pick> picks) {
    view_.emphasised = std::move(picks);
    const auto range = range_of(document_, scene_, view_.emphasised);
    if (!range) return;
    view_.range =
        with_margin(scene_, *range, view_.emphasised.size() == 1 ? bar_margin : group_margin);
    scroll_to(view_.emphasised);
  }

  void select_area() {
    if (const auto range = range_of(document_, scene_, selection_of(view_))) view_.area = range;
  }

  void mark() {
    std::int64_t at = view_.range.from_ns + view_.range.length_ns() / 2;
    if (view_.picked) {
      const auto place = find(scene_, document_, *view_.picked);
      if (place) at = place->range.from_ns;
    }
    auto& marks = view_.marks;
    const auto found = std::ranges::lower_bound(marks, at);
    if (found != marks.end() && *found == at) {
      marks.erase(found);
    } else {
      marks.insert(found, at);
    }
  }

  void pin() {
    if (!view_.picked) return;
    const auto place = find(scene_, document_, *view_.picked);
    if (!place) return;
    const std::string& name = scene_.groups[static_cast<std::size_t>(place->group)].name;
    if (view_.pinned.erase(name) == 0) view_.pinned.insert(name);
  }

  void align(Alignment alignment) {
    view_ = realigned(document_, scene_, std::move(view_), picture_, alignment);
  }

  // Difference and colours by error belong together, if colours were by kind.
  void compare(Show show) {
    Colouring& colouring = view_.options.colouring;
    const bool enters = show == Show::difference && view_.options.show != Show::difference;
    const bool leaves = show != Show::difference && view_.options.show == Show::difference;
    if (enters && colouring == Colouring::kind) colouring = Colouring::error;
    if (leaves && colouring == Colouring::error) colouring = Colouring::kind;
    view_.options.show = show;
  }

  View& view() { return view_; }

 private:
  void show(const TimeRange& range) { view_.range = kept_within(range, scene_.extent); }

  // Moves no more than needed: a bar longer than the range need only intersect it.
  void bring_into_sight(const TimeRange& bar) {
    const TimeRange& range = view_.range;
    if (bar.from_ns >= range.from_ns && bar.to_ns <= range.to_ns) return;
    const bool is_longer = bar.length_ns() > range.length_ns();
    if (is_longer && bar.from_ns < range.to_ns && bar.to_ns > range.from_ns) return;
    const auto margin =
        std::min(static_cast<std::int64_t>(static_cast<double>(range.length_ns()) * sight_margin),
                 std::max<std::int64_t>(0, (range.length_ns() - bar.length_ns()) / 2));
    const bool to_the_left = bar.from_ns < range.from_ns;
    const std::int64_t by = to_the_left != is_longer ? bar.from_ns - margin - range.from_ns
                                                     : bar.to_ns + margin - range.to_ns;
    show(panned(range, by));
  }

  // The top of the scrolling groups, in pixels.
  int rows_top() const { return picture_.ruler_height + picture_.pinned_height; }
  int rows_bottom() const { return picture_.list.height - picture_.legend_height; }

  // Scrolls to the first of them on a row, if none is visible.
  void scroll_to(const std::vector<Pick>& picks) {
    std::optional<Place> wanted;
    for (const Pick& pick : picks) {
      const auto place = find(scene_, document_, pick);
      if (!place) continue;
      if (is_in_sight(*place)) return;
      if (!wanted) wanted = place;
    }
    if (!wanted) return;
    const auto placed = std::ranges::find(picture_.groups, wanted->group, &PlacedGroup::group);
    if (placed == picture_.groups.end()) {
      // Hidden by the filter.
      if (!passes(scene_.groups[static_cast<std::size_t>(wanted->group)], view_.filter)) {
        view_.filter.clear();
      }
      return;
    }
    if (placed->pinned) return;
    const int top = rows_top();
    const int bottom = rows_bottom();
    int by = 0;
    if (placed->height > bottom - top) {
      by = placed->y + static_cast<int>(placed->height * share_above(*wanted)) - (top + bottom) / 2;
    } else if (placed->y < top) {
      by = placed->y - top;
    } else {
      by = std::max(0, placed->y + placed->height - bottom);
    }
    const int most = greatest_scroll(picture_);
    view_.scroll = std::clamp(std::min(view_.scroll, most) + by, 0, most);
  }

  // About which share of its group's height is above the middle of its row, as if all rows had
  // equal height.
  double share_above(const Place& place) const {
    const Group& group = scene_.groups[static_cast<std::size_t>(place.group)];
    std::size_t rows = 0;
    std::size_t above = 0;
    for (std::size_t lane = 0; lane < group.lanes.size(); ++lane) {
      if (static_cast<int>(lane) == place.lane) above = rows + static_cast<std::size_t>(place.row);
      rows += group.lanes[lane].rows.size();
    }
    std::set<std::string_view> curves;  // those with one label share a row
    for (const CurveLane& curve : group.curves) curves.insert(curve.label);
    if (view_.curves) rows += curves.size();
    return (static_cast<double>(above) + 0.5) / static_cast<double>(std::max<std::size_t>(rows, 1));
  }

  // Whether it is fully visible between both ends of the scrolling part.
  bool is_in_sight(const Place& place) const {
    return std::ranges::any_of(picture_.rows, [&](const PlacedRow& row) {
      return row.group == place.group && row.lane == place.lane && row.row == place.row &&
             row.y > rows_top() && row.y + row.height < rows_bottom();
    });
  }

  const Document& document_;
  const Scene& scene_;
  const Picture& picture_;
  View view_;
};

}  // namespace

std::span<const CommandHelp> command_list() { return commands; }

View apply(Command command, const Document& document, const Scene& scene, const View& view,
           const Picture& picture) {
  if (!objection_to(command, document, scene, view).empty()) return view;
  Change change(document, scene, view, picture);
  View& next = change.view();
  switch (command) {
    case Command::pan_left: change.pan(-1); break;
    case Command::pan_right: change.pan(1); break;
    case Command::zoom_in: change.zoom(1 / zoom_factor); break;
    case Command::zoom_out: change.zoom(zoom_factor); break;
    case Command::page_up: change.scroll(-page_share); break;
    case Command::page_down: change.scroll(page_share); break;
    case Command::scroll_up: change.scroll(-scroll_share); break;
    case Command::scroll_down: change.scroll(scroll_share); break;
    case Command::focus: change.focus(); break;
    case Command::fit: change.fit(); break;
    case Command::previous: change.walk(-1); break;
    case Command::next: change.walk(1); break;
    case Command::flow_back: change.follow(-1); break;
    case Command::flow_forward: change.follow(1); break;
    case Command::other_side: change.change_side(); break;
    case Command::select_area: change.select_area(); break;
    case Command::mark: change.mark(); break;
    case Command::clear_marks: next.marks.clear(); break;
    case Command::align_absolute: change.align(Alignment::absolute); break;
    case Command::align_iteration: change.align(Alignment::iteration); break;
    case Command::align_slot: change.align(Alignment::slot); break;
    case Command::show_stacked: change.compare(Show::stacked); break;
    case Command::show_overlay: change.compare(Show::overlay); break;
    case Command::show_difference: change.compare(Show::difference); break;
    case Command::colour_kind: next.options.colouring = Colouring::kind; break;
    case Command::colour_microbatch: next.options.colouring = Colouring::microbatch; break;
    case Command::colour_error: next.options.colouring = Colouring::error; break;
    case Command::toggle_arrows: next.arrows = !next.arrows; break;
    case Command::toggle_curves: next.curves = !next.curves; break;
    case Command::toggle_critical: next.options.critical = !next.options.critical; break;
    case Command::toggle_transfers: next.options.transfers = !next.options.transfers; break;
    case Command::pin: change.pin(); break;
    case Command::undo:
    case Command::redo: break;
    case Command::clear:
      next.picked.reset();
      next.emphasised.clear();
      next.area.reset();
      break;
  }
  return change.take();
}

View with_pick(const Document& document, const Scene& scene, const View& view, const Pick& pick,
               const Picture& picture) {
  Change change(document, scene, view, picture);
  change.pick(pick);
  return change.take();
}

View with_emphasis(const Document& document, const Scene& scene, const View& view,
                   std::vector<Pick> picks, const Picture& picture) {
  Change change(document, scene, view, picture);
  change.emphasise(std::move(picks));
  return change.take();
}

}  // namespace pipesim::gui
