#include "traces/chrome_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace pipesim {
namespace {

// What a line of the trace is; at equal times a flow finds its slice before it.
// A rank's counters follow its spans, which puts what ends before what starts;
// its memory is written once an instant.
enum class Line : std::uint8_t { slice, counter, flow_start, flow_end };

struct Entry {
  std::int64_t ts_ns;
  Line line;
  std::uint32_t span;
  bool at_end = false;  // of a counter: it counts what the span's end changes
};

enum class Track : std::uint8_t { compute, send, receive };

Track track_of(Kind kind) {
  if (is_send(kind)) return Track::send;
  return is_receive(kind) ? Track::receive : Track::compute;
}

// Colours of chrome://tracing that come nearest to the project's.
std::string_view colour_of(Kind kind) {
  switch (kind) {
    case Kind::F: return "rail_response";
    case Kind::I:
    case Kind::B: return "rail_idle";
    case Kind::W: return "rail_load";
    default: return "grey";
  }
}

class Writer {
 public:
  Writer(const Timeline& timeline, OutputFile& file)
      : timeline_(timeline), file_(file), memory_(static_cast<std::size_t>(timeline.ranks)) {
    for (const StageFootprint& stage : timeline.footprints) {
      largest_.activations = std::max(largest_.activations, stage.activation_bytes);
      largest_.residue = std::max(largest_.residue, stage.weight_residue_bytes);
      largest_.send_buffers = std::max(
          {largest_.send_buffers, stage.forward_output_bytes, stage.backward_output_bytes});
      largest_.receive_buffers = std::max(
          {largest_.receive_buffers, stage.forward_input_bytes, stage.backward_input_bytes});
    }
    for (const StateBytes& rank : timeline.states) {
      largest_states_.weights = std::max(largest_states_.weights, rank.weights);
      largest_states_.gradients = std::max(largest_states_.gradients, rank.gradients);
      largest_states_.optimizer = std::max(largest_states_.optimizer, rank.optimizer);
    }
  }

  void run(std::string_view metadata_json) {
    out_ = "{\"displayTimeUnit\":\"ms\",\"metadata\":{\"pipesim\":";
    out_ += metadata_json;
    out_ += "},\"traceEvents\":[\n";
    assign_lanes();
    write_names();
    for (int rank = 0; rank < timeline_.ranks; ++rank) write_memory(rank, 0);
    std::int64_t now_ns = 0;
    for (const Entry& entry : sorted_entries()) {
      if (entry.ts_ns > now_ns) write_changed_memory(now_ns);
      now_ns = entry.ts_ns;
      const Span& span = timeline_.spans[entry.span];
      switch (entry.line) {
        case Line::slice: write_slice(entry.span); break;
        case Line::counter: write_counters(span, entry.ts_ns, entry.at_end); break;
        default: write_flow(entry.span, entry.line == Line::flow_start, entry.ts_ns); break;
      }
      if (out_.size() > (std::size_t{1} << 16)) flush();
    }
    write_changed_memory(now_ns);
    out_ += "\n]}\n";
    flush();
  }

 private:
  void flush() {
    file_.write(out_);
    out_.clear();
  }

  // A lane is one row of slices that do not overlap: compute has one, a
  // rank's sends and receives as many as are in flight at once. A slice of no
  // length counts as one nanosecond, so that a flow there finds one slice.
  struct Lanes {
    using Taken = std::pair<std::int64_t, std::uint32_t>;  // (until, lane)
    std::priority_queue<Taken, std::vector<Taken>, std::greater<>> taken;
    std::set<std::uint32_t> free;
    std::uint32_t count = 0;

    // The lowest lane that is free at the span's start.
    std::uint32_t take(const Span& span) {
      for (; !taken.empty() && taken.top().first <= span.start_ns; taken.pop()) {
        free.insert(taken.top().second);
      }
      const std::uint32_t lane = free.empty() ? count++ : *free.begin();
      free.erase(lane);
      taken.emplace(std::max(span.end_ns, span.start_ns + 1), lane);
      return lane;
    }
  };

  void assign_lanes() {
    std::vector<std::array<Lanes, 3>> lanes(static_cast<std::size_t>(timeline_.ranks));
    lane_.resize(timeline_.spans.size());
    for (std::size_t i = 0; i < timeline_.spans.size(); ++i) {
      const Span& span = timeline_.spans[i];
      const Track track = track_of(span.action.kind);
      if (track == Track::compute) continue;
      lane_[i] =
          lanes[static_cast<std::size_t>(span.rank)][static_cast<std::size_t>(track)].take(span);
    }
    for (const auto& own : lanes) {
      auto& counts = lanes_.emplace_back();
      for (std::size_t track = 0; track < 3; ++track) {
        counts[track] = static_cast<int>(std::max<std::uint32_t>(1, own[track].count));
      }
    }
  }

  // Thread ids count from 1: viewers take 0 for the process itself.
  int thread_of(std::size_t index) const {
    const Span& span = timeline_.spans[index];
    const auto& lanes = lanes_[static_cast<std::size_t>(span.rank)];
    int thread = 1 + static_cast<int>(lane_[index]);
    if (track_of(span.action.kind) != Track::compute) thread += lanes[0];
    if (track_of(span.action.kind) == Track::receive) thread += lanes[1];
    return thread;
  }
  static int process_of(std::int32_t rank) { return rank + 1; }

  void begin_line() {
    if (!first_) out_ += ",\n";
    first_ = false;
  }

  void append_us(std::int64_t ns) {
    fmt::format_to(std::back_inserter(out_), "{}.{:03}", ns / 1000, ns % 1000);
  }

  void write_names() {
    constexpr std::array<std::string_view, 3> names{"compute", "send", "receive"};
    for (int rank = 0; rank < timeline_.ranks; ++rank) {
      const int pid = process_of(rank);
      const auto meta = [&](std::string_view name, int tid, std::string_view args) {
        begin_line();
        fmt::format_to(std::back_inserter(out_),
                       R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", pid, tid,
                       name, args);
      };
      meta("process_name", 1, fmt::format(R"("name":"rank {}")", rank));
      meta("process_sort_index", 1, fmt::format(R"("sort_index":{})", rank));
      int tid = 1;
      for (std::size_t track = 0; track < 3; ++track) {
        for (int lane = 0; lane < lanes_[static_cast<std::size_t>(rank)][track]; ++lane, ++tid) {
          meta("thread_name", tid,
               lane == 0 ? fmt::format(R"("name":"{}")", names[track])
                         : fmt::format(R"("name":"{} {}")", names[track], lane + 1));
          meta("thread_sort_index", tid, fmt::format(R"("sort_index":{})", tid));
        }
      }
    }
  }

  std::vector<Entry> sorted_entries() const {
    std::vector<Entry> entries;
    entries.reserve(timeline_.spans.size() * 2);
    for (std::uint32_t i = 0; i < timeline_.spans.size(); ++i) {
      const Span& span = timeline_.spans[i];
      const bool continues = i > 0 && timeline_.spans[i - 1].action.joined;
      if (!continues) entries.push_back({span.start_ns, Line::slice, i});
      const auto counts = [&](std::int64_t ts_ns, bool at_end) {
        entries.push_back({ts_ns, Line::counter, i, at_end});
      };
      const StageFootprint& footprint =
          timeline_.footprints[static_cast<std::size_t>(span.action.stage)];
      switch (span.action.kind) {
        case Kind::F:
          counts(span.start_ns, false);
          if (footprint.forward_output_bytes > 0) counts(span.end_ns, true);
          break;
        case Kind::I:
        case Kind::W:
        case Kind::B: counts(span.end_ns, true); break;
        case Kind::SEND_F:
        case Kind::SEND_B:
          entries.push_back({span.start_ns, Line::flow_start, i});
          if (span.bytes > 0) counts(span.end_ns, true);
          break;
        case Kind::RECV_F:
        case Kind::RECV_B:
          // The last instant inside the slice.
          entries.push_back({std::max(span.start_ns, span.end_ns - 1), Line::flow_end, i});
          if (span.bytes > 0) counts(span.start_ns, false);
          break;
        default: break;
      }
    }
    std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
      return std::tuple(a.ts_ns, a.line, a.span, a.at_end) <
             std::tuple(b.ts_ns, b.line, b.span, b.at_end);
    });
    return entries;
  }

  int chunk_of(std::int32_t stage) const {
    return timeline_.chunk_of_stage[static_cast<std::size_t>(stage)];
  }

  void write_slice(std::uint32_t index) {
    const Span& span = timeline_.spans[index];
    const Action& action = span.action;
    const std::size_t parts = action.joined ? 2 : 1;
    begin_line();
    out_ += R"({"ph":"X","name":")";
    if (parts == 2) {
      const std::array<Action, 2> cell{action, timeline_.spans[index + 1].action};
      append_cell(out_, cell.data(), parts);
    } else {
      append_text(out_, action);
    }
    fmt::format_to(std::back_inserter(out_), R"(","cat":"{}","cname":"{}","pid":{},"tid":{},"ts":)",
                   is_transfer(action.kind) ? "p2p" : "compute", colour_of(action.kind),
                   process_of(span.rank), thread_of(index));
    append_us(span.start_ns);
    out_ += R"(,"dur":)";
    append_us(span.end_ns - span.start_ns);
    fmt::format_to(std::back_inserter(out_),
                   R"(,"args":{{"kind":"{}","stage":{},"rank":{},"chunk":{},"iteration":{})",
                   parts == 2 ? "OVERLAP_F_B" : kind_name(action.kind), action.stage, span.rank,
                   chunk_of(action.stage), span.iteration);
    if (takes_microbatch(action.kind)) {
      fmt::format_to(std::back_inserter(out_), R"(,"microbatch":{})", action.microbatch);
    }
    if (parts == 2) {
      const Action& back = timeline_.spans[index + 1].action;
      fmt::format_to(std::back_inserter(out_),
                     R"(,"backward_kind":"{}","backward_stage":{},"backward_chunk":{},)"
                     R"("backward_microbatch":{})",
                     kind_name(back.kind), back.stage, chunk_of(back.stage), back.microbatch);
    }
    if (is_transfer(action.kind)) {
      fmt::format_to(std::back_inserter(out_), R"(,"bytes":{})", span.bytes);
    }
    out_ += "}}";
  }

  // One number a transfer, the same at both its ends.
  void write_flow(std::uint32_t index, bool start, std::int64_t ts_ns) {
    const Span& span = timeline_.spans[index];
    const Action sent = is_send(span.action.kind) ? span.action : peer_of(span.action);
    const std::int64_t slots =
        static_cast<std::int64_t>(timeline_.chunk_of_stage.size()) * timeline_.microbatches;
    const std::int64_t id = 1 + (sent.kind == Kind::SEND_B ? slots : 0) +
                            std::int64_t{sent.stage} * timeline_.microbatches + sent.microbatch +
                            2 * slots * span.iteration;
    begin_line();
    fmt::format_to(std::back_inserter(out_),
                   R"({{"ph":"{}",{}"id":{},"name":"{}","cat":"p2p","pid":{},"tid":{},"ts":)",
                   start ? "s" : "f", start ? "" : R"("bp":"e",)", id,
                   sent.kind == Kind::SEND_F ? "activation" : "gradient", process_of(span.rank),
                   thread_of(index));
    append_us(ts_ns);
    out_ += '}';
  }

  void begin_counter(std::string_view name, std::int32_t rank, std::int64_t ts_ns) {
    begin_line();
    fmt::format_to(std::back_inserter(out_), R"({{"ph":"C","name":"{}","pid":{},"tid":1,"ts":)",
                   name, process_of(rank));
    append_us(ts_ns);
    out_ += R"(,"args":{)";
  }

  void write_counters(const Span& span, std::int64_t ts_ns, bool at_end) {
    MemoryMeter& memory = memory_[static_cast<std::size_t>(span.rank)];
    const std::int64_t chunks = memory.chunks();
    const WorkingBytes bytes = memory.now();
    const StageFootprint& footprint =
        timeline_.footprints[static_cast<std::size_t>(span.action.stage)];
    if (at_end) {
      memory.end(span.action, footprint, ts_ns);
    } else {
      memory.start(span.action, footprint, ts_ns);
    }
    if (memory.chunks() != chunks) {
      begin_counter("activations", span.rank, ts_ns);
      fmt::format_to(std::back_inserter(out_), R"("chunks":{}}}}})", memory.chunks());
    }
    if (memory.now() != bytes) changed_.insert(span.rank);
  }

  // At the end of an instant, for the ranks whose memory it has changed.
  void write_changed_memory(std::int64_t ts_ns) {
    for (const std::int32_t rank : changed_) write_memory(rank, ts_ns);
    changed_.clear();
  }

  // What a rank holds, by category; one that no rank ever has is left out.
  void write_memory(std::int32_t rank, std::int64_t ts_ns) {
    const auto at = static_cast<std::size_t>(rank);
    if (largest_.total() + largest_states_.total() == 0) return;
    const StateBytes states = at < timeline_.states.size() ? timeline_.states[at] : StateBytes{};
    const WorkingBytes& now = memory_[at].now();
    begin_counter("memory", rank, ts_ns);
    bool first = true;
    const auto put = [&](std::string_view name, std::int64_t value, std::int64_t largest) {
      if (largest == 0) return;
      fmt::format_to(std::back_inserter(out_), R"({}"{}":{})", first ? "" : ",", name, value);
      first = false;
    };
    put("weights", states.weights, largest_states_.weights);
    put("gradients", states.gradients, largest_states_.gradients);
    put("optimizer", states.optimizer, largest_states_.optimizer);
    put("activations", now.activations, largest_.activations);
    put("weight_residue", now.residue, largest_.residue);
    put("send_buffers", now.send_buffers, largest_.send_buffers);
    put("receive_buffers", now.receive_buffers, largest_.receive_buffers);
    out_ += "}}";
  }

  const Timeline& timeline_;
  OutputFile& file_;
  std::string out_;
  bool first_ = true;
  std::vector<std::uint32_t> lane_;        // of each span, within its track
  std::vector<std::array<int, 3>> lanes_;  // of each rank, lanes a track
  std::vector<MemoryMeter> memory_;        // of each rank
  std::set<std::int32_t> changed_;         // ranks whose memory the instant has changed
  WorkingBytes largest_;                   // of one action on any stage
  StateBytes largest_states_;              // of any rank
};

}  // namespace

void write_chrome_trace(const Timeline& timeline, std::string_view metadata_json,
                        OutputFile& file) {
  Writer(timeline, file).run(metadata_json);
}

}  // namespace pipesim
