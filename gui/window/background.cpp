#include "gui/window/background.h"

#include <QCoreApplication>
#include <QMetaObject>
#include <system_error>
#include <utility>

namespace pipesim::gui {

Background::~Background() {
  for (auto& [number, thread] : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Background::start(std::function<Rest()> work) {
  const int number = current_ = ++last_;
  const auto run = [this, number, work = std::move(work)] {
    const Rest rest = work();
    QMetaObject::invokeMethod(
        this, [this, number, rest] { end(number, rest); }, Qt::QueuedConnection);
  };
  try {
    threads_.emplace(number, run);
  } catch (const std::system_error&) {
    run();
  }
}

void Background::end(int number, const Rest& rest) {
  if (const auto thread = threads_.find(number); thread != threads_.end()) {
    if (thread->second.joinable()) thread->second.join();
    threads_.erase(thread);
  }
  if (number != current_) return;
  current_ = none;
  rest();
}

void Background::wait() {
  if (const auto thread = threads_.find(current_); thread != threads_.end()) thread->second.join();
  if (busy()) QCoreApplication::sendPostedEvents(this, QEvent::MetaCall);
}

}  // namespace pipesim::gui
