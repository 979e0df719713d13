#include "gui/window/loader.h"

#include <QMetaObject>
#include <chrono>
#include <new>
#include <utility>

#include "traces/base/error.h"

namespace pipesim::gui {
namespace {

// Between two reports to the window, at least.
constexpr std::chrono::milliseconds pause{30};

}  // namespace

Loader::~Loader() { stop(); }

void Loader::stop() {
  if (!thread_.joinable()) return;
  *given_up_ = true;
  thread_.join();
}

void Loader::end() {
  thread_.join();
  emit ended();
}

void Loader::cancel() {
  if (given_up_) *given_up_ = true;
}

void Loader::start(std::function<Document(const Report&)> work, const SceneOptions& options) {
  stop();
  given_up_ = std::make_shared<std::atomic<bool>>(false);
  const int job = ++job_;
  // To the window's thread, where it still matters.
  const auto tell = [this, job](auto&& then) {
    QMetaObject::invokeMethod(
        this,
        [this, job, then = std::forward<decltype(then)>(then)] {
          if (job == job_) then();
        },
        Qt::QueuedConnection);
  };
  const auto fail = [this, tell](const std::string& sentence) {
    tell([this, sentence] {
      end();
      emit failed(QString::fromStdString(sentence));
    });
  };
  thread_ = std::thread([this, work = std::move(work), options, given_up = given_up_, tell, fail] {
    auto last = std::chrono::steady_clock::now() - pause;
    const Report report = [&](double fraction, const std::string& what) {
      const auto now = std::chrono::steady_clock::now();
      if (now - last >= pause) {
        last = now;
        tell([this, fraction, what] { emit progressed(fraction, QString::fromStdString(what)); });
      }
      return !*given_up;
    };
    try {
      auto result = std::make_shared<Opened>(opened(work(report), options));
      if (*given_up) throw Cancelled{};
      tell([this, result] {
        end();
        emit finished(result);
      });
    } catch (const Cancelled&) {
      tell([this] {
        end();
        emit cancelled();
      });
    } catch (const Error& error) {
      fail(error.what());
    } catch (const std::bad_alloc&) {
      fail("out of memory; open fewer or smaller traces");
    }
  });
}

}  // namespace pipesim::gui
