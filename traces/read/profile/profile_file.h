// One file of PyTorch's profiler: the parts that matter for a pipeline.
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

// Times are nanoseconds, since 1970 if the file says so, else from its own zero.
struct ProfileRange {
  RangeName name;
  int thread = 0;  // index in ProfileFile::threads
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// On a processor: a message is handed over ("c10d::send"), or in flight, from there until its rank
// has waited for it ("gloo:send").
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
  std::int64_t bytes = 0;         // of a collective: bytes moved, if known
  bool computes = false;          // a kernel, neither a copy nor NCCL's
  bool collective = false;        // NCCL's
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
  std::optional<int> rank;    // from the file
  int world_size = 0;         // 0 if unknown
  std::vector<int> pipeline;  // the job's ranks in the process group of its pipeline, if known
  std::set<int> peers;        // the job's ranks with which it exchanged messages of a pipeline
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

// Reads only the part before the events: rank, world_size and pipeline, as far as they are there.
ProfileFile read_profile_head(const std::string& path);

ProfileFile read_profile_file(const std::string& path, Warnings& warnings,
                              const ReadProgress& progress = {});

}  // namespace pipesim
