#include "gui/window/loader.h"

#include <QMetaObject>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "traces/base/error.h"

namespace pipesim::gui {
namespace {

// The least time between two reports to the window.
constexpr std::chrono::milliseconds pause{30};

}  // namespace

Loader::~Loader() {
  for (auto& [number, job] : jobs_) *job.given_up = true;
  for (auto& [number, job] : jobs_) {
    if (job.thread.joinable()) job.thread.join();
  }
}

void Loader::give_up() {
  if (busy()) *jobs_.at(current_).given_up = true;
  current_ = none;
}

void Loader::cancel() {
  if (!busy()) return;
  give_up();
  emit ended();
  emit cancelled();
}

void Loader::end(int number, const std::shared_ptr<Opened>& result, const QString& sentence) {
  const auto job = jobs_.find(number);
  if (job->second.thread.joinable()) job->second.thread.join();
  jobs_.erase(job);
  if (number != current_) return;
  current_ = none;
  emit ended();
  result ? emit finished(result) : emit failed(sentence);
}

void Loader::start(std::function<Document(const Report&)> work, const SceneOptions& options) {
  give_up();
  const int number = current_ = ++last_;
  Job& job = jobs_[number];
  // Posts to the window's thread.
  const auto tell = [this](auto then) {
    QMetaObject::invokeMethod(this, std::move(then), Qt::QueuedConnection);
  };
  const auto fail = [this, tell, number](const QString& sentence) {
    tell([this, number, sentence] { end(number, nullptr, sentence); });
  };
  const auto run = [this, work = std::move(work), options, given_up = job.given_up, number, tell,
                    fail] {
    auto last = std::chrono::steady_clock::now() - pause;
    const Report report = [&](double fraction, const std::string& what) {
      const auto now = std::chrono::steady_clock::now();
      if (now - last >= pause) {
        last = now;
        tell([this, number, fraction, what] {
          if (number == current_) emit progressed(fraction, QString::fromStdString(what));
        });
      }
      return !*given_up;
    };
    try {
      auto result = std::make_shared<Opened>(opened(work(report), options));
      tell([this, number, result] { end(number, result, {}); });
    } catch (const Cancelled&) {
      fail(tr("given up"));
    } catch (const std::bad_alloc&) {
      fail(tr("out of memory; open fewer or smaller traces"));
    } catch (const Error& error) {
      fail(QString::fromStdString(error.what()));
    } catch (const std::exception& error) {
      fail(tr("opening failed; please report it: %1").arg(error.what()));
    }
  };
  try {
    job.thread = std::thread(run);
  } catch (const std::exception& error) {
    fail(tr("no thread to open it in; close other programs: %1").arg(error.what()));
  }
}

}  // namespace pipesim::gui
