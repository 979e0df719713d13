// State shared by the window's parts: the open document, the view, and the last picture. All
// changes go through it; the parts follow its signals.
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

// A document with its scene, as built in the background.
struct Opened {
  std::shared_ptr<const Document> document;
  Scene scene;
};
// May be called on any thread.
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
  // The picture of the current view; laid out on demand.
  const Picture& picture() const;
  // Whether the critical path, which the view asks for, is being found: of millions of spans that
  // takes seconds, in a thread of its own. The scene gets it when it is there.
  bool finds_path() const { return finding_->busy(); }
  void wait_for_path() { finding_->wait(); }
  // How far the rows can be scrolled.
  int greatest_scroll() const;

  // Shows another document, from its home, with the same options.
  void open(Opened opened);
  // The same for another run of the same kind: keeps the position.
  void replace(Opened opened);

  void set_canvas(const Canvas& canvas);
  void set_theme(Theme theme);
  // A change by the user; see History::push().
  void change(View view, const std::string& gesture = {});
  void run(Command command);
  // Picks a bar and shows it; emphasises the subject of a table.
  void pick(const Pick& pick);
  void show(const std::vector<Pick>& picks);
  void scroll_to(int pixels, const std::string& gesture);
  // Separates gestures of the same name into two steps of the history.
  void end_gesture();

 signals:
  void document_changed();  // and with it the view
  void view_changed();
  void picked_changed();  // the picked item, or options that affect its display
  void area_changed();    // the area, its document, or options that affect its display
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
