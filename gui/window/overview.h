// The strip above the timeline: the whole run, with a frame around the visible part, which can be
// dragged, or moved by a click.
//
// Owned by the window; on its thread.
#pragma once

#include <QImage>
#include <QWidget>
#include <optional>

#include "gui/window/painter.h"
#include "gui/window/session.h"

namespace pipesim::gui {

class Overview : public QWidget {
  Q_OBJECT
 public:
  Overview(Session& session, QWidget* parent);

  QSize sizeHint() const override { return {400, 56}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;

 private:
  Canvas canvas() const;
  std::int64_t time_at(int x) const;
  void outdate();
  void show_from(std::int64_t from_ns);

  Session& session_;
  std::optional<Painter> painter_;
  double painter_scale_ = 0;
  // Everything but the frame is laid out only when the document or the view's options change.
  std::optional<DrawList> list_;
  SceneOptions options_;
  QImage image_;
  std::optional<std::int64_t> held_;  // offset of the dragged frame's start from the pointer
};

}  // namespace pipesim::gui
