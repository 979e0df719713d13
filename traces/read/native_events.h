// Events of pipesim's and pipeexec's traces, identified by their args.
// Names, processes and threads don't count: viewers and scripts that rewrite a trace may change
// those. Nor do the metadata yet, which may come after the events. One owner, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/base/gathering.h"
#include "traces/base/large_vector.h"
#include "traces/memory_samples.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/read_run.h"
#include "traces/timeline.h"

namespace pipesim {

class NativeEvents {
 public:
  NativeEvents(std::string path, const ReadOptions& options);
  NativeEvents(NativeEvents&&) = default;
  NativeEvents& operator=(NativeEvents&&) = default;

  void add(const ChromeEvent& event);

  const std::string& path() const { return path_; }
  // "1,204 events: 600 X, of them 600 named 'aten::add', ...; 30 M".
  std::string description() const;

  // From the events, in their order; valid after finish(). A layer's events don't have the kind of
  // its action: IDLE.
  LargeVector<Span> spans;
  std::vector<LayerSpan> layers;
  MemorySamples samples;  // one per instant and rank, sorted by time
  void finish();

  Warnings warnings;

 private:
  struct Process {
    std::string pid;
    std::int32_t rank = -1;  // from the args of its slices
    // Its counters at one instant; not yet in said_, but their index is reserved there.
    MemorySample said;
    std::size_t place = 0;
    bool says = false;
    bool is_other = false;  // of a replica other than the one being read
  };
  struct Arguments;

  std::size_t process_of(std::string_view pid);
  void add_slice(const ChromeEvent& event);
  void add_actions(const ChromeEvent& event, const Arguments& args);
  void add_layer(const ChromeEvent& event, const Arguments& args);
  void add_counter(const ChromeEvent& event);
  void find_samples();
  std::string place(const ChromeEvent& event) const;

  std::string path_;
  bool wants_layers_;
  bool keeps_samples_;
  int replica_;
  Gathering<Span> gathered_;
  // With the process instead of the rank, and not_said for missing values.
  MemorySamples said_;
  std::deque<Process> processes_;
  std::unordered_map<std::string_view, std::size_t> process_places_;  // by pid
  std::size_t last_process_ = 0;
  std::array<std::int64_t, 256> phases_{};  // how many events of each
  std::vector<std::string> names_;          // of some slices that are not ours
};

}  // namespace pipesim
