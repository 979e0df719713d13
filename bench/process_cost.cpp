// Runs a command again and again and reports what the whole process costs:
// wall time (least and median) and peak memory, as the kernel accounts them.
//
//   process_cost [-n RUNS] COMMAND [ARGUMENT...]
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct Cost {
  double wall_ms;
  double peak_mib;
};

// Exits where the command fails: its cost would mean nothing.
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
  return {wall.count(), static_cast<double>(usage.ru_maxrss) / 1024};
}

}  // namespace

int main(int argc, char** argv) {
  int runs = 11;
  int first = 1;
  if (argc > 2 && std::strcmp(argv[1], "-n") == 0) {
    runs = std::atoi(argv[2]);
    first = 3;
  }
  if (first >= argc || runs < 1) {
    std::fprintf(stderr, "usage: process_cost [-n RUNS] COMMAND [ARGUMENT...]\n");
    return 2;
  }
  measure(argv + first);  // the first run pays for reading the program
  std::vector<double> walls;
  double peak = 0;
  for (int i = 0; i < runs; ++i) {
    const Cost cost = measure(argv + first);
    walls.push_back(cost.wall_ms);
    peak = std::max(peak, cost.peak_mib);
  }
  std::sort(walls.begin(), walls.end());
  std::printf("least %.1f ms, median %.1f ms, peak %.1f MiB\n", walls.front(),
              walls[walls.size() / 2], peak);
  return 0;
}
