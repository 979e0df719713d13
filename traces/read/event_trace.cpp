#include "traces/read/event_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <compare>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "traces/base/decimal.h"
#include "traces/base/gathering.h"
#include "traces/base/json_slice.h"
#include "traces/base/text.h"
#include "traces/base/utf8.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/event_flows.h"
#include "traces/read/event_rows.h"
#include "traces/read/event_stacks.h"
#include "traces/read/event_texts.h"

namespace pipesim {
namespace {

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// Numbers in their order, before other texts.
auto natural(const std::string& text) {
  const auto number = whole_number(text);
  return std::tuple(!number.has_value(), number.value_or(0), std::string_view(text));
}

struct Process {
  std::string pid, name, labels;
  std::int64_t order = 0;
};

struct Track {
  std::uint32_t process = 0;
  bool is_thread = true;
  std::string tid;   // or an async event's
  std::string name;  // from the file
  std::int64_t order = 0;
  Gathering<Slice> slices;
};

struct Counter {
  std::uint32_t process = 0;
  std::uint32_t name = 0, id = 0, key = 0;  // indices among the counters' texts
  std::vector<CounterTrack::Sample> samples;
};

// Numbers for combinations of texts, with a cache of the last one.
class Numbers {
 public:
  // The number for these names; `is_new` says whether it was just created.
  std::uint32_t of(std::initializer_list<std::string_view> names, bool& is_new) {
    key_.clear();
    for (const std::string_view name : names) {
      key_ += name;
      key_ += '\0';
    }
    is_new = false;
    if (key_ == last_key_) return last_;
    const auto [entry, fresh] =
        numbers_.try_emplace(key_, static_cast<std::uint32_t>(numbers_.size()));
    is_new = fresh;
    last_key_ = key_;
    return last_ = entry->second;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::string key_, last_key_;
  std::uint32_t last_ = 0;
};

// Many may share one long name.
std::string cut(std::string_view name) {
  constexpr std::size_t longest = 256;
  const std::string_view kept = utf8_prefix(name, longest);
  return kept.size() < name.size() ? std::string(kept) + "..." : std::string(name);
}

// As in PyTorch's profiles.
std::optional<int> rank_of(const ChromeTrace& trace) {
  const auto info = trace.members.find("distributedInfo");
  if (info == trace.members.end()) return std::nullopt;
  const auto rank = JsonSlice(info->second).find("rank");
  const auto number = rank ? rank->whole() : std::nullopt;
  if (!number || *number < 0 || *number > max_count) return std::nullopt;
  return static_cast<int>(*number);
}

class EventCollector {
 public:
  explicit EventCollector(const std::string& path) : path_(path) { trace_.name = path; }

  void visit(const ChromeEvent& event) {
    if (event.phase == 'M') {
      add_metadata(event);
      return;
    }
    if (!event.ts_ns) {
      trace_.warnings.add("events without ts, left out", place(event));
      return;
    }
    const std::int64_t end_ns = *event.ts_ns + (event.phase == 'X' ? event.dur_ns.value_or(0) : 0);
    last_ns_ = std::max(last_ns_.value_or(end_ns), end_ns);
    using What = EventEdge::What;
    switch (event.phase) {
      case 'X':
      case 'i':
      case 'I':
      case 'R':
      case 'P':
      case 'N':
      case 'O':
      case 'D': add_slice(event, end_ns); break;
      case 'B': add_edge(event, What::begin); break;
      case 'E': add_edge(event, What::end); break;
      case 'b':
      case 'S': add_beside(event, What::begin); break;
      case 'e':
      case 'F': add_beside(event, What::end); break;
      case 'n':
      case 'T':
      case 'p': add_beside(event, What::instant); break;
      case 's':
      case 't':
      case 'f': flows_.add(event, track_of(event)); break;
      case 'C': add_counters(event); break;
      default:
        trace_.warnings.add(
            fmt::format("events of phase {}, which have no place on a time line, left out",
                        quote({&event.phase, 1})),
            place(event));
        break;
    }
  }

  EventTrace finish(const ChromeTrace& trace) {
    trace_.rank = rank_of(trace);
    trace_.events = trace.events;
    trace_.truncated = trace.truncated;
    join_edges(
        edges_.take(), last_ns_.value_or(0), path_, [&](const Slice& slice) { add(slice); },
        trace_.warnings);
    lay_out_tracks();
    name_texts();
    take_counters();
    trace_.arrows = std::move(flows_).arrows(trace_, place_of_track_);
    return std::move(trace_);
  }

 private:
  std::string place(const ChromeEvent& event) const {
    return fmt::format("{}: event {}", path_, format_count(event.index));
  }

  // ---- Names

  std::uint32_t process_of(std::string_view pid) {
    bool is_new = false;
    const std::uint32_t number = process_numbers_.of({pid}, is_new);
    if (is_new) processes_.push_back({std::string(pid), {}, {}});
    return number;
  }

  std::uint32_t track_of(const ChromeEvent& event) {
    bool is_new = false;
    const std::uint32_t number = track_numbers_.of({"", event.pid, event.tid}, is_new);
    if (is_new) add_track(event, event.tid, true);
    return number;
  }

  // The track of async events: one for each category and name.
  std::uint32_t track_beside(const ChromeEvent& event) {
    bool is_new = false;
    const std::uint32_t number =
        track_numbers_.of({"beside", event.pid, event.category, event.name}, is_new);
    if (is_new) add_track(event, event.name, false);
    return number;
  }

  void add_track(const ChromeEvent& event, std::string_view tid, bool is_thread) {
    Track& track = tracks_.emplace_back();
    track.process = process_of(event.pid);
    track.tid = tid;
    track.is_thread = is_thread;
  }

  void add_metadata(const ChromeEvent& event) {
    const auto number = [&] { return whole_number(event.argument("sort_index")).value_or(0); };
    if (event.name == "process_name") {
      processes_[process_of(event.pid)].name = event.argument("name");
    } else if (event.name == "process_labels") {
      processes_[process_of(event.pid)].labels = event.argument("labels");
    } else if (event.name == "process_sort_index") {
      processes_[process_of(event.pid)].order = number();
    } else if (event.name == "thread_name") {
      tracks_[track_of(event)].name = event.argument("name");
    } else if (event.name == "thread_sort_index") {
      tracks_[track_of(event)].order = number();
    }
  }

  std::uint16_t category_of(std::string_view text) {
    if (text.empty()) return 0;
    if (!categories_.empty() && text == categories_[last_category_]) {
      return static_cast<std::uint16_t>(last_category_ + 1);
    }
    const auto known = category_places_.find(text);
    if (known != category_places_.end()) {
      last_category_ = known->second;
    } else {
      if (categories_.size() + 1 > std::numeric_limits<std::uint16_t>::max()) {
        trace_.warnings.add("categories beyond the first 65,535, left out", path_);
        return 0;
      }
      last_category_ = categories_.size();
      category_places_.emplace(categories_.emplace_back(text), last_category_);
    }
    return static_cast<std::uint16_t>(last_category_ + 1);
  }

  std::uint32_t arguments_of(const ChromeEvent& event) {
    if (event.args.empty()) return 0;
    line_.clear();
    for (const auto& [key, text] : event.args) {
      if (!line_.empty()) line_ += '\n';
      line_ += key;
      line_ += ": ";
      line_ += text;
    }
    if (const auto known = texts_.place_of(line_, argument_budget_)) return *known;
    trace_.warnings.add(
        fmt::format("arguments beyond the first {}, left out", format_bytes(max_argument_bytes)),
        place(event));
    return 0;
  }

  // ---- Events

  void add(const Slice& slice) { tracks_[slice.track].slices.push_back(slice); }

  void add_slice(const ChromeEvent& event, std::int64_t end_ns) {
    Slice slice;
    slice.start_ns = *event.ts_ns;
    slice.end_ns = end_ns;
    slice.name = texts_.place_of(event.name);
    slice.track = track_of(event);
    slice.arguments = arguments_of(event);
    slice.category = category_of(event.category);
    add(slice);
  }

  void add_edge(const ChromeEvent& event, EventEdge::What what) {
    bool is_new = false;
    add_edge(event, what, stack_numbers_.of({"", event.pid, event.tid}, is_new), track_of(event));
  }

  // Older phases are matched by name, too.
  void add_beside(const ChromeEvent& event, EventEdge::What what) {
    const bool by_name = std::string_view("STpF").find(event.phase) != std::string_view::npos;
    bool is_new = false;
    const std::uint32_t stack = stack_numbers_.of(
        {"beside", event.pid, event.category, event.id, by_name ? event.name : std::string_view()},
        is_new);
    add_edge(event, what, stack, track_beside(event));
  }

  void add_edge(const ChromeEvent& event, EventEdge::What what, std::uint32_t stack,
                std::uint32_t track) {
    EventEdge edge;
    edge.time_ns = *event.ts_ns;
    edge.stack = stack;
    edge.track = track;
    edge.name = texts_.place_of(event.name);
    edge.arguments = arguments_of(event);
    edge.category = category_of(event.category);
    edge.what = what;
    edges_.push_back(edge);
  }

  void add_counters(const ChromeEvent& event) {
    const std::uint32_t process = process_of(event.pid);
    const std::uint32_t name = counter_texts_.place_of(event.name);
    const std::uint32_t id = counter_texts_.place_of(event.id);
    for (const auto& [key, text] : event.args) {
      const auto value = finite_number(text);
      if (!value) {
        trace_.warnings.add("counters that are not numbers, left out", place(event));
        continue;
      }
      const CounterKey own{process, name, id, counter_texts_.place_of(key)};
      const auto [entry, is_new] =
          counter_numbers_.try_emplace(own, static_cast<std::uint32_t>(counters_.size()));
      if (is_new) counters_.push_back({process, name, id, own.back(), {}});
      counters_[entry->second].samples.push_back({*event.ts_ns, *value});
    }
  }

  // ---- Results

  std::string name_of(const Process& process) const {
    std::string text = process.name;
    const auto add = [&](const std::string& more) {
      if (more.empty() || text.find(more) != std::string::npos) return;
      if (!text.empty()) text += ' ';
      text += more;
    };
    add(process.labels);
    // "python GPU 0" is the process 0 already.
    if (!process.labels.starts_with("GPU")) add(process.pid);
    return text;
  }

  static std::string name_of(const Track& track) {
    if (!track.name.empty()) return std::string(strip(track.name));  // "stream 7 "
    if (track.tid.empty()) return "events";
    return track.is_thread && whole_number(track.tid) ? "thread " + track.tid : track.tid;
  }

  // In display order: by the file's sort indices, then by number. Processes with a word instead of
  // a number and without an index hold marks, like the profiler's "Traces": last.
  std::vector<std::uint32_t> shown_tracks() const {
    std::vector<std::uint32_t> shown;
    for (std::uint32_t i = 0; i < tracks_.size(); ++i) {
      if (!tracks_[i].slices.empty()) shown.push_back(i);
    }
    std::ranges::stable_sort(shown, [&](std::uint32_t a, std::uint32_t b) {
      const auto key = [&](std::uint32_t place) {
        const Track& track = tracks_[place];
        const Process& process = processes_[track.process];
        const bool is_last = process.order == 0 && !whole_number(process.pid);
        return std::tuple(is_last, process.order, natural(process.pid), !track.is_thread,
                          track.order, natural(track.tid));
      };
      return key(a) < key(b);
    });
    return shown;
  }

  void lay_out_tracks() {
    std::size_t slices = 0;
    for (const Track& track : tracks_) slices += track.slices.size();
    trace_.slices.reserve(slices);
    place_of_track_.assign(tracks_.size(), std::numeric_limits<std::uint32_t>::max());
    first_of_process_.assign(processes_.size(), std::numeric_limits<std::uint32_t>::max());
    std::vector<std::string> process_names;
    for (const Process& process : processes_) process_names.push_back(cut(name_of(process)));
    for (const std::uint32_t number : shown_tracks()) {
      Track& track = tracks_[number];
      place_of_track_[number] = static_cast<std::uint32_t>(trace_.tracks.size());
      auto& first = first_of_process_[track.process];
      first = std::min(first, place_of_track_[number]);
      EventTrack shown;
      shown.process = process_names[track.process];
      shown.process_order = processes_[track.process].order;
      shown.name = cut(name_of(track));
      shown.order = track.order;
      // Slices that a track has no rows for go on another of the same name.
      for (LargeVector<Slice> own = track.slices.take(); !own.empty();) {
        LargeVector<Slice> rest;
        shown.rows = lay_out(own, rest);
        for (Slice& slice : own) slice.track = static_cast<std::uint32_t>(trace_.tracks.size());
        sort_by_row(own, shown.rows, trace_.slices);
        trace_.tracks.push_back(shown);
        own = std::move(rest);
      }
    }
  }

  // Categories come first, so that their indices are small.
  void name_texts() {
    std::vector<std::string> texts = texts_.take();
    std::unordered_map<std::string_view, std::uint32_t> known;
    trace_.texts.reserve(texts.size() + categories_.size());
    trace_.texts.emplace_back();
    for (const std::string& category : categories_) {
      known.emplace(category, static_cast<std::uint32_t>(trace_.texts.size()));
      trace_.texts.push_back(category);
    }
    std::vector<std::uint32_t> places(texts.size());
    for (std::size_t i = 1; i < texts.size(); ++i) {
      const auto category = known.find(texts[i]);
      if (category != known.end()) {
        places[i] = category->second;
      } else {
        places[i] = static_cast<std::uint32_t>(trace_.texts.size());
        trace_.texts.push_back(std::move(texts[i]));
      }
    }
    for (Slice& slice : trace_.slices) {
      slice.name = places[slice.name];
      slice.arguments = places[slice.arguments];
    }
  }

  void take_counters() {
    const std::vector<std::string> texts = counter_texts_.take();
    std::map<std::array<std::uint32_t, 3>, int> keys;  // of each counter
    for (const Counter& counter : counters_) ++keys[{counter.process, counter.name, counter.id}];
    for (Counter& counter : counters_) {
      CounterTrack track;
      const int several = keys[{counter.process, counter.name, counter.id}];
      track.name = cut(texts[counter.name]);
      if (counter.id != 0) track.name += " " + cut(texts[counter.id]);
      if (several > 1) track.name += " " + cut(texts[counter.key]);
      track.track = std::min(first_of_process_[counter.process],
                             static_cast<std::uint32_t>(trace_.tracks.size()));
      track.samples = std::move(counter.samples);
      if (!std::ranges::is_sorted(track.samples, {}, &CounterTrack::Sample::time_ns)) {
        std::ranges::stable_sort(track.samples, {}, &CounterTrack::Sample::time_ns);
      }
      trace_.counters.push_back(std::move(track));
    }
  }

  static constexpr std::size_t max_argument_bytes = std::size_t{64} << 20;

  const std::string& path_;
  EventTrace trace_;
  std::deque<Process> processes_;
  std::deque<Track> tracks_;
  std::deque<Counter> counters_;
  Numbers process_numbers_, track_numbers_, stack_numbers_;
  using CounterKey = std::array<std::uint32_t, 4>;
  std::map<CounterKey, std::uint32_t> counter_numbers_;  // by process, name, id and key
  EventTexts texts_, counter_texts_;
  std::size_t argument_budget_ = max_argument_bytes;
  std::string line_;
  std::deque<std::string> categories_;
  std::unordered_map<std::string_view, std::size_t> category_places_;
  std::size_t last_category_ = 0;
  Gathering<EventEdge> edges_;
  EventFlows flows_;
  std::optional<std::int64_t> last_ns_;
  std::vector<std::uint32_t> place_of_track_;    // among the trace's; by number
  std::vector<std::uint32_t> first_of_process_;  // the first of its tracks
};

}  // namespace

EventTrace read_event_trace(const std::string& path, const ReadProgress& progress) {
  EventCollector collector(path);
  Warnings odd;
  const ChromeTrace read = read_chrome_trace(
      path, [&](const ChromeEvent& event) { collector.visit(event); }, odd, progress);
  EventTrace trace = collector.finish(read);
  odd.add(trace.warnings);
  trace.warnings = std::move(odd);
  return trace;
}

}  // namespace pipesim
