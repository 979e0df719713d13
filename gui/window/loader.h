// Reads and compares in the background, one thing at a time.
//
// Owned by the window; its functions are called on the window's thread, where
// its signals arrive, too. Each job gets its own thread. A cancelled job
// runs to its end unnoticed; only the destructor waits for it.
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

  // Makes a document by `work` and its scene. Cancels the running job.
  void start(std::function<Document(const Report&)> work, const SceneOptions& options);
  void cancel();
  bool busy() const { return current_ != none; }

 signals:
  void progressed(double fraction, const QString& what);
  void finished(std::shared_ptr<pipesim::gui::Opened> opened);
  void failed(const QString& sentence);
  void cancelled();
  void ended();  // just before each of the three; busy() is false

 private:
  struct Job {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> given_up = std::make_shared<std::atomic<bool>>(false);
  };
  static constexpr int none = 0;

  void give_up();
  // Called at the end of a job.
  void end(int number, const std::shared_ptr<Opened>& result, const QString& sentence);

  std::map<int, Job> jobs_;  // by number: the running job, and cancelled ones that still run
  int current_ = none;
  int last_ = none;
};

}  // namespace pipesim::gui
