// All keys and mouse actions, over the window.
//
// Owned by the window; on its thread.
#pragma once

#include <QWidget>

namespace pipesim::gui {

class HelpOverlay : public QWidget {
  Q_OBJECT
 public:
  explicit HelpOverlay(QWidget* parent);

  // Its contents, as HTML.
  static QString text();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void showEvent(QShowEvent* event) override;
};

}  // namespace pipesim::gui
