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

  // Adds one below the existing ones; each text only once.
  void add(const QString& sentence);
  void clear();
  QStringList sentences() const;

 private:
  void remove(QWidget* bar);

  QVBoxLayout* column_;
};

}  // namespace pipesim::gui
