// Input lines below the timeline: search, and the filter of tracks.
//
// Owned by the window; on its thread.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QWidget>

#include "gui/tables/search.h"
#include "gui/window/session.h"

namespace pipesim::gui {

// A label, an input line, its result, and a close button.
class LineBar : public QWidget {
  Q_OBJECT
 public:
  LineBar(const QString& name, const QString& hint, QWidget* parent);

  void open();
  QLineEdit& line() { return *line_; }
  QString answer() const { return answer_->text(); }

 signals:
  void closed();

 protected:
  void say(const QString& text) { answer_->setText(text); }
  bool eventFilter(QObject* watched, QEvent* event) override;
  virtual void step(bool) {}  // Enter; Shift+Enter: back
  virtual void leave();

 private:
  QLineEdit* line_;
  QLabel* answer_;
};

// Emphasises matches; Enter goes from one to the next.
class FindBar : public LineBar {
  Q_OBJECT
 public:
  FindBar(Session& session, QWidget* parent);

 protected:
  void step(bool back) override;
  void leave() override;

 private:
  void find();

  Session& session_;
  Found found_;
  std::size_t at_ = 0;  // one more than the index of the shown match
};

// Shows only tracks whose name contains the text.
class FilterBar : public LineBar {
  Q_OBJECT
 public:
  FilterBar(Session& session, QWidget* parent);

 protected:
  void leave() override;

 private:
  void filter(const QString& text);
  void follow();

  Session& session_;
};

}  // namespace pipesim::gui
