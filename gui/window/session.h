// State shared by the window's parts: what is open, the view, and the last
// picture. All changes go through it; the parts follow its signals.
//
// Owned by the window; lives on the thread of the QApplication.
#pragma once

#include <QObject>
#include <memory>
#include <string>
#include <vector>

#include "gui/commands/commands.h"
#include "gui/layout/layout.h"
#include "gui/window/background.h"

namespace pipesim::gui {

// A document with the scene of it, as built in the background.
struct Opened {
  std::shared_ptr<const Document> document;
  Scene scene;
};
// In any thread.
Opened opened(Document document, const SceneOptions& options);

class Session : public QObject {
  Q_OBJECT
 public:
  explicit Session(QObject* parent = nullptr);

  const Document& document() const { return *document_; }
  std::shared_ptr<const Document> shared_document() const { return document_; }
  const Scene& scene() const { return scene_; }
  const View& view() const { return history_.now(); }
  const History& history() const { return history_; }
  Theme theme() const { return theme_; }
  const Palette& palette() const { return palette_; }
  const Canvas& canvas() const { return canvas_; }
  // Of the view as it is now; laid out when asked for.
  const Picture& picture() const;
  // Whether the critical path, which the view asks for, is being found: of millions of spans that
  // takes seconds, in a thread of its own. The scene gets it when it is there.
  bool finds_path() const { return finding_->busy(); }
  void wait_for_path() { finding_->wait(); }
  // How far the rows can be scrolled.
  int greatest_scroll() const;

  // Shows something else, from its home, in the same way as now.
  void open(Opened opened);
  // The same of another run of the same kind: stays where it is.
  void replace(Opened opened);

  void set_canvas(const Canvas& canvas);
  void set_theme(Theme theme);
  // A change by the user; see History::push().
  void change(View view, const std::string& gesture = {});
  void run(Command command);
  // Picks a bar and shows it; emphasises what a table is about.
  void pick(const Pick& pick);
  void show(const std::vector<Pick>& picks);
  void scroll_to(int pixels, const std::string& gesture);
  // Two gestures of one name with this between them are two steps.
  void end_gesture();

 signals:
  void document_changed();  // and so the view
  void view_changed();
  void picked_changed();  // what is picked, or how it is looked at
  void area_changed();    // the area, what it is of, or how that is looked at
  void theme_changed();
  void problem(const QString& sentence);  // what was asked for failed

 private:
  void follow(const View& before);
  void change_scene_to(SceneOptions options);
  void take_paths(CriticalPaths paths);
  void give_up_path();

  std::shared_ptr<const Document> document_;
  Scene scene_;
  History history_;
  Theme theme_ = Theme::light;
  Palette palette_;
  Canvas canvas_;
  Background* finding_;
  int gestures_ = 0;
  mutable Picture picture_;
  mutable bool laid_out_ = false;
};

}  // namespace pipesim::gui
