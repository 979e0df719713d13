#include "traces/chrome_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "traces/base/json.h"
#include "traces/base/large_vector.h"
#include "traces/chrome_text.h"
#include "traces/run_metadata.h"

namespace pipesim {
namespace {

// The kind of a line; at equal times a slice comes before nested ones, and a flow after its slice.
// A rank's counters follow its spans, ends before starts; its memory is written once per instant.
enum class Line : std::uint8_t { slice, layer, exchange, counter, sample, flow_start, flow_end };

struct Entry {
  std::int64_t ts_ns;
  Line line;
  std::uint32_t index;  // index of the span, layer, exchange or sample
  bool at_end = false;  // for a counter: counts the changes at the span's end
};

enum class ActionTrack : std::uint8_t { compute, send, receive, collectives, storage };
constexpr std::array<std::string_view, 5> track_names{"compute", "send", "receive", "collectives",
                                                      "storage"};

ActionTrack track_of(const Action& action) {
  if (is_send(action.kind)) return ActionTrack::send;
  if (is_receive(action.kind)) return ActionTrack::receive;
  if (is_save_beside(action)) return ActionTrack::storage;
  // Actions without duration are where their rank reached them.
  const bool takes_time = is_collective(action) && action.kind != Kind::RESHARD;
  return takes_time ? ActionTrack::collectives : ActionTrack::compute;
}

std::string_view category_of(const Action& action) {
  if (is_transfer(action.kind)) return "p2p";
  if (action.kind == Kind::SAVE) return "storage";
  const bool is_of_group = is_collective(action) || is_blocking_collective(action.kind);
  return is_of_group ? "collective" : "compute";
}

// chrome://tracing's colours nearest to the project's.
std::string_view colour_of(Kind kind) {
  switch (kind) {
    case Kind::F: return "rail_response";
    case Kind::I:
    case Kind::B: return "rail_idle";
    case Kind::W: return "rail_load";
    default: return "grey";
  }
}

// A lane is one row of slices that do not overlap: compute has one, a rank's
// sends, receives and collectives as many as are in flight at once. A slice of no length
// counts as one nanosecond, so that a flow there finds one slice.
struct Lanes {
  using Taken = std::pair<std::int64_t, std::uint32_t>;  // (until, lane)
  std::priority_queue<Taken, std::vector<Taken>, std::greater<>> taken;
  std::set<std::uint32_t> free;
  std::uint32_t count = 0;
  std::vector<int> threads;  // of each lane that has a name

  // Takes the lowest lane that is free at the span's start.
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

// The state of a rank's rows and counters.
struct Rank {
  std::array<Lanes, track_names.size()> lanes;  // by track
  int threads = 0;
  StateBytes states;
  MemoryMeter meter;     // predicted
  WorkingBytes working;  // as last written
  std::int64_t chunks = 0;
};

// As between the quotes of a JSON string.
std::string escaped(const std::string& text) {
  const std::string quoted = quoted_json(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

class ChromeTraceWriter::Impl {
 public:
  Impl(const TimelineFrame& frame, std::string_view metadata_json, OutputFile& file,
       std::optional<MeasuredRun> measured, const Mesh& mesh)
      : frame_(frame),
        text_(file, metadata_json),
        is_measured_(measured.has_value()),
        mesh_(mesh),
        pipelines_(static_cast<int>(mesh.stride(Axis::pipeline))),
        started_(static_cast<std::size_t>(pipelines_)),
        ranks_(static_cast<std::size_t>(frame.ranks) * static_cast<std::size_t>(pipelines_)) {
    if (measured) {
      for (const std::string& layer : measured->layers) layers_.push_back(escaped(layer));
      largest_ = measured->largest_working;
      largest_states_ = measured->largest_states;
    } else {
      find_largest();
    }
  }

  void add(std::span<const Span> spans, std::span<const LayerSpan> layers,
           std::span<const MemorySample> samples, int pipeline,
           std::span<const ExchangeSpan> exchanges) {
    spans_ = spans;
    pipeline_ = pipeline;
    find_iterations();
    assign_lanes();
    write_names();
    if (!started() && !is_measured_) {
      for (int rank = 0; rank < frame_.ranks; ++rank) write_memory(rank, 0);
    }
    started_[static_cast<std::size_t>(pipeline_)] = true;
    std::int64_t now_ns = 0;
    for (const Entry& entry : sorted_entries(layers, exchanges, samples)) {
      if (entry.ts_ns > now_ns) write_changed_memory(now_ns);
      now_ns = entry.ts_ns;
      switch (entry.line) {
        case Line::slice: write_slice(entry.index); break;
        case Line::layer: write_layer(layers[entry.index]); break;
        case Line::exchange: write_exchange(exchanges[entry.index]); break;
        case Line::counter: count(spans[entry.index], entry.ts_ns, entry.at_end); break;
        case Line::sample: take(samples[entry.index]); break;
        default: write_flow(entry.index, entry.line == Line::flow_start, entry.ts_ns); break;
      }
    }
    write_changed_memory(now_ns);
  }

  void finish() { text_.finish(); }

 private:
  void find_largest() {
    for (const StageFootprint& stage : frame_.footprints) {
      largest_.activations = std::max(largest_.activations, stage.activation_bytes);
      largest_.residue = std::max(largest_.residue, stage.weight_residue_bytes);
      largest_.send_buffers = std::max(
          {largest_.send_buffers, stage.forward_output_bytes, stage.backward_output_bytes});
      largest_.receive_buffers = std::max(
          {largest_.receive_buffers, stage.forward_input_bytes, stage.backward_input_bytes});
      largest_.unsharded = std::max(largest_.unsharded, stage.unsharded_bytes);
      largest_.workspace = std::max(largest_.workspace, stage.workspace_bytes);
    }
    for (std::size_t r = 0; r < frame_.states.size(); ++r) {
      const StateBytes& states = frame_.states[r];
      ranks_[r].states = states;
      largest_states_.weights = std::max(largest_states_.weights, states.weights);
      largest_states_.gradients = std::max(largest_states_.gradients, states.gradients);
      largest_states_.optimizer = std::max(largest_states_.optimizer, states.optimizer);
    }
  }

  bool started() const { return started_[static_cast<std::size_t>(pipeline_)]; }
  // The rank in the mesh, in which ranks at the same position of all pipelines are adjacent.
  std::int32_t in_mesh(std::int32_t rank) const { return rank * pipelines_ + pipeline_; }
  Rank& rank_of(std::int32_t rank) { return ranks_[static_cast<std::size_t>(in_mesh(rank))]; }
  Lanes& lanes_of(const Span& span) {
    return rank_of(span.rank).lanes[static_cast<std::size_t>(track_of(span.action))];
  }

  void assign_lanes() {
    lane_.assign(spans_.size(), 0);
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const Span& span = spans_[i];
      if (track_of(span.action) != ActionTrack::compute) lane_[i] = lanes_of(span).take(span);
    }
  }

  int thread_of(std::size_t index) { return lanes_of(spans_[index]).threads[lane_[index]]; }
  int process_of(std::int32_t rank) const { return in_mesh(rank) + 1; }

  // Its coordinates in a mesh of several pipelines.
  std::string place_of(std::int32_t rank) const {
    if (pipelines_ == 1) return {};
    const Coordinates at = mesh_.coordinates_of(in_mesh(rank));
    const std::string tensor =
        mesh_.size(Axis::tensor) > 1 ? fmt::format(", tensor {}", at.tensor) : "";
    return fmt::format(" (pipeline {}, data {}{})", rank, at.data, tensor);
  }

  // The thread of a rank's compute. For Perfetto the thread with its process's number is the main
  // one, and comes first.
  int main_thread_of(std::int32_t rank) const { return process_of(rank); }

  // Writes names of lanes that have none yet. Thread ids count from the main thread's: for viewers
  // 0 is the process itself.
  void write_names() {
    for (int r = 0; r < frame_.ranks; ++r) {
      Rank& rank = rank_of(r);
      const auto meta = [&](std::string_view name, int tid, std::string_view args) {
        text_.put_name(name, process_of(r), tid, args);
      };
      if (!started()) {
        meta("process_name", main_thread_of(r),
             fmt::format(R"("name":"rank {}{}")", in_mesh(r), place_of(r)));
        // Keeps pipelines together.
        meta("process_sort_index", main_thread_of(r),
             fmt::format(R"("sort_index":{})", pipeline_ * frame_.ranks + r));
      }
      for (std::size_t track = 0; track < track_names.size(); ++track) {
        Lanes& lanes = rank.lanes[track];
        const bool always = static_cast<ActionTrack>(track) < ActionTrack::collectives;
        const std::size_t count = std::max<std::uint32_t>(always ? 1 : 0, lanes.count);
        while (lanes.threads.size() < count) {
          const int tid = main_thread_of(r) + rank.threads++;
          lanes.threads.push_back(tid);
          meta("thread_name", tid,
               lanes.threads.size() == 1
                   ? fmt::format(R"("name":"{}")", track_names[track])
                   : fmt::format(R"("name":"{} {}")", track_names[track], lanes.threads.size()));
          meta("thread_sort_index", tid, fmt::format(R"("sort_index":{})", tid));
        }
      }
    }
  }

  // Finds the iterations of the spans.
  void find_iterations() {
    first_iteration_ = last_iteration_ = spans_.empty() ? 0 : spans_.front().iteration;
    for (const Span& span : spans_) {
      first_iteration_ = std::min(first_iteration_, span.iteration);
      last_iteration_ = std::max(last_iteration_, span.iteration);
    }
  }

  // When a transfer was sent and when its arrow arrives; -1 if that end is missing.
  struct Flow {
    std::int64_t start_ns = -1;
    std::int64_t end_ns = -1;

    // Measured clocks may have it end before it starts.
    bool points_forward() const { return start_ns >= 0 && end_ns >= start_ns; }
  };

  std::size_t flows_an_iteration() const {
    return 2 * frame_.chunk_of_stage.size() * static_cast<std::size_t>(frame_.microbatches);
  }

  // Counted from the first iteration being written.
  std::size_t flow_of(const Span& span) const {
    const Action sent = is_send(span.action.kind) ? span.action : peer_of(span.action);
    const auto microbatches = static_cast<std::size_t>(frame_.microbatches);
    return flows_an_iteration() * static_cast<std::size_t>(span.iteration - first_iteration_) +
           (sent.kind == Kind::SEND_B ? frame_.chunk_of_stage.size() * microbatches : 0) +
           static_cast<std::size_t>(sent.stage) * microbatches +
           static_cast<std::size_t>(sent.microbatch);
  }

  std::vector<Flow> flows() const {
    std::vector<Flow> flows(flows_an_iteration() *
                            static_cast<std::size_t>(last_iteration_ - first_iteration_ + 1));
    for (const Span& span : spans_) {
      if (!is_transfer(span.action.kind)) continue;
      Flow& flow = flows[flow_of(span)];
      if (is_send(span.action.kind)) {
        flow.start_ns = span.start_ns;
      } else {
        flow.end_ns = std::max(span.start_ns, span.end_ns - 1);  // the last instant inside
      }
    }
    return flows;
  }

  std::vector<Entry> sorted_entries(std::span<const LayerSpan> layers,
                                    std::span<const ExchangeSpan> exchanges,
                                    std::span<const MemorySample> samples) const {
    std::vector<Entry> entries;
    entries.reserve(spans_.size() * 2 + layers.size() + exchanges.size() + samples.size());
    const std::vector<Flow> all_flows = flows();
    for (std::uint32_t i = 0; i < spans_.size(); ++i) {
      const Span& span = spans_[i];
      const bool continues = i > 0 && spans_[i - 1].action.joined;
      if (!continues) entries.push_back({span.start_ns, Line::slice, i});
      if (is_transfer(span.action.kind)) {
        const Flow& flow = all_flows[flow_of(span)];
        if (flow.points_forward() && is_send(span.action.kind)) {
          entries.push_back({flow.start_ns, Line::flow_start, i});
        } else if (flow.points_forward()) {
          entries.push_back({flow.end_ns, Line::flow_end, i});
        }
      }
      if (!is_measured_) add_counters(entries, i);
    }
    for (std::uint32_t i = 0; i < layers.size(); ++i) {
      entries.push_back({layers[i].start_ns, Line::layer, i});
    }
    for (std::uint32_t i = 0; i < exchanges.size(); ++i) {
      entries.push_back({exchanges[i].start_ns, Line::exchange, i});
    }
    for (std::uint32_t i = 0; i < samples.size(); ++i) {
      entries.push_back({samples[i].time_ns, Line::sample, i});
    }
    std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
      return std::tuple(a.ts_ns, a.line, a.index, a.at_end) <
             std::tuple(b.ts_ns, b.line, b.index, b.at_end);
    });
    return entries;
  }

  // Adds counters where the span changes its rank's memory.
  void add_counters(std::vector<Entry>& entries, std::uint32_t index) const {
    const Span& span = spans_[index];
    const auto at_start = [&] { entries.push_back({span.start_ns, Line::counter, index, false}); };
    const auto at_end = [&] { entries.push_back({span.end_ns, Line::counter, index, true}); };
    switch (span.action.kind) {
      case Kind::F:
        at_start();
        if (footprint_of(span).forward_output_bytes > 0) at_end();
        break;
      case Kind::I:
      case Kind::B:
        if (footprint_of(span).workspace_bytes > 0) at_start();
        at_end();
        break;
      case Kind::W: at_end(); break;
      case Kind::SEND_F:
      case Kind::SEND_B:
        if (span.bytes > 0) at_end();
        break;
      case Kind::RECV_F:
      case Kind::RECV_B:
        if (span.bytes > 0) at_start();
        break;
      case Kind::UNSHARD:
        if (footprint_of(span).unsharded_bytes > 0 && is_collective(span.action)) at_start();
        break;
      case Kind::RESHARD:
        if (footprint_of(span).unsharded_bytes > 0 && is_collective(span.action)) at_end();
        break;
      default: break;
    }
  }

  const StageFootprint& footprint_of(const Span& span) const {
    return frame_.footprints[static_cast<std::size_t>(span.action.stage)];
  }
  int chunk_of(std::int32_t stage) const {
    return frame_.chunk_of_stage[static_cast<std::size_t>(stage)];
  }

  void write_slice(std::uint32_t index) {
    const Span& span = spans_[index];
    const Action& action = span.action;
    const std::size_t parts = action.joined ? 2 : 1;
    text_.begin_line();
    text_.text() += R"({"ph":"X","name":")";
    if (parts == 2) {
      const std::array<Action, 2> cell{action, spans_[index + 1].action};
      append_cell(text_.text(), cell.data(), parts);
    } else {
      append_text(text_.text(), action);
    }
    text_.put(R"(","cat":"{}","cname":"{}","pid":{},"tid":{},)", category_of(action),
              colour_of(action.kind), process_of(span.rank), thread_of(index));
    text_.put_times(span.start_ns, span.end_ns);
    text_.put(R"(,"args":{{"kind":"{}","stage":{},"rank":{},"chunk":{},"iteration":{})",
              parts == 2 ? "OVERLAP_F_B" : kind_name(action.kind), action.stage, span.rank,
              chunk_of(action.stage), span.iteration);
    append_replica();
    if (takes_microbatch(action.kind)) {
      text_.put(R"(,"microbatch":{})", action.microbatch);
    }
    if (parts == 2) {
      const Action& back = spans_[index + 1].action;
      text_.put(R"(,"backward_kind":"{}","backward_stage":{},"backward_chunk":{},)"
                R"("backward_microbatch":{})",
                kind_name(back.kind), back.stage, chunk_of(back.stage), back.microbatch);
    }
    if (is_collective(action) || is_save_beside(action)) {
      text_.put(R"(,"occurrence":{})", action.number);
    }
    if (is_communication(action) || action.kind == Kind::SAVE) {
      text_.put(R"(,"bytes":{})", span.bytes);
    }
    // A measured one has arrived only with all of its parts.
    if (is_collective(action) && action.kind == Kind::UNSHARD && !is_measured_ &&
        span.input_arrival_ns != span.end_ns) {
      text_.put(R"(,"first_part_ns":{})", span.input_arrival_ns - span.start_ns);
    }
    append_exchange(action);
    if (is_measured_) {
      text_.put(R"(,"queued_ns":{})", span.queued_ns);
      append_taken(span.preempted_ns);
    }
    text_.text() += "}}";
  }

  // On the compute thread, within the slice of its action.
  void write_layer(const LayerSpan& span) {
    text_.begin_line();
    text_.put(R"({{"ph":"X","name":"{} {}{}","cat":"layer","cname":"{}","pid":{},"tid":{},)",
              layers_[static_cast<std::size_t>(span.layer)], kind_name(span.kind),
              span.again ? " again" : "", colour_of(span.kind), process_of(span.rank),
              main_thread_of(span.rank));
    text_.put_times(span.start_ns, span.end_ns);
    text_.put(
        R"(,"args":{{"layer":{},"kind":"{}","stage":{},"microbatch":{},"iteration":{},"rank":{}{})",
        span.layer, kind_name(span.kind), span.action.stage, span.action.microbatch, span.iteration,
        span.rank, span.again ? R"(,"again":true)" : "");
    append_replica();
    append_taken(span.preempted_ns);
    text_.text() += "}}";
  }

  // Within the slice of its layer.
  void write_exchange(const ExchangeSpan& span) {
    text_.begin_line();
    text_.put(R"({{"ph":"X","name":"{}","cat":"tensor","cname":"grey","pid":{},"tid":{},)",
              name_of(span.what), process_of(span.rank), main_thread_of(span.rank));
    text_.put_times(span.start_ns, span.end_ns);
    text_.put(R"(,"args":{{"of":"{}","layer":{},"iteration":{},"rank":{},"ranks":{},)"
              R"("bytes":{},"exposed_ns":{})",
              to_text(span.action), span.layer, span.iteration, span.rank, span.ranks, span.bytes,
              span.exposed_ns);
    append_replica();
    text_.text() += "}}";
  }

  void append_replica() {
    if (pipelines_ > 1) text_.put(R"(,"replica":{})", pipeline_);
  }

  void append_exchange(const Action& action) {
    if (frame_.exchanges.empty() || !is_compute(action.kind) || action.kind == Kind::W) return;
    const StageExchanges& stage = frame_.exchanges[static_cast<std::size_t>(action.stage)];
    const TensorExchange& own = action.kind == Kind::F ? stage.forward : stage.backward;
    if (own.ns == 0) return;
    text_.put(R"(,"tensor_ns":{},"tensor_hidden_ns":{})", own.ns, own.hidden_ns);
  }

  void append_taken(std::int64_t preempted_ns) {
    if (preempted_ns > 0) text_.put(R"(,"taken_ns":{})", preempted_ns);
  }

  // One number per transfer, the same at both ends.
  void write_flow(std::uint32_t index, bool start, std::int64_t ts_ns) {
    const Span& span = spans_[index];
    const std::size_t id =
        1 + flow_of(span) +
        flows_an_iteration() * static_cast<std::size_t>(first_iteration_ * pipelines_ + pipeline_);
    const bool is_forward = span.action.kind == Kind::SEND_F || span.action.kind == Kind::RECV_F;
    text_.begin_line();
    text_.put(R"({{"ph":"{}",{}"id":{},"name":"{}","cat":"p2p","pid":{},"tid":{},)",
              start ? "s" : "f", start ? "" : R"("bp":"e",)", id,
              is_forward ? "activation" : "gradient", process_of(span.rank), thread_of(index));
    text_.put_ts(ts_ns);
    text_.text() += '}';
  }

  void begin_counter(std::string_view name, std::int32_t rank, std::int64_t ts_ns) {
    text_.begin_line();
    text_.put(R"({{"ph":"C","name":"{}","pid":{},"tid":{},)", name, process_of(rank),
              main_thread_of(rank));
    text_.put_ts(ts_ns);
    text_.text() += R"(,"args":{)";
  }

  void write_chunks(std::int32_t rank, std::int64_t ts_ns) {
    begin_counter("activations", rank, ts_ns);
    text_.put(R"("chunks":{}}}}})", rank_of(rank).chunks);
  }

  // Applies a predicted span's changes.
  void count(const Span& span, std::int64_t ts_ns, bool at_end) {
    Rank& rank = rank_of(span.rank);
    if (at_end) {
      rank.meter.end(span.action, footprint_of(span), ts_ns);
    } else {
      rank.meter.start(span.action, footprint_of(span), ts_ns);
    }
    const std::int64_t chunks = rank.meter.chunks();
    if (std::exchange(rank.chunks, chunks) != chunks) write_chunks(span.rank, ts_ns);
    const WorkingBytes& now = rank.meter.now();
    if (std::exchange(rank.working, now) != now) changed_.insert(span.rank);
  }

  // Applies a measured rank's sample.
  void take(const MemorySample& sample) {
    Rank& rank = rank_of(sample.rank);
    rank.states = sample.states;
    rank.working = sample.working;
    changed_.insert(sample.rank);
    if (std::exchange(rank.chunks, sample.chunks) != sample.chunks) {
      write_chunks(sample.rank, sample.time_ns);
    }
  }

  // Called at the end of an instant, for the ranks whose memory changed.
  void write_changed_memory(std::int64_t ts_ns) {
    for (const std::int32_t rank : changed_) write_memory(rank, ts_ns);
    changed_.clear();
  }

  // A rank's memory, by category; categories that no rank ever has are omitted.
  void write_memory(std::int32_t rank, std::int64_t ts_ns) {
    if (largest_.total() + largest_states_.total() == 0) return;
    const StateBytes& states = rank_of(rank).states;
    const WorkingBytes& now = rank_of(rank).working;
    begin_counter("memory", rank, ts_ns);
    bool first = true;
    const auto put = [&](std::string_view name, std::int64_t value, std::int64_t largest) {
      if (largest == 0) return;
      text_.put(R"({}"{}":{})", first ? "" : ",", name, value);
      first = false;
    };
    put("weights", states.weights, largest_states_.weights);
    put("gradients", states.gradients, largest_states_.gradients);
    put("optimizer", states.optimizer, largest_states_.optimizer);
    put("activations", now.activations, largest_.activations);
    put("weight_residue", now.residue, largest_.residue);
    put("send_buffers", now.send_buffers, largest_.send_buffers);
    put("receive_buffers", now.receive_buffers, largest_.receive_buffers);
    put("unsharded", now.unsharded, largest_.unsharded);
    put("workspace", now.workspace, largest_.workspace);
    text_.text() += "}}";
  }

  const TimelineFrame frame_;
  ChromeText text_;
  const bool is_measured_;
  std::vector<std::string> layers_;  // their names, escaped
  WorkingBytes largest_;             // the largest of any action on any stage, or of any sample
  StateBytes largest_states_;        // the largest of any rank
  const Mesh mesh_;
  const int pipelines_;
  int pipeline_ = 0;           // whose iteration is being written
  std::vector<bool> started_;  // by pipeline: an iteration is written
  std::vector<Rank> ranks_;
  std::set<std::int32_t> changed_;    // ranks whose memory changed at this instant
  std::span<const Span> spans_;       // being written
  std::int32_t first_iteration_ = 0;  // of theirs
  std::int32_t last_iteration_ = 0;
  std::vector<std::uint32_t> lane_;  // by span, within its track
};

ChromeTraceWriter::ChromeTraceWriter(const TimelineFrame& frame, std::string_view metadata_json,
                                     OutputFile& file, std::optional<MeasuredRun> measured,
                                     const Mesh& mesh)
    : impl_(std::make_unique<Impl>(frame, metadata_json, file, std::move(measured), mesh)) {}
ChromeTraceWriter::~ChromeTraceWriter() = default;

void ChromeTraceWriter::add(std::span<const Span> spans, std::span<const LayerSpan> layers,
                            std::span<const MemorySample> samples, int pipeline,
                            std::span<const ExchangeSpan> exchanges) {
  impl_->add(spans, layers, samples, pipeline, exchanges);
}

void ChromeTraceWriter::finish() { impl_->finish(); }

void write_chrome_trace(const RecordedRun& run, OutputFile& file) {
  ChromeTraceWriter writer(run, metadata_json(run), file);
  if (run.iterations.size() < 2) {
    writer.add(run.spans);
  } else {
    // Iterations overlap, and memory is counted in the order of time.
    LargeVector<Span> spans = run.spans;
    std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
      return std::tuple(a.start_ns, a.rank) < std::tuple(b.start_ns, b.rank);
    });
    writer.add(spans);
  }
  writer.finish();
}

}  // namespace pipesim
