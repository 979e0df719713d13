#include "exec/supervise/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "exec/run/clock.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr std::array ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

timespec timespec_of(std::int64_t ns) {
  constexpr std::int64_t second = 1'000'000'000;
  timespec time{};
  time.tv_sec = static_cast<time_t>(ns / second);
  time.tv_nsec = static_cast<long>(ns % second);
  return time;
}

// Parses a process's line in /proc: "id (name) state parent ..."; the name may contain anything.
std::optional<RunningProcess> parse_process(const std::string& line) {
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  RunningProcess process;
  char state = 0;
  std::istringstream behind(line.substr(close + 1));
  if (!(behind >> state >> process.parent) || state == 'Z' || state == 'X') return std::nullopt;
  process.id = static_cast<pid_t>(std::atoi(line.c_str()));
  process.name = line.substr(open + 1, close - open - 1);
  return process;
}

// Whether it is a pipe whose reader has gone.
bool has_no_reader(int output) {
  pollfd asked{output, 0, 0};
  return ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLERR) != 0;
}

// Everything is prepared before the fork: only few functions are safe after it.
[[noreturn]] void become(const std::vector<char*>& words, const std::vector<char*>& environment,
                         const std::vector<std::string>& paths, int nothing, int output,
                         int failures, pid_t parent, const sigset_t& signals) {
  const auto fail = [&] {
    const int error = errno;
    const ssize_t wrote = ::write(failures, &error, sizeof(error));
    ::_exit(wrote < 0 ? 126 : 127);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  if (::dup2(nothing, STDIN_FILENO) < 0) fail();
  if (output >= 0 && ::dup2(output, STDOUT_FILENO) < 0) fail();
  // Its first line would end a launcher or a shell's script.
  for (const int printed : {STDOUT_FILENO, STDERR_FILENO}) {
    if (has_no_reader(printed) && ::dup2(nothing, printed) < 0) fail();
  }
  std::signal(SIGXFSZ, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  int error = ENOENT;
  for (const std::string& path : paths) {
    ::execve(path.c_str(), words.data(), environment.data());
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
  }
  errno = error;
  fail();
  ::_exit(127);
}

// Where a program may be, in the order of PATH.
std::vector<std::string> places_of(const std::string& program) {
  if (program.find('/') != std::string::npos) return {program};
  const char* path = std::getenv("PATH");
  std::vector<std::string> places;
  for (const std::string_view folder : split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    places.push_back(fmt::format("{}/{}", folder.empty() ? "." : folder, program));
  }
  return places;
}

std::vector<std::string> variables_with(
    const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable = *at;
    const std::string_view name = variable.substr(0, variable.find('='));
    const auto is_new = [&](const auto& one) { return one.first == name; };
    if (std::ranges::none_of(more, is_new)) variables.emplace_back(variable);
  }
  for (const auto& [name, value] : more) variables.push_back(name + "=" + value);
  return variables;
}

// Ends with a null, and points into the texts.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

class OwnedFile {
 public:
  explicit OwnedFile(int file) : file_(file) {}
  ~OwnedFile() { reset(); }
  OwnedFile(const OwnedFile&) = delete;
  OwnedFile& operator=(const OwnedFile&) = delete;
  int get() const { return file_; }
  void reset() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

 private:
  int file_;
};

}  // namespace

std::string Ending::text() const {
  if (signal == 0) return fmt::format("exit status {}", status);
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

Processes::Processes() {
  ::sigemptyset(&awaited_);
  ::sigaddset(&awaited_, SIGCHLD);
  std::signal(SIGCHLD, SIG_DFL);
  for (const int signal : ending_signals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&awaited_, signal);  // as for nohup
  }
  ::sigprocmask(SIG_BLOCK, &awaited_, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Processes::~Processes() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

pid_t Processes::start(const ProcessStart& what) {
  std::vector<std::string> own_words = what.words;
  std::vector<std::string> variables = variables_with(what.environment);
  const std::vector<char*> words = pointers_to(own_words);
  const std::vector<char*> environment = pointers_to(variables);
  const std::vector<std::string> paths = places_of(what.words.front());
  const auto fail = [&](int error) {
    return input_error(fmt::format("cannot run {}: {}; is it on the path?",
                                   quote(what.words.front()), std::strerror(error)));
  };
  const OwnedFile nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw fail(errno);
  const OwnedFile told(ends[0]);
  OwnedFile failures(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw fail(errno);
  if (child == 0) {
    become(words, environment, paths, nothing.get(), what.output, failures.get(), parent, before_);
  }
  failures.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(told.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof(error))) {
    ::waitpid(child, nullptr, 0);
    throw fail(error);
  }
  started_[child] = std::nullopt;
  return child;
}

std::optional<int> Processes::wait(std::int64_t at_most_ns) {
  const std::int64_t until = Clock::monotonic_ns() + at_most_ns;
  for (;;) {
    const timespec time = timespec_of(std::max<std::int64_t>(until - Clock::monotonic_ns(), 0));
    const int signal = ::sigtimedwait(&awaited_, nullptr, &time);
    if (signal < 0 && errno == EINTR) continue;
    if (signal > 0 && signal != SIGCHLD) return signal;
    reap();
    return std::nullopt;
  }
}

// Orphans, too.
void Processes::reap() {
  for (;;) {
    int status = 0;
    const pid_t id = ::waitpid(-1, &status, WNOHANG);
    if (id <= 0) return;
    const auto found = started_.find(id);
    if (found == started_.end()) continue;
    found->second =
        WIFSIGNALED(status) ? Ending{0, WTERMSIG(status)} : Ending{WEXITSTATUS(status), 0};
  }
}

std::optional<Ending> Processes::ending_of(pid_t id) {
  reap();
  const auto found = started_.find(id);
  return found == started_.end() ? std::nullopt : found->second;
}

std::vector<RunningProcess> Processes::all() {
  std::vector<RunningProcess> all;
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc", failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(at->path() / "stat");
    std::string line;
    // A name may contain line feeds.
    for (std::string part; std::getline(file, part);) line += part;
    if (const auto process = parse_process(line)) all.push_back(*process);
  }
  return all;
}

std::vector<RunningProcess> Processes::tree_of(pid_t id) {
  const std::vector<RunningProcess> all = Processes::all();
  std::vector<RunningProcess> tree;
  for (const RunningProcess& process : all) {
    if (process.id == id) tree.push_back(process);
  }
  std::set<pid_t> seen{id};
  std::vector<pid_t> open{id};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (const RunningProcess& process : all) {
      if (process.parent != parent || !seen.insert(process.id).second) continue;
      tree.push_back(process);
      open.push_back(process.id);
    }
  }
  return tree;
}

std::size_t Processes::kill_all(std::int64_t at_most_ns) {
  const std::int64_t until = Clock::monotonic_ns() + at_most_ns;
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  for (;;) {
    reap();
    for (const auto& [id, ending] : started_) {
      if (!ending) ::kill(-id, SIGKILL);
    }
    std::size_t left = 0;
    for (const RunningProcess& process : tree_of(::getpid())) {
      if (process.id == ::getpid()) continue;
      ::kill(process.id, SIGKILL);
      ++left;
    }
    const std::int64_t now = Clock::monotonic_ns();
    if (left == 0 || now >= until) {
      reap();
      return left;
    }
    const timespec time = timespec_of(until - now);
    ::sigtimedwait(&children, nullptr, &time);
  }
}

}  // namespace pipesim::exec
