// Coloured bars above the timeline with warnings and errors; each can be
// closed.
//
// Owned by the window; on its thread.
#pragma once

#include <QStringList>
#include <QWidget>

class QVBoxLayout;

namespace pipesim::gui {

class Banners : public QWidget {
  Q_OBJECT
 public:
  explicit Banners(QWidget* parent);

  // Below those that are there; the same words once only.
  void add(const QString& sentence);
  void clear();
  QStringList sentences() const;

 private:
  void remove(QWidget* bar);

  QVBoxLayout* column_;
};

}  // namespace pipesim::gui
