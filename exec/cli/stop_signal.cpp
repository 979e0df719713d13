#include "exec/cli/stop_signal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <vector>

#include "exec/transport/collectives.h"
#include "traces/base/part_file.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {
namespace {

constexpr std::array<int, 2> signals{SIGTERM, SIGUSR1};

// A handler can access nothing else.
std::atomic<int> number = 0;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void take_down(int signal) {
  number = signal;
  remove_parts_on(signal);
}

void handle(void (*handler)(int)) {
  for (const int signal : signals) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

StopSignal::StopSignal() {
  number = 0;
  handle(take_down);
}

StopSignal::~StopSignal() { handle(SIG_DFL); }

std::optional<int> StopSignal::received() {
  const int signal = number;
  return signal == 0 ? std::nullopt : std::optional(signal);
}

void StopSignal::receive(int signal) { number = signal; }

void warn_of_damage(const std::string& damage) {
  complain(fmt::format("pipeexec: passes over a checkpoint: {}\n", printable(damage)));
}

int tell_stop(Transport& transport, std::int64_t at, std::string_view what,
              const std::string& folder) {
  const std::vector<int> received = gather_value(transport, StopSignal::received().value_or(0));
  const auto first = std::ranges::find_if(received, [](int signal) { return signal != 0; });
  const int signal = broadcast_value(transport, first == received.end() ? SIGTERM : *first);
  if (transport.rank() != 0) return signal;
  complain(fmt::format(
      "pipeexec: stopped by signal {} after {} {}, which is saved; --resume {} continues\n", signal,
      what, at, printable(folder)));
  return signal;
}

}  // namespace pipesim::exec
