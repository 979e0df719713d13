// A small card next to the pointer: describes the item under it, on both sides of a comparison.
//
// A child of the widget it covers; passes the mouse through.
#pragma once

#include <QFont>
#include <QString>
#include <QWidget>
#include <array>
#include <optional>
#include <vector>

#include "gui/window/session.h"

namespace pipesim::gui {

class HoverCard : public QWidget {
  Q_OBJECT
 public:
  explicit HoverCard(QWidget* parent);

  // Next to `position`, within the parent.
  void show_at(const QPoint& position, const Session& session, const Hit& hit);
  // Called when the shown document is closed.
  void forget() { shown_.reset(); }
  // Its text: one line per row, cells separated by tabs.
  QString text() const;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void fill(const Session& session, const Hit& hit);

  QString title_;
  QString sentence_;  // below it
  std::vector<std::vector<QString>> rows_;
  std::vector<int> widths_;  // of the columns
  std::optional<Pick> shown_;
  Palette palette_;
};

}  // namespace pipesim::gui
