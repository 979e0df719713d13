// A disk that fails, or a process that is struck, at a step that is told by number: to be loaded
// before a program (LD_PRELOAD).
//
//   PIPESIM_FAULT_FOLDER  what is done to files below it counts
//   PIPESIM_FAULT_AT      the step that fails, from 1; of a write half is done
//   PIPESIM_FAULT         kill, stop or term: that signal; full: from then on there is no room;
//                         readonly: from then on names stay as they are
//   PIPESIM_FAULT_ON      disk: counts steps of files; clock: looks at the clock, as training does
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

enum class Fault { none, kill, stop, term, full, readonly };
enum class Call { name, room, sync };  // changes a name, takes room too, or does neither

struct Plan {
  Fault fault = Fault::none;
  long at = 0;
  bool by_clock = false;
  const char* folder = nullptr;

  Plan() {
    const char* what = std::getenv("PIPESIM_FAULT");
    const char* number = std::getenv("PIPESIM_FAULT_AT");
    const char* on = std::getenv("PIPESIM_FAULT_ON");
    folder = std::getenv("PIPESIM_FAULT_FOLDER");
    if (what == nullptr || number == nullptr || folder == nullptr) return;
    constexpr std::array<const char*, 6> names{"none", "kill", "stop", "term", "full", "readonly"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (std::strcmp(what, names[i]) == 0) fault = static_cast<Fault>(i);
    }
    at = std::atol(number);
    by_clock = on != nullptr && std::strcmp(on, "clock") == 0;
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

void strike() {
  switch (plan().fault) {
    case Fault::kill: ::raise(SIGKILL); break;
    case Fault::stop: ::kill(::getpid(), SIGSTOP); break;
    case Fault::term: ::kill(::getpid(), SIGTERM); break;
    default: break;
  }
}

// Counts a step; whether this is the one that is struck.
bool is_struck() { return !plan().by_clock && ++steps == plan().at; }

// Whether a step fails, with errno set.
bool fails(Call call) {
  if (is_struck()) strike();
  if (plan().by_clock || plan().at == 0 || steps < plan().at) return false;
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
  if (plan().fault == Fault::full && !plan().by_clock && plan().at > 0 && steps >= plan().at) {
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
  if (plan().by_clock && ++steps == plan().at) strike();
  return real(clock, time);
}

}  // extern "C"
