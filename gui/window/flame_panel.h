// The flame graph of the open traces: a search line, and boxes to zoom into.
//
//   click          zooms into a box, or out to one around it; Esc, Home: to all
//   wheel          scrolls
//
// Owned by the window; on its thread, except the graph, which is computed in the background
// when the panel is in sight.
#pragma once

#include <QAbstractScrollArea>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <memory>
#include <optional>

#include "gui/layout/flame_layout.h"
#include "gui/window/background.h"
#include "gui/window/painter.h"
#include "gui/window/session.h"

namespace pipesim::gui {

// The boxes.
class FlameBoxes : public QAbstractScrollArea {
  Q_OBJECT
 public:
  FlameBoxes(Session& session, QWidget* parent);

  // Null for none; zooms out.
  void set_graph(std::shared_ptr<const FlameGraph> graph);
  void set_search(const QString& text);
  void zoom(std::uint32_t node);

  const FlameGraph* graph() const { return graph_.get(); }
  const FlameMatches& matches() const { return matches_; }
  std::uint32_t zoomed() const { return view_.zoomed; }
  const FlamePicture& picture();

  QSize sizeHint() const override { return {400, 120}; }
  QSize minimumSizeHint() const override { return {120, 40}; }

 signals:
  void pointed(const QString& what);  // the box under the pointer, else the zoomed one

 protected:
  bool event(QEvent* event) override;
  bool viewportEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;

 private:
  double scale() const { return viewport()->devicePixelRatioF(); }
  std::optional<std::uint32_t> node_at(const QPoint& logical);
  void outdate();
  void say(std::optional<std::uint32_t> node);

  Session& session_;
  std::shared_ptr<const FlameGraph> graph_;
  FlameMatches matches_;
  QString search_;
  FlameView view_;
  std::optional<FlamePicture> picture_;
  std::optional<Painter> painter_;
  double painter_scale_ = 0;
  QImage image_;
};

class FlamePanel : public QWidget {
  Q_OBJECT
 public:
  FlamePanel(Session& session, QWidget* parent);

  FlameBoxes& boxes() { return *boxes_; }
  QLineEdit& line() { return *line_; }
  QString found() const { return found_->text(); }
  QString pointed() const { return pointed_->text(); }
  // Waits for the graph of the open document.
  void refresh();

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void outdate();
  void start();
  void show(const std::shared_ptr<const FlameGraph>& graph);
  void search();

  Session& session_;
  QLineEdit* line_;
  QLabel* found_;
  QLabel* pointed_;
  FlameBoxes* boxes_;
  Background* adding_;
  bool outdated_ = true;
};

}  // namespace pipesim::gui
