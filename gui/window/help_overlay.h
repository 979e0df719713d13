// All keys and what the mouse does, over the window.
//
// Owned by the window; on its thread.
#pragma once

#include <QWidget>

namespace pipesim::gui {

class HelpOverlay : public QWidget {
  Q_OBJECT
 public:
  explicit HelpOverlay(QWidget* parent);

  // What it lists, as HTML.
  static QString text();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void showEvent(QShowEvent* event) override;
};

}  // namespace pipesim::gui
