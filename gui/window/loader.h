// Reads and compares in the background, one thing at a time.
//
// Owned by the window; its functions are called on the window's thread, where
// its signals arrive, too. The work gets a thread of its own, which the destructor
// has give up and waits for.
#pragma once

#include <QObject>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "gui/window/session.h"

namespace pipesim::gui {

class Loader : public QObject {
  Q_OBJECT
 public:
  explicit Loader(QObject* parent = nullptr) : QObject(parent) {}
  ~Loader() override;

  // Makes a document by `work` and its scene. What goes on already is given up.
  void start(std::function<Document(const Report&)> work, const SceneOptions& options);
  void cancel();
  bool busy() const { return thread_.joinable(); }

 signals:
  void progressed(double fraction, const QString& what);
  void finished(std::shared_ptr<pipesim::gui::Opened> opened);
  void failed(const QString& sentence);
  void cancelled();
  void ended();  // just before each of the three: busy() no more

 private:
  void stop();
  void end();

  std::thread thread_;
  std::shared_ptr<std::atomic<bool>> given_up_;
  int job_ = 0;  // what comes from older ones is passed over
};

}  // namespace pipesim::gui
