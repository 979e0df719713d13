#include "traces/input_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "traces/base/json.h"
#include "traces/chrome_text.h"
#include "traces/input_metrics_json.h"

namespace pipesim {
namespace {

// chrome://tracing's; consecutive batches differ.
constexpr std::array<std::string_view, 6> batch_colours{"rail_response",  "rail_idle",
                                                        "rail_animation", "rail_load",
                                                        "startup",        "thread_state_runnable"};

std::string input_metadata_json(const InputRun& run) {
  Json json;
  json["format"] = "pipesim-trace";
  json["version"] = 1;
  json["source"] = run.is_measured ? "measured" : "predicted";
  json["input_pipeline"] = run.program.name;
  const auto text = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) json[key] = value;
  };
  text("model", run.model);
  text("cluster", run.cluster);
  text("device", run.device);
  text("transport", run.transport);
  if (run.batch_size > 0) json["batch_size"] = run.batch_size;
  if (!run.memory.empty()) {
    json["memory"] = Json::array();
    for (const InputMemory& memory : run.memory) {
      json["memory"].push_back(input_memory_json(memory));
    }
  }
  if (!run.losses.empty()) json["losses"] = run.losses;
  json["program"] = to_text(run.program);
  if (!run.costs.empty()) json["costs"] = Json::verbatim(run.costs);
  return json.dump();
}

// The kind of a line; at one instant slices come before flows, and a flow's start before its end.
enum class InputLine : std::uint8_t { wait, launch, action, flow_start, flow_end };

struct InputEntry {
  std::int64_t ts_ns;
  InputLine line;
  std::uint32_t rank;
  std::uint32_t place;  // of the call
  std::uint32_t flow;   // its number; the writer knows its source call

  auto key() const { return std::tuple(ts_ns, line, rank, place, flow); }
};

class InputTraceWriter {
 public:
  InputTraceWriter(const InputRun& run, OutputFile& file)
      : run_(run), text_(file, input_metadata_json(run)) {}

  void write() {
    for (int rank = 0; rank < run_.program.ranks(); ++rank) write_names(rank);
    for (int rank = 0; rank < run_.program.ranks(); ++rank) find_entries(rank);
    std::ranges::sort(entries_, {}, &InputEntry::key);
    for (const InputEntry& entry : entries_) write(entry);
    text_.finish();
  }

 private:
  const InputCall& call(std::uint32_t rank, std::uint32_t place) const {
    return run_.program.calls[rank][place];
  }
  const InputSpan& span(std::uint32_t rank, std::uint32_t place) const {
    return run_.spans[rank][place];
  }

  // Thread ids count from the process's: for Perfetto the thread with the same number, the host's,
  // is the main one, and comes first.
  static int thread_of(std::size_t rank, InputStream stream) {
    return static_cast<int>(rank) + 1 + static_cast<int>(stream);
  }

  // A thread for each stream that the program uses, and the host, in the order of InputStream.
  void write_names(int at) {
    const auto rank = static_cast<std::size_t>(at);
    std::array<bool, input_stream_count> is_used{};
    is_used[static_cast<std::size_t>(InputStream::host)] = true;
    for (const InputCalls& calls : run_.program.calls) {
      for (const InputCall& own : calls) is_used[static_cast<std::size_t>(own.stream)] = true;
    }
    const auto meta = [&](std::string_view name, int tid, const std::string& argument) {
      text_.put_name(name, at + 1, tid, argument);
    };
    const int host = thread_of(rank, InputStream::host);
    meta("process_name", host, fmt::format(R"("name":"rank {}")", rank));
    meta("process_sort_index", host, fmt::format(R"("sort_index":{})", rank));
    for (int i = 0; i < input_stream_count; ++i) {
      if (!is_used[static_cast<std::size_t>(i)]) continue;
      const auto stream = static_cast<InputStream>(i);
      const int tid = thread_of(rank, stream);
      meta("thread_name", tid, fmt::format(R"("name":"{}")", input_stream_name(stream)));
      meta("thread_sort_index", tid, fmt::format(R"("sort_index":{})", tid));
    }
  }

  void find_entries(int at) {
    const auto rank = static_cast<std::uint32_t>(at);
    const auto count = static_cast<std::uint32_t>(run_.spans[rank].size());
    for (std::uint32_t place = 0; place < count; ++place) {
      const InputCall& own = call(rank, place);
      const InputSpan& times = span(rank, place);
      entries_.push_back({times.start_ns, InputLine::action, rank, place, 0});
      if (waits_from(own, times) < times.start_ns) {
        entries_.push_back({waits_from(own, times), InputLine::wait, rank, place, 0});
      }
      if (own.stream != InputStream::host && times.called_ns < times.issued_ns) {
        entries_.push_back({times.called_ns, InputLine::launch, rank, place, 0});
      }
      for (const std::uint32_t awaited : own.after) {
        if (call(rank, awaited).stream == own.stream) continue;
        const InputSpan& from = span(rank, awaited);
        const std::int64_t leaves = std::max(from.start_ns, from.end_ns - 1);
        ++flow_;
        if (leaves > times.start_ns) continue;  // for viewers that is an error
        entries_.push_back({leaves, InputLine::flow_start, rank, awaited, flow_});
        entries_.push_back({times.start_ns, InputLine::flow_end, rank, place, flow_});
      }
    }
  }

  // Since when an action has blocked its stream, or the host.
  static std::int64_t waits_from(const InputCall& call, const InputSpan& span) {
    if (call.stream == InputStream::host) return span.called_ns;
    return is_meeting(call.action.kind) ? span.ready_ns : span.start_ns;
  }

  void write(const InputEntry& entry) {
    const InputCall& own = call(entry.rank, entry.place);
    const InputSpan& times = span(entry.rank, entry.place);
    const std::string name = to_text(own.action);
    const int tid = thread_of(entry.rank, own.stream);
    text_.begin_line();
    switch (entry.line) {
      case InputLine::wait:
        begin_slice(entry, name + " waits", "wait", "grey", tid, times.start_ns);
        return text_.put(R"(,"args":{{"waits":"{}"}}}})", name);
      case InputLine::launch:
        begin_slice(entry, "call " + name, "launch", "generic_work",
                    thread_of(entry.rank, InputStream::host), times.issued_ns);
        return text_.put(R"(,"args":{{"calls":"{}"}}}})", name);
      case InputLine::action: {
        const Action& action = own.action;
        begin_slice(
            entry, name, input_group_name(input_group_of(action.kind)),
            batch_colours[static_cast<std::size_t>(action.microbatch) % batch_colours.size()], tid,
            times.end_ns);
        return text_.put(
            R"(,"args":{{"kind":"{}","batch":{},"rank":{},"stream":"{}","called_ns":{},)"
            R"("issued_ns":{},"ready_ns":{}}}}})",
            kind_name(action.kind), action.microbatch, entry.rank, input_stream_name(own.stream),
            times.called_ns, times.issued_ns, times.ready_ns);
      }
      case InputLine::flow_start:
      case InputLine::flow_end: {
        const bool starts = entry.line == InputLine::flow_start;
        text_.put(R"({{"ph":"{}",{}"id":{},"name":"waits for","cat":"wait","pid":{},"tid":{},)",
                  starts ? "s" : "f", starts ? "" : R"("bp":"e",)", entry.flow, entry.rank + 1,
                  tid);
        text_.put_ts(entry.ts_ns);
        text_.put("}}");
      }
    }
  }

  void begin_slice(const InputEntry& entry, std::string_view name, std::string_view category,
                   std::string_view colour, int tid, std::int64_t end_ns) {
    text_.put(R"({{"ph":"X","name":"{}","cat":"{}","cname":"{}","pid":{},"tid":{},)", name,
              category, colour, entry.rank + 1, tid);
    text_.put_times(entry.ts_ns, end_ns);
  }

  const InputRun& run_;
  ChromeText text_;
  std::uint32_t flow_ = 0;
  std::vector<InputEntry> entries_;
};

}  // namespace

void write_input_trace(const InputRun& run, OutputFile& file) {
  InputTraceWriter(run, file).write();
}

void write_input_trace(const InputRun& run, const std::string& path) {
  OutputFile file(path, path.ends_with(".gz"));
  write_input_trace(run, file);
  file.commit();
}

}  // namespace pipesim
