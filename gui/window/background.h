// Work beside the window's thread, of which only what was started last counts.
//
// Owned by a part of the window; its functions are called on the window's thread. Each work gets
// its own thread. One that does not count any more runs to its end unnoticed; only the destructor
// waits for it.
#pragma once

#include <QObject>
#include <functional>
#include <map>
#include <thread>

namespace pipesim::gui {

class Background : public QObject {
 public:
  // What is left to be done on the window's thread.
  using Rest = std::function<void()>;

  explicit Background(QObject* parent = nullptr) : QObject(parent) {}
  ~Background() override;

  // `work` must not throw. Where there is no thread for it, it is done at once.
  void start(std::function<Rest()> work);
  // What was started last does not count.
  void drop() { current_ = none; }
  bool busy() const { return current_ != none; }
  // Until nothing is left.
  void wait();

 private:
  static constexpr int none = 0;

  void end(int number, const Rest& rest);

  std::map<int, std::thread> threads_;  // by number
  int current_ = none;
  int last_ = none;
};

}  // namespace pipesim::gui
