// A disk that fails, or a process that is struck, at a step that is told by number: to be loaded
// before a program (LD_PRELOAD).
//
//   PIPESIM_FAULT_FOLDER  what is done to files below it counts
//   PIPESIM_FAULT_AT      the step that fails, from 1; of a write half is done
//   PIPESIM_FAULT         kill, stop, term or usr1: that signal; full: from then on there is no
//                         room; readonly: from then on names stay as they are
//   PIPESIM_FAULT_ON      disk: counts steps of files; clock: looks at the clock, as training does;
//                         timer: microseconds after the first step of files, whatever is done then
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace {

enum class Fault { none, kill, stop, term, usr1, full, readonly };
enum class On { disk, clock, timer };
enum class Call { name, room, sync };  // changes a name, takes room too, or does neither

struct Plan {
  Fault fault = Fault::none;
  long at = 0;
  On on = On::disk;
  const char* folder = nullptr;

  Plan() {
    const char* what = std::getenv("PIPESIM_FAULT");
    const char* number = std::getenv("PIPESIM_FAULT_AT");
    const char* counted = std::getenv("PIPESIM_FAULT_ON");
    folder = std::getenv("PIPESIM_FAULT_FOLDER");
    if (what == nullptr || number == nullptr || folder == nullptr) return;
    constexpr std::array<const char*, 7> names{"none", "kill", "stop",    "term",
                                               "usr1", "full", "readonly"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (std::strcmp(what, names[i]) == 0) fault = static_cast<Fault>(i);
    }
    at = std::atol(number);
    if (counted != nullptr && std::strcmp(counted, "clock") == 0) on = On::clock;
    if (counted != nullptr && std::strcmp(counted, "timer") == 0) on = On::timer;
  }
  bool covers(const char* path) const {
    return folder != nullptr && std::strncmp(path, folder, std::strlen(folder)) == 0;
  }
};

const Plan& plan() {
  static const Plan own;
  return own;
}

std::atomic<long> steps = 0;
std::array<std::atomic<bool>, 1024> is_ours{};  // by descriptor

// 0: the fault is no signal.
int signal_of(Fault fault) {
  switch (fault) {
    case Fault::kill: return SIGKILL;
    case Fault::stop: return SIGSTOP;
    case Fault::term: return SIGTERM;
    case Fault::usr1: return SIGUSR1;
    default: return 0;
  }
}

void strike() {
  if (const int signal = signal_of(plan().fault); signal != 0) ::kill(::getpid(), signal);
}

void strike_later(long microseconds) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = signal_of(plan().fault);
  timer_t timer{};
  itimerspec once{};
  once.it_value = {microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
      ::timer_settime(timer, 0, &once, nullptr) != 0) {
    std::abort();
  }
}

// Counts a step; whether this is the one that is struck.
bool is_struck() {
  if (plan().on == On::timer && ++steps == 1) strike_later(plan().at);
  return plan().on == On::disk && ++steps == plan().at;
}

// Whether a step fails, with errno set.
bool fails(Call call) {
  if (is_struck()) strike();
  if (plan().on != On::disk || plan().at == 0 || steps < plan().at) return false;
  if (plan().fault == Fault::full && call == Call::room) {
    errno = ENOSPC;
    return true;
  }
  if (plan().fault == Fault::readonly && call != Call::sync) {
    errno = EROFS;
    return true;
  }
  return false;
}

template <typename Function>
Function next(const char* name, Function /*like*/) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

int open_by(int (*real)(const char*, int, ...), const char* path, int flags, unsigned mode) {
  const bool counts = plan().covers(path) && (flags & O_CREAT) != 0;
  if (counts && fails(Call::room)) return -1;
  const int file = real(path, flags, mode);
  const bool syncs = plan().covers(path) && (flags & O_DIRECTORY) != 0;
  if (file >= 0 && static_cast<std::size_t>(file) < is_ours.size()) {
    is_ours[static_cast<std::size_t>(file)] = counts || syncs;
  }
  return file;
}

bool counts(int file) {
  return file >= 0 && static_cast<std::size_t>(file) < is_ours.size() &&
         is_ours[static_cast<std::size_t>(file)];
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(list, unsigned) : 0;
  va_end(list);
  return open_by(next("open", static_cast<int (*)(const char*, int, ...)>(nullptr)), path, flags,
                 mode);
}

int open64(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(list, unsigned) : 0;
  va_end(list);
  return open_by(next("open64", static_cast<int (*)(const char*, int, ...)>(nullptr)), path, flags,
                 mode);
}

ssize_t write(int file, const void* bytes, std::size_t size) {
  const auto real = next("write", static_cast<ssize_t (*)(int, const void*, std::size_t)>(nullptr));
  if (!counts(file)) return real(file, bytes, size);
  if (is_struck()) {
    const ssize_t done = real(file, bytes, size / 2);
    static_cast<void>(done);
    strike();
    if (plan().fault != Fault::full) {
      return done + real(file, static_cast<const char*>(bytes) + size / 2, size - size / 2);
    }
  }
  if (plan().fault == Fault::full && plan().on == On::disk && plan().at > 0 && steps >= plan().at) {
    errno = ENOSPC;
    return -1;
  }
  return real(file, bytes, size);
}

int fsync(int file) {
  if (counts(file) && fails(Call::sync)) return -1;
  return next("fsync", static_cast<int (*)(int)>(nullptr))(file);
}

int mkdir(const char* path, mode_t mode) {
  if (plan().covers(path) && fails(Call::room)) return -1;
  return next("mkdir", static_cast<int (*)(const char*, mode_t)>(nullptr))(path, mode);
}

int rename(const char* from, const char* to) {
  if (plan().covers(from) && fails(Call::name)) return -1;
  return next("rename", static_cast<int (*)(const char*, const char*)>(nullptr))(from, to);
}

int unlink(const char* path) {
  if (plan().covers(path) && fails(Call::name)) return -1;
  return next("unlink", static_cast<int (*)(const char*)>(nullptr))(path);
}

int rmdir(const char* path) {
  if (plan().covers(path) && fails(Call::name)) return -1;
  return next("rmdir", static_cast<int (*)(const char*)>(nullptr))(path);
}

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto real =
      next("clock_gettime", static_cast<int (*)(clockid_t, timespec*)>(nullptr));
  if (plan().on == On::clock && ++steps == plan().at) strike();
  return real(clock, time);
}

}  // extern "C"
