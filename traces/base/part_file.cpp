#include "traces/base/part_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

namespace pipesim {
namespace {

// State that a signal handler may read: it may interrupt anything.
struct Slot {
  enum State : int { empty, filling, filled };
  std::atomic<int> state = empty;
  char name[PATH_MAX] = {};
};
static_assert(std::atomic<int>::is_always_lock_free);
std::array<Slot, 16> slots;

extern "C" void remove_parts(int signal) {
  for (const Slot& slot : slots) {
    if (slot.state == Slot::filled) ::unlink(slot.name);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void remove_parts_on(int signal) {
  struct sigaction action {};
  action.sa_handler = remove_parts;
  ::sigaction(signal, &action, nullptr);
}

namespace {

bool handle_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    remove_parts_on(signal);
  }
  return true;
}

std::optional<std::size_t> fill_slot(const std::string& name) {
  if (name.size() >= PATH_MAX) return std::nullopt;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = Slot::empty;
    if (!slots[i].state.compare_exchange_strong(expected, Slot::filling)) continue;
    std::memcpy(slots[i].name, name.c_str(), name.size() + 1);
    slots[i].state = Slot::filled;
    return i;
  }
  return std::nullopt;
}

}  // namespace

PartFile::PartFile(std::string name) : name_(std::move(name)), slot_(fill_slot(name_)) {
  static const bool handled = handle_signals();
  static_cast<void>(handled);
}

PartFile::~PartFile() {
  if (!name_.empty()) ::unlink(name_.c_str());
  forget();
}

void PartFile::forget() {
  name_.clear();
  if (slot_) slots[*slot_].state = Slot::empty;
  slot_.reset();
}

}  // namespace pipesim
