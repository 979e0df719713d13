// The summary panel: whether the prediction was right, where the difference comes from, and its
// causes.
//
// Owned by the window; on its thread.
#pragma once

#include <QLabel>
#include <QWidget>

#include "gui/window/table_view.h"

namespace pipesim::gui {

class Summary : public QWidget {
  Q_OBJECT
 public:
  Summary(Session& session, QWidget* parent);

  QSize sizeHint() const override { return {340, 400}; }
  QSize minimumSizeHint() const override { return {200, 120}; }

  QString verdict() const { return verdict_->text(); }
  TablePanel& causes() { return *causes_; }
  TablePanel& gap() { return *gap_; }

 private:
  void follow();

  Session& session_;
  QLabel* verdict_;
  QLabel* gap_title_;
  TablePanel* gap_;
  QLabel* causes_title_;
  TablePanel* causes_;
  TablePanel* bubbles_;  // for a single run
};

}  // namespace pipesim::gui
