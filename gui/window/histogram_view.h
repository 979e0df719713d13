// A histogram as bars, one run below the other; a click on a bar shows its contents.
//
// Owned by the window; on its thread.
#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "gui/tables/histogram.h"
#include "gui/window/session.h"

namespace pipesim::gui {

class HistogramView : public QWidget {
  Q_OBJECT
 public:
  HistogramView(Session& session, QWidget* parent);

  void set(Histogram histogram);
  const Histogram& histogram() const { return histogram_; }
  // The area of a run's bin, as high as the whole run.
  QRect place_of(std::size_t run, std::size_t bin) const;

  QSize sizeHint() const override { return {240, 120}; }

 signals:
  void chosen(const std::vector<pipesim::gui::Pick>& about);

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  struct At {
    std::size_t run = 0;
    std::size_t bin = 0;
  };
  std::optional<At> at(const QPoint& point) const;
  QRect place_of_run(std::size_t run) const;

  Session& session_;
  Histogram histogram_;
};

}  // namespace pipesim::gui
