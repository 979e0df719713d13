#include "gui/window/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "gui/commands/navigation.h"

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

// Of more spans the critical path is found in the background.
constexpr std::size_t max_at_once = 100'000;

std::size_t spans_of(const Document& document) {
  std::size_t spans = 0;
  for (const auto& trace : document.traces) spans += trace->run ? trace->run->spans.size() : 0;
  return spans;
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
      palette_(gui::palette(theme_, Colouring::kind)),
      finding_(new Background(this)) {}

const Picture& Session::picture() const {
  if (!laid_out_) {
    picture_ = layout(*document_, scene_, view(), canvas_, palette_);
    laid_out_ = true;
  }
  return picture_;
}

int Session::greatest_scroll() const { return gui::greatest_scroll(picture()); }

void Session::open(Opened opened) {
  const View like = view();
  finding_->drop();
  document_ = std::move(opened.document);
  scene_ = std::move(opened.scene);
  history_ = History(home_view(scene_, like));
  palette_ = gui::palette(theme_, view().options.colouring);
  laid_out_ = false;
  emit document_changed();
  emit view_changed();
}

void Session::replace(Opened opened) {
  View like = view();
  finding_->drop();
  const bool at_home = like.range == scene_.home;
  document_ = std::move(opened.document);
  scene_ = std::move(opened.scene);
  View next = home_view(scene_, like);
  if (!at_home) next.range = kept_within(like.range, scene_.extent);
  next.scroll = like.scroll;
  next.filter = like.filter;
  history_ = History(std::move(next));
  palette_ = gui::palette(theme_, view().options.colouring);
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
    change_scene_to(view().options);
    if (!view().emphasised.empty()) emphasise(scene_, *document_, view().emphasised);
    palette_ = gui::palette(theme_, view().options.colouring);
  } else if (view().emphasised != before.emphasised) {
    emphasise(scene_, *document_, view().emphasised);
  }
  laid_out_ = false;
  emit view_changed();
  const bool looks = view().options != before.options;
  if (looks || view().picked != before.picked) emit picked_changed();
  if (looks || view().area != before.area || view().filter != before.filter) emit area_changed();
}

void Session::change_scene_to(SceneOptions options) {
  if (!options.critical) {
    finding_->drop();
  } else if (scene_.paths.empty() && spans_of(*document_) > max_at_once) {
    options.critical = false;  // not yet
    if (!finding_->busy()) {
      finding_->start([this, document = document_]() -> Background::Rest {
        try {
          const auto paths = std::make_shared<CriticalPaths>(critical_paths(*document));
          return [this, paths] { take_paths(std::move(*paths)); };
        } catch (const std::bad_alloc&) {
          return [this] { give_up_path(); };
        }
      });
    }
  }
  change_scene(scene_, *document_, options);
}

void Session::take_paths(CriticalPaths paths) {
  scene_.paths = std::move(paths);
  change_scene(scene_, *document_, view().options);
  if (!view().emphasised.empty()) emphasise(scene_, *document_, view().emphasised);
  laid_out_ = false;
  emit view_changed();
}

void Session::give_up_path() {
  View next = view();
  next.options.critical = false;
  change(std::move(next));
  emit problem(tr("No memory for the critical path; open fewer or smaller traces."));
}

void Session::change(View next, const std::string& gesture) {
  const View before = view();
  if (next == before) return;
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
