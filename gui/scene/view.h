// The view of a scene: range, rows, selection; and its history.
//
// Plain values. One owner, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gui/scene/scene.h"
#include "gui/scene/viewport.h"

namespace pipesim::gui {

struct View {
  TimeRange range;
  int scroll = 0;  // pixels by which groups that are not pinned are moved up
  SceneOptions options;
  bool arrows = true;
  bool curves = true;
  // Groups by name: pinned ones come first and don't scroll; of a filter only those
  // whose name or process holds its text are shown; see passes().
  std::set<std::string> pinned;
  std::string filter;
  std::optional<Pick> picked;
  std::vector<Pick> emphasised;
  std::optional<TimeRange> area;    // selected with the mouse
  std::vector<std::int64_t> marks;  // ascending

  bool operator==(const View&) const = default;
};

// Whether the filter shows a group; case-insensitive.
bool passes(const Group& group, std::string_view filter);

// Views as they were, to go back to. A change of range, rows, options or marks is a
// step; panning and zooming in one go is one step. What is picked, emphasised or
// selected alone is none: it changes the view that is there, and comes back with it.
class History {
 public:
  explicit History(View first);

  const View& now() const { return views_[now_]; }
  // A change by the user. With the same non-empty `gesture` as the last step, and no
  // undo or redo in between, it replaces that. Of the steps the last 199 are kept.
  void push(View view, const std::string& gesture = {});
  bool can_undo() const { return now_ > 0; }
  bool can_redo() const { return now_ + 1 < views_.size(); }
  const View& undo();
  const View& redo();

 private:
  static constexpr std::size_t most = 200;

  std::vector<View> views_;
  std::size_t now_ = 0;
  std::string gesture_;
};

}  // namespace pipesim::gui
