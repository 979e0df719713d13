#include "exec/cli/signal_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "exec/cli/stop_signal.h"
#include "exec/supervise/supervisor.h"
#include "traces/base/threads.h"

namespace pipesim::exec {
namespace {

// Of StopSignal and PartFile.
constexpr std::array handled_signals{SIGTERM, SIGUSR1, SIGINT, SIGHUP};

// Until `over`: handles signals, and stops the run when its supervisor has ended.
void stand_by(const sigset_t& signals, int over) {
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  const Supervisor supervisor;
  std::array<pollfd, 2> awaited{{{over, POLLIN, 0}, {supervisor.descriptor(), POLLIN, 0}}};
  for (;;) {
    if (::poll(awaited.data(), awaited.size(), -1) < 0 && errno != EINTR) return;
    if (awaited[0].revents != 0) return;
    if (awaited[1].revents == 0) continue;
    StopSignal::receive(SIGTERM);
    awaited[1].fd = -1;
  }
}

}  // namespace

SignalThread::SignalThread() : over_(::eventfd(0, EFD_CLOEXEC)) {
  constexpr const char* purpose = "to handle signals";
  if (over_ < 0) throw thread_error(purpose, {errno, std::generic_category()});
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int signal : handled_signals) ::sigaddset(&handled, signal);
  ::pthread_sigmask(SIG_BLOCK, &handled, &before_);
  try {
    thread_ = std::thread(stand_by, before_, over_);
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    ::close(over_);
    throw thread_error(purpose, error);
  }
}

SignalThread::~SignalThread() {
  ::eventfd_write(over_, 1);
  thread_.join();
  ::close(over_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace pipesim::exec
