// The timeline: paints the session's picture, and turns the mouse into views.
//
//   wheel          scrolls; with Ctrl zooms at the pointer, with Shift pans
//   drag           pans and scrolls; with Shift, or in the ruler, selects an area
//   click          picks; double click shows the bar large
//
// Owned by the window; on its thread.
#pragma once

#include <QAbstractScrollArea>
#include <QImage>
#include <QPoint>
#include <cstdint>
#include <optional>

#include "gui/window/painter.h"
#include "gui/window/session.h"

namespace pipesim::gui {

class HoverCard;

class Timeline : public QAbstractScrollArea {
  Q_OBJECT
 public:
  Timeline(Session& session, QWidget* parent);

  QSize sizeHint() const override { return {900, 480}; }
  QSize minimumSizeHint() const override { return {240, 120}; }
  const HoverCard& card() const { return *card_; }

 signals:
  void area_selected();  // with the mouse, on release
  void picked();         // a bar, by a click
  void context_asked(const pipesim::gui::Hit& hit, const QPoint& global);

 protected:
  bool viewportEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;

 private:
  enum class Drag : std::uint8_t { none, pressed, pan, area };

  double scale() const;
  QPoint device(const QPoint& logical) const;
  std::int64_t time_at(const QPoint& logical) const;
  void follow_view();
  void adapt_canvas();
  void drag_to(const QPoint& position);
  void hover(const QPoint& position);

  Session& session_;
  std::optional<Painter> painter_;
  double painter_scale_ = 0;
  QImage image_;
  HoverCard* card_;
  Drag drag_ = Drag::none;
  QPoint pressed_at_;
  View pressed_view_;
  std::int64_t pressed_time_ = 0;
  bool in_gutter_ = false;
  bool following_ = false;
};

}  // namespace pipesim::gui
