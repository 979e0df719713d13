#include "tests/growth/growing_traces.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace pipesim::testing {
namespace {

std::string events(const std::string& list) { return "{\"traceEvents\":[" + list + "]}"; }

const std::string instant = R"({"ph":"i","ts":1,"pid":1,"tid":1,"name":"a"})";

std::string event_with_args(const std::string& args) {
  return events(R"({"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a","args":)" + args + "}");
}

std::string slice(const std::string& members) { return R"({"ph":"X",)" + members + "}"; }

// Copies with commas in between.
std::string many(const std::string& item) { return "<" + item + "|,>"; }

std::string slices_within_slices(int n) {
  std::string list;
  for (int i = 0; i < n; ++i) {
    list += fmt::format(R"({}{{"ph":"X","ts":{},"dur":{},"pid":1,"tid":1,"name":"a"}})",
                        i == 0 ? "" : ",", i, 2 * (n - i));
  }
  return events(list);
}

std::string own_trace_of(int ranks, int microbatches, const std::string& list) {
  std::string rank_of_stage = "0";
  for (int rank = 1; rank < ranks; ++rank) rank_of_stage += fmt::format(",{}", rank);
  return fmt::format(
      R"({{"metadata":{{"pipesim":{{"format":"pipesim-trace","version":1,"source":"measured",)"
      R"("microbatches":{},"rank_of_stage":[{}]}}}},"traceEvents":[{}]}})",
      microbatches, rank_of_stage, list);
}

// A run of ours: of each microbatch F on the ranks one after the other, then B back.
std::string own_trace(int ranks, int microbatches, int iterations) {
  std::string list;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int m = 0; m < microbatches; ++m) {
        for (const char kind : {'F', 'B'}) {
          const std::int64_t at =
              ((std::int64_t{iteration} * 2 + (kind == 'B')) * microbatches + m) * (ranks + 1) +
              (kind == 'F' ? rank : ranks - rank);
          list += fmt::format(
              R"({}{{"ph":"X","ts":{},"dur":1,"pid":0,"tid":{},"name":"{}{}{}","args":{{"kind":"{}",)"
              R"("stage":{},"rank":{},"microbatch":{},"iteration":{}}}}})",
              list.empty() ? "" : ",", at, rank, rank, kind, m, kind, rank, rank, m, iteration);
        }
      }
    }
  }
  return own_trace_of(ranks, microbatches, list);
}

// Of one microbatch, that goes to the last rank and back: each rank's clock is ahead of that
// of the rank before.
std::string sent_trace(int ranks, std::int64_t ahead_us) {
  std::string list;
  const auto add = [&](std::string_view kind, int rank, int at, int bytes) {
    list += fmt::format(
        R"({}{{"ph":"X","ts":{},"dur":1,"pid":0,"tid":{},"name":"{}","args":{{"kind":"{}",)"
        R"("stage":{},"rank":{},"microbatch":0,"iteration":0,"bytes":{}}}}})",
        list.empty() ? "" : ",", at + rank * ahead_us, rank, kind, kind, rank, rank, bytes);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    const int forward = 4 * rank;
    const int backward = 4 * (2 * ranks - rank);
    const bool is_last = rank + 1 == ranks;
    if (rank > 0) add("RECV_F", rank, forward - 1, 8);
    add("F", rank, forward, 0);
    if (!is_last) add("SEND_F", rank, forward + 2, 8);
    if (!is_last) add("RECV_B", rank, backward - 1, 8);
    add("B", rank, backward, 0);
    if (rank > 0) add("SEND_B", rank, backward + 2, 8);
  }
  return own_trace_of(ranks, 1, list);
}

std::string range(const std::string& time, const std::string& thread, const std::string& name) {
  return slice(R"("dur":0.25,"ts":)" + time + "," + thread +
               R"(,"cat":"user_annotation","name":")" + name + '"');
}

// A launch and what it has launched.
std::string kernel(const std::string& time, const std::string& correlation) {
  return slice(
             R"("dur":0.125,"pid":0,"tid":1,"cat":"cuda_runtime","name":"cudaLaunchKernel","ts":)" +
             time + R"(,"args":{"correlation":)" + correlation + "}") +
         "," +
         slice(R"("dur":0.125,"pid":0,"tid":7,"cat":"kernel","name":"gemm","ts":)" + time +
               R"(,"args":{"stream":7,"correlation":)" + correlation + "}");
}

std::string profile(const std::string& list) {
  return R"({"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[)" + list + "]}";
}

std::string native_metadata(const std::string& members) {
  return R"({"metadata":{"pipesim":{"format":"pipesim-trace","version":1,"source":"measured",)"
         R"("microbatches":1,"rank_of_stage":[0],)" +
         members + R"(}},"traceEvents":[)" + instant + "]}";
}

}  // namespace

std::vector<Growing> growing_runs() {
  return {{"ranks", [](int n) { return own_trace(n, 2, 2); }, 25},
          {"microbatches", [](int n) { return own_trace(2, n, 2); }, 25},
          {"iterations", [](int n) { return own_trace(2, 2, n); }, 25}};
}

Growing growing_clocks() {
  return {"ranks whose clocks are off", [](int n) { return sent_trace(n, clock_error_ns / 1000); },
          50};
}

std::vector<Growing> growing_profiles() {
  const std::string thread = R"("pid":0,"tid":1)";
  const std::string process = R"("pid":#,"tid":1)";
  const std::string forward = range("#", thread, "PP:0F#");
  const std::string backward = range("#.5", thread, "PP:0B#");
  const std::string of_ranks =
      many(range("#", process, "PP:#F0") + "," + range("#.5", process, "PP:#B0"));
  const std::string named =
      R"({"ph":"M","pid":#,"tid":0,"name":"process_name","args":{"name":"rank #"}})";
  return {growing("microbatches of a profile", profile(many(forward) + "," + many(backward)), 500),
          growing("processes of a profile", events(of_ranks), 250),
          growing("names of processes of a profile", events(many(named) + "," + of_ranks), 250),
          growing("kernels of a profile",
                  profile(many(forward + "," + kernel("#", "#") + "," + backward + "," +
                               kernel("#.5", "#5"))),
                  250),
          growing("kernels behind nested ranges",
                  profile(many(forward + "," + kernel("#", "#") + "," + backward + "," +
                               kernel("#.5", "#5") + "," +
                               slice(R"("ts":-#,"dur":9#,"pid":0,"tid":2,"cat":)"
                                     R"("user_annotation","name":"Optimizer.step#SGD.step")") +
                               "," +
                               slice(R"("ts":100000#,"dur":1,"pid":0,"tid":2,"cat":)"
                                     R"("cuda_runtime","name":"cudaLaunchKernel",)"
                                     R"("args":{"correlation":#7})") +
                               "," +
                               slice(R"("ts":100000#,"dur":1,"pid":0,"tid":7,"cat":"kernel",)"
                                     R"("name":"gemm","args":{"correlation":#7})"))),
                  250),
          growing("threads with ranges, and kernels outside",
                  profile(many(range("#", R"("pid":0,"tid":#)", "PP:0F#") + "," + kernel("#", "#") +
                               "," + range("#.5", R"("pid":0,"tid":#)", "PP:0B#") + "," +
                               kernel("#.5", "#5") + "," + kernel("-1#", "#7"))),
                  250),
          growing("kernels of one launch",
                  profile(many(forward + "," + kernel("#", "1") + "," + backward + "," +
                               kernel("#.5", "2"))),
                  250)};
}

std::vector<Growing> growing_events() {
  const std::string overlapping = many(slice(R"("ts":#,"dur":9999,"pid":1,"tid":1,"name":"a")"));
  const std::string thread = many(slice(R"("ts":#,"dur":1,"pid":1,"tid":#,"name":"a")"));
  return {
      growing("slices, one after the other",
              events(many(slice(R"("ts":#,"dur":0.5,"pid":1,"tid":1,"name":"a")"))), 500),
      {"slices within slices", slices_within_slices, 500},
      growing("slices that overlap", events(overlapping), 500),
      growing("slices at one instant",
              events(many(slice(R"("ts":5,"dur":10,"pid":1,"tid":1,"name":"a#")"))), 500),
      growing("threads", events(thread), 500),
      growing("processes", events(many(slice(R"("ts":#,"dur":1,"pid":#,"tid":1,"name":"a")"))),
              500),
      growing("names of slices",
              events(many(slice(R"("ts":#,"dur":0.5,"pid":1,"tid":1,"name":"name#")"))), 500),
      growing("begins without ends",
              events(many(R"({"ph":"B","ts":#,"pid":1,"tid":1,"name":"a"})")), 500),
      growing("begins, then ends without a name",
              events(many(R"({"ph":"B","ts":-#,"pid":1,"tid":1,"name":"a"})") + "," +
                     many(R"({"ph":"E","ts":#.5,"pid":1,"tid":1})")),
              500),
      growing("threads of a process with a long name",
              events(R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"<)" +
                     std::string(100, 'n') + ">\"}}," + thread),
              500),
      growing("flows between overlapping slices",
              events(overlapping + "," +
                     many(R"({"ph":"s","ts":#,"pid":1,"tid":1,"id":#,"name":"f"},)"
                          R"({"ph":"f","ts":#,"pid":1,"tid":1,"id":#,"name":"f"})")),
              500),
      growing("counters of an event with a long name",
              events(R"({"ph":"C","ts":1,"pid":1,"name":"<nnnnnnnnnn>","args":{)" +
                     many(R"("#":1)") + "}}")),
      growing("counters", events(many(R"({"ph":"C","ts":#,"pid":1,"name":"c#","args":{"v":#}})"))),
      growing("arguments", event_with_args("{" + many(R"("#":1)") + "}")),
      growing("arguments within a long name",
              event_with_args(R"({"<kkkkkkk>":{)" + many(R"("#":1)") + "}}")),
      growing("a long string", event_with_args(R"({"a":"<x>"})"), 50000),
      growing("objects within a long name",
              event_with_args(R"({"<kkkkkkk>":{)" + many(R"("a#":{})") + "}}")),
      growing("nesting", events(slice(R"("args":<[><]>)") + "," + instant)),
      growing("members beside the events",
              "{" + many(R"("#":[])") + R"(,"traceEvents":[)" + instant + "]}"),
      growing("members that are not JSON",
              "{" + many(R"("#":[1 2])") + R"(,"traceEvents":[)" + instant + "]}"),
      growing("empty objects in the metadata",
              R"({"metadata":{"x":[<{}|,>]},"traceEvents":[)" + instant + "]}", 10000),
      growing("keys of the metadata", native_metadata(many(R"("k#":1)"))),
      growing("layers of the metadata", native_metadata(R"("layers":[<"l#"|,>])")),
  };
}

}  // namespace pipesim::testing
