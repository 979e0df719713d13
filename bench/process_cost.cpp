// Runs a command repeatedly and reports the cost of the whole process: wall time (least and
// median), least processor time, and peak memory, as accounted by the kernel. Several commands
// alternate, with one line each, so that other load on the machine affects all of them equally.
//
//   process_cost [-n RUNS] COMMAND [ARGUMENT...] [, COMMAND [ARGUMENT...]]...
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace {

struct Cost {
  double wall_ms;
  double cpu_ms;
  double peak_mib;
};

double in_ms(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

// Exits if the command fails: its cost would be meaningless.
Cost measure(char** command) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, 1);
    ::execvp(command[0], command);
    std::perror(command[0]);
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "process_cost: %s failed\n", command[0]);
    std::exit(1);
  }
  return {wall.count(), in_ms(usage.ru_utime) + in_ms(usage.ru_stime),
          static_cast<double>(usage.ru_maxrss) / 1024};
}

// The commands between commas. Each is terminated by a null in place of its comma.
std::vector<char**> commands_of(char** arguments) {
  std::vector<char**> commands;
  for (bool begins = true; *arguments != nullptr; ++arguments) {
    if (std::strcmp(*arguments, ",") == 0) {
      *arguments = nullptr;
      begins = true;
    } else if (std::exchange(begins, false)) {
      commands.push_back(arguments);
    }
  }
  return commands;
}

void report(const std::vector<Cost>& costs) {
  std::vector<double> walls;
  double cpu = costs.front().cpu_ms;
  double peak = 0;
  for (const Cost& cost : costs) {
    walls.push_back(cost.wall_ms);
    cpu = std::min(cpu, cost.cpu_ms);
    peak = std::max(peak, cost.peak_mib);
  }
  std::sort(walls.begin(), walls.end());
  const double median = walls[walls.size() / 2];
  const int digits = median < 100 ? 2 : 1;
  std::printf("least %.*f ms, median %.*f ms, processors %.*f ms, peak %.1f MiB\n", digits,
              walls.front(), digits, median, digits, cpu, peak);
}

}  // namespace

int main(int argc, char** argv) {
  int runs = 11;
  int first = 1;
  if (argc > 2 && std::strcmp(argv[1], "-n") == 0) {
    runs = std::atoi(argv[2]);
    first = 3;
  }
  const std::vector<char**> commands = commands_of(argv + first);
  if (commands.empty() || runs < 1) {
    std::fprintf(
        stderr,
        "usage: process_cost [-n RUNS] COMMAND [ARGUMENT...] [, COMMAND [ARGUMENT...]]...\n");
    return 2;
  }
  std::vector<std::vector<Cost>> costs(commands.size());
  for (char** command : commands) measure(command);  // the first run loads the program from disk
  for (int i = 0; i < runs; ++i) {
    for (std::size_t which = 0; which < commands.size(); ++which) {
      costs[which].push_back(measure(commands[which]));
    }
  }
  for (const std::vector<Cost>& of_one : costs) report(of_one);
  return 0;
}
