// PyTorch's profiles for tests: recorded ones, and small ones written by hand after
// what its profiler writes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/read/profile/kineto.h"
#include "traces/read/read_run.h"

namespace pipesim::testing {

using Json = nlohmann::json;
using Paths = std::vector<std::string>;

inline std::string recorded(const std::string& name) {
  return source_file("traces/recorded/" + name);
}
inline Paths ranks_of(const std::string& name) {
  return {recorded(name + ".rank0.json.gz"), recorded(name + ".rank1.json.gz")};
}

inline Json json_in(const std::string& path) {
  InputFile file(path);
  std::string text;
  char block[65536];
  for (std::size_t size = 0; (size = file.read(block, sizeof(block))) != 0;)
    text.append(block, size);
  return Json::parse(text);
}

inline std::string write(const TemporaryFolder& folder, const std::string& name,
                         const Json& trace) {
  write_file(folder / name, trace.dump());
  return folder / name;
}

inline std::string refusal_of(const Paths& paths, const ReadOptions& options = {}) {
  return input_error_of([&] { read_profile(paths, options); });
}

// What a rank did in an iteration, by start; transfers only where `transfers`.
inline std::vector<std::string> order_of(const RecordedRun& run, std::size_t iteration, int rank,
                                         bool transfers) {
  std::vector<std::string> order;
  for (const Span& span : run.spans_of(run.iterations[iteration])) {
    if (span.rank != rank) continue;
    const bool wanted = transfers ? is_transfer(span.action.kind) : is_compute(span.action.kind);
    if (wanted) order.push_back(to_text(span.action));
  }
  return order;
}

inline std::vector<std::string> row_of(const Schedule& schedule, int rank, bool transfers) {
  std::vector<std::string> row;
  for (const Action& action : schedule.actions[rank]) {
    const bool wanted = transfers ? is_transfer(action.kind) : is_compute(action.kind);
    if (wanted) row.push_back(to_text(action));
  }
  return row;
}

inline std::vector<std::string> sorted(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  return texts;
}

inline const Span& span_of(const RecordedRun& run, const std::string& action,
                           std::size_t iteration = 0) {
  static const Span none;
  for (const Span& span : run.spans_of(run.iterations[iteration])) {
    if (to_text(span.action) == action) return span;
  }
  ADD_FAILURE() << "no span of " << action;
  return none;
}

// A profile written by hand. Times in microseconds.
class Profile {
 public:
  explicit Profile(int rank, int ranks = 2) {
    trace_["distributedInfo"] = {{"backend", "nccl"}, {"rank", rank}, {"world_size", ranks}};
    trace_["deviceProperties"] = Json::array({{{"id", 0}, {"name", "NVIDIA H100"}}});
    trace_["baseTimeNanoseconds"] = 1'700'000'000'000'000'000;
    trace_["traceEvents"] = Json::array();
  }

  Profile& event(const std::string& category, const std::string& name, const Json& pid,
                 const Json& tid, double ts, double dur, const Json& args = Json::object()) {
    trace_["traceEvents"].push_back({{"ph", "X"},
                                     {"cat", category},
                                     {"name", name},
                                     {"pid", pid},
                                     {"tid", tid},
                                     {"ts", ts},
                                     {"dur", dur},
                                     {"args", args}});
    return *this;
  }
  Profile& range(const std::string& name, double ts, double dur) {
    return event("user_annotation", name, 100, 100, ts, dur);
  }
  // A launch on the processor, and its kernel on the device.
  Profile& kernel(double launched, double ts, double dur, int tid = 100,
                  const std::string& name = "gemm") {
    const int id = ++last_;
    event("cuda_runtime", "cudaLaunchKernel", 100, tid, launched, 1, {{"correlation", id}});
    return event("kernel", name, 0, 7, ts, dur, {{"correlation", id}});
  }
  Profile& message(double launched, double ts, double dur, const Json& args = Json::object()) {
    const int id = ++last_;
    Json all = args;
    all["correlation"] = id;
    event("cuda_runtime", "cudaLaunchKernelExC", 100, 100, launched, 1, {{"correlation", id}});
    return event("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 0, 20, ts,
                 dur, all);
  }
  Json& json() { return trace_; }

 private:
  Json trace_;
  int last_ = 10;
};

inline RecordedRun read(const std::vector<Json>& traces, const ReadOptions& options = {}) {
  const TemporaryFolder folder;
  Paths paths;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    paths.push_back(write(folder, "trace" + std::to_string(i) + ".json", traces[i]));
  }
  return read_profile(paths, options);
}

// The first line of a refusal, by the files' names alone.
inline std::string refusal(const std::vector<Json>& traces, const ReadOptions& options = {}) {
  const TemporaryFolder folder;
  Paths paths;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    paths.push_back(write(folder, "trace" + std::to_string(i) + ".json", traces[i]));
  }
  std::string text = refusal_of(paths, options);
  for (std::size_t at = 0; (at = text.find(folder.path().string())) != std::string::npos;) {
    text.erase(at, folder.path().string().size() + 1);
  }
  return text;
}

inline std::pair<std::int64_t, std::int64_t> times(const RecordedRun& run,
                                                   const std::string& action) {
  const Span& span = span_of(run, action);
  return {span.start_ns, span.end_ns};
}
using Times = std::pair<std::int64_t, std::int64_t>;

// Two ranks whose pids, tids, streams and correlations are the same.
inline std::vector<Json> two_ranks() {
  Profile first(0);
  first.range("PP:0F0", 1000, 50).kernel(1010, 1100, 40).kernel(1020, 1145, 55);
  first.range("PP:0SEND_F0", 1060, 10)
      .message(1062, 1200, 90,
               {{"Collective name", "send"},
                {"In msg nelems", 1000},
                {"Out msg nelems", 1000},
                {"dtype", "BFloat16"}});
  first.range("PP:0RECV_B0", 1070, 10).message(1072, 1290, 310);
  first.range("PP:0B0", 1085, 400).kernel(1300, 1610, 100, 300);  // of autograd's thread
  Profile second(1);
  second.range("PP:1RECV_F0", 1000, 10).message(1002, 1010, 275);
  second.range("PP:1F0", 1020, 50).kernel(1030, 1300, 100);
  second.range("PP:1B0", 1080, 400).kernel(1100, 1400, 150, 300).kernel(1120, 1552, 18, 300);
  second.range("PP:1SEND_B0", 1500, 10).message(1501, 1580, 30);
  return {first.json(), second.json()};
}

// The recorded 1F1B in another form.
struct Changed {
  TemporaryFolder folder;
  Json first = json_in(ranks_of("1f1b")[0]);
  Json second = json_in(ranks_of("1f1b")[1]);

  template <typename Change>
  void each(Change change) {
    change(first);
    change(second);
  }
  RecordedRun read(const std::string& one = "a.rank0.json",
                   const std::string& other = "a.rank1.json") {
    return read_profile({write(folder, one, first), write(folder, other, second)}, {});
  }
};

using Row = std::tuple<std::string, int, std::int64_t, std::int64_t, std::int64_t>;
inline std::vector<Row> rows_of(const RecordedRun& run) {
  std::vector<Row> rows;
  for (const Span& span : run.spans) {
    rows.emplace_back(to_text(span.action), span.rank, span.start_ns, span.end_ns, span.queued_ns);
  }
  return rows;
}

inline void remove_events(Json& trace, const std::string& prefix) {
  Json kept = Json::array();
  for (const Json& event : trace["traceEvents"]) {
    if (!event["name"].get<std::string>().starts_with(prefix)) kept.push_back(event);
  }
  trace["traceEvents"] = kept;
}

}  // namespace pipesim::testing
