#include "gui/window/session.h"

#include <algorithm>
#include <utility>

namespace pipesim::gui {
namespace {

View home_view(const Scene& scene, const View& like) {
  View view = like;
  view.range = scene.home;
  view.scroll = 0;
  view.picked.reset();
  view.emphasised.clear();
  view.area.reset();
  view.marks.clear();
  view.filter.clear();
  view.options = scene.options;
  return view;
}

// What is looked at when the time axis becomes another one: the bar in `before` that
// is picked, or is in the middle, stays where it is on the screen.
TimeRange carried_over(const Document& document, const Scene& scene, const View& before,
                       const TimeRange& home_before, const std::optional<Pick>& anchor,
                       const TimeRange& anchor_before) {
  if (before.range == home_before || !anchor || home_before.length_ns() <= 0) return scene.home;
  const auto place = find(scene, document, *anchor);
  if (!place) return scene.home;
  const double stretch = static_cast<double>(std::max<std::int64_t>(place->range.length_ns(), 1)) /
                         static_cast<double>(std::max<std::int64_t>(anchor_before.length_ns(), 1));
  const auto length = std::max<std::int64_t>(
      least_range_ns,
      static_cast<std::int64_t>(static_cast<double>(before.range.length_ns()) * stretch));
  const double share = static_cast<double>(anchor_before.from_ns - before.range.from_ns) /
                       static_cast<double>(before.range.length_ns());
  const std::int64_t from =
      place->range.from_ns - static_cast<std::int64_t>(static_cast<double>(length) * share);
  return kept_within({from, from + length}, scene.extent);
}

}  // namespace

Opened opened(Document document, const SceneOptions& options) {
  auto shared = std::make_shared<const Document>(std::move(document));
  Scene scene = build_scene(*shared, options);
  return {std::move(shared), std::move(scene)};
}

Session::Session(QObject* parent)
    : QObject(parent),
      document_(std::make_shared<const Document>()),
      history_(View{}),
      palette_(gui::palette(theme_, Colouring::kind)) {}

const Picture& Session::picture() const {
  if (!laid_out_) {
    picture_ = layout(*document_, scene_, view(), canvas_, palette_);
    laid_out_ = true;
  }
  return picture_;
}

int Session::greatest_scroll() const {
  const Picture& now = picture();
  return std::max(0, now.content_height - (canvas_.height - now.ruler_height - now.pinned_height));
}

void Session::open(Opened opened) {
  const View like = view();
  document_ = std::move(opened.document);
  scene_ = std::move(opened.scene);
  history_ = History(home_view(scene_, like));
  laid_out_ = false;
  emit document_changed();
  emit view_changed();
}

void Session::replace(Opened opened) {
  View like = view();
  const bool at_home = like.range == scene_.home;
  document_ = std::move(opened.document);
  scene_ = std::move(opened.scene);
  View next = home_view(scene_, like);
  if (!at_home) next.range = kept_within(like.range, scene_.extent);
  next.scroll = like.scroll;
  next.filter = like.filter;
  history_ = History(std::move(next));
  laid_out_ = false;
  emit document_changed();
  emit view_changed();
}

void Session::set_canvas(const Canvas& canvas) {
  canvas_ = canvas;
  laid_out_ = false;
  if (view().scroll > greatest_scroll()) scroll_to(greatest_scroll(), "resize");
}

void Session::set_theme(Theme theme) {
  theme_ = theme;
  palette_ = gui::palette(theme_, view().options.colouring);
  laid_out_ = false;
  emit theme_changed();
  emit view_changed();
}

void Session::follow(const View& before) {
  if (view().options != before.options) {
    change_scene(scene_, *document_, view().options);
    if (!view().emphasised.empty()) emphasise(scene_, *document_, view().emphasised);
    palette_ = gui::palette(theme_, view().options.colouring);
  } else if (view().emphasised != before.emphasised) {
    emphasise(scene_, *document_, view().emphasised);
  }
  laid_out_ = false;
  emit view_changed();
}

void Session::change(View next, const std::string& gesture) {
  const View before = view();
  if (next == before) return;
  if (next.options.alignment != before.options.alignment) {
    next.area.reset();
    next.marks.clear();
    std::optional<Pick> anchor = before.picked;
    std::optional<Place> place = anchor ? find(scene_, *document_, *anchor) : std::nullopt;
    if (!place) {
      const Picture& now = picture();
      for (const PlacedRow& row : now.rows) {
        const auto middle =
            hit(now, scene_, now.viewport.x + now.viewport.width / 2, row.y + row.height / 2);
        if (!middle || !middle->pick || middle->pick->bubble) continue;
        anchor = middle->pick;
        place = find(scene_, *document_, *anchor);
        if (place) break;
      }
    }
    const TimeRange home = scene_.home;
    const TimeRange anchor_before = place ? place->range : TimeRange{};
    change_scene(scene_, *document_, next.options);
    next.range = carried_over(*document_, scene_, before, home, place ? anchor : std::nullopt,
                              anchor_before);
  }
  history_.push(std::move(next), gesture.empty() ? gesture : gesture + std::to_string(gestures_));
  follow(before);
}

void Session::run(Command command) {
  if (command == Command::undo || command == Command::redo) {
    const View before = view();
    if (command == Command::undo ? !history_.can_undo() : !history_.can_redo()) return;
    command == Command::undo ? history_.undo() : history_.redo();
    end_gesture();
    follow(before);
    return;
  }
  const bool moves = command <= Command::scroll_down;
  View next = apply(command, *document_, scene_, view(), picture());
  next.scroll = std::clamp(next.scroll, 0, greatest_scroll());
  change(std::move(next), moves ? "move" : "");
}

void Session::pick(const Pick& pick) {
  change(with_pick(*document_, scene_, view(), pick, picture()));
}

void Session::show(const std::vector<Pick>& picks) {
  change(with_emphasis(*document_, scene_, view(), picks, picture()));
}

void Session::scroll_to(int pixels, const std::string& gesture) {
  View next = view();
  next.scroll = std::clamp(pixels, 0, greatest_scroll());
  change(std::move(next), gesture);
}

void Session::end_gesture() { ++gestures_; }

}  // namespace pipesim::gui
