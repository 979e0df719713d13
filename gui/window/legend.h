// What the colours mean, in one line.
//
// Owned by the window; on its thread.
#pragma once

#include <QString>
#include <QWidget>
#include <vector>

#include "gui/window/session.h"

namespace pipesim::gui {

class Legend : public QWidget {
  Q_OBJECT
 public:
  Legend(Session& session, QWidget* parent);

  struct Entry {
    std::vector<Rgb> colours;  // side by side
    QString text;
  };
  // Of what is shown now.
  std::vector<Entry> entries() const;

  QSize sizeHint() const override { return {400, 22}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  Session& session_;
};

}  // namespace pipesim::gui
