// Reads and compares in the background, one thing at a time.
//
// Owned by the window; its functions are called on the window's thread, where
// its signals arrive, too. Each work gets a thread of its own. What is given up
// runs out unheard; only the destructor waits for it.
#pragma once

#include <QObject>
#include <atomic>
#include <functional>
#include <map>
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
  bool busy() const { return current_ != none; }

 signals:
  void progressed(double fraction, const QString& what);
  void finished(std::shared_ptr<pipesim::gui::Opened> opened);
  void failed(const QString& sentence);
  void cancelled();
  void ended();  // just before each of the three: busy() no more

 private:
  struct Job {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> given_up = std::make_shared<std::atomic<bool>>(false);
  };
  static constexpr int none = 0;

  void give_up();
  // The last that is heard of a job.
  void end(int number, const std::shared_ptr<Opened>& result, const QString& sentence);

  std::map<int, Job> jobs_;  // by number: what goes on, and what was given up but still runs
  int current_ = none;
  int last_ = none;
};

}  // namespace pipesim::gui
