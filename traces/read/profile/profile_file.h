// One file of PyTorch's profiler: what in it has to do with a pipeline.
//
// Kineto's dialect through the years: categories in lower or upper case, "External
// id" or "external id", times since 1970 or by a base. Values own what they hold;
// any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "traces/read/profile/range_name.h"
#include "traces/read/progress.h"
#include "traces/warnings.h"

namespace pipesim {

// Times are nanoseconds, since 1970 where the file tells, else by its own zero.
struct ProfileRange {
  RangeName name;
  int thread = 0;  // of the file's
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// On a processor: a message is handed over ("c10d::send"), or under way, from
// there until its rank has waited for it ("gloo:send").
struct ProfileMessage {
  int thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool sends = false;
};

// A kernel, a copy or a fill on a device.
struct ProfileKernel {
  enum class Message : std::uint8_t { none, send, receive };

  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t correlation = -1;  // with its launch
  std::int64_t external_id = -1;  // of the operator that launched it
  std::int64_t bytes = 0;         // of a collective: what it moves, where known
  bool computes = false;          // a kernel, neither a copy nor of NCCL
  bool collective = false;        // of NCCL
  Message message = Message::none;
};

// Where on the processor something on the device began.
struct ProfileOrigin {
  std::int64_t id = 0;
  std::int64_t time_ns = 0;
  int thread = 0;
};

struct ProfileFile {
  struct Process {
    std::string pid;
    std::string name;
  };
  struct Thread {
    int process = 0;
    std::string tid;
  };

  std::string path;
  std::optional<int> rank;    // as the file says
  int world_size = 0;         // 0 where it does not say
  std::vector<int> pipeline;  // the job's ranks in the process group of its pipeline, if it says
  std::set<int> peers;        // the job's ranks that it exchanged messages of a pipeline with
  std::string backend, host, device;
  bool since_1970 = false;

  std::vector<Process> processes;
  std::vector<Thread> threads;
  // In the order of the file.
  std::vector<ProfileRange> ranges;
  std::vector<ProfileMessage> messages;
  std::vector<ProfileKernel> kernels;
  std::vector<ProfileOrigin> launches, operators, flows;

  std::int64_t events = 0;
  std::map<std::string, std::int64_t> categories;  // events of each
  std::map<std::string, std::int64_t> turns;       // ranges of each name
};

// What stands before the events alone: rank, world_size and pipeline, as far as they do.
ProfileFile read_profile_head(const std::string& path);

ProfileFile read_profile_file(const std::string& path, Warnings& warnings,
                              const ReadProgress& progress = {});

}  // namespace pipesim
