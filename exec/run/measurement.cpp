#include "exec/run/measurement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "exec/transport/collectives.h"
#include "traces/joining.h"

namespace pipesim::exec {
namespace {

template <typename T>
void append(Bytes& bytes, const std::vector<T>& values) {
  const auto own = bytes_of(values);
  bytes.insert(bytes.end(), own.begin(), own.end());
}

// Reads the output of append(), list by list.
template <typename T>
std::vector<T> take(std::span<const std::byte>& bytes, std::int64_t count) {
  const std::size_t size = static_cast<std::size_t>(count) * sizeof(T);
  std::vector<T> values = values_of<T>(bytes.first(size));
  bytes = bytes.subspan(size);
  return values;
}

std::int64_t count_of(const auto& list) { return static_cast<std::int64_t>(list.size()); }

// Converts times to rank 0's clock.
IterationRecord related(IterationRecord record, const ClockRelation& clock) {
  for (Span& span : record.spans) {
    const std::int64_t reached_ns = clock.to_first(span.start_ns - span.queued_ns);
    for (std::int64_t* time : {&span.start_ns, &span.end_ns}) *time = clock.to_first(*time);
    span.queued_ns = span.start_ns - reached_ns;
    span.preempted_ns = std::min(span.preempted_ns, span.end_ns - span.start_ns);
  }
  for (LayerSpan& layer : record.layers) {
    for (std::int64_t* time : {&layer.start_ns, &layer.end_ns}) *time = clock.to_first(*time);
    layer.preempted_ns = std::min(layer.preempted_ns, layer.end_ns - layer.start_ns);
  }
  for (ExchangeSpan& exchange : record.exchanges) {
    for (std::int64_t* time : {&exchange.start_ns, &exchange.end_ns}) {
      *time = clock.to_first(*time);
    }
    exchange.exposed_ns = std::min(exchange.exposed_ns, exchange.end_ns - exchange.start_ns);
  }
  for (MemorySample& sample : record.samples) sample.time_ns = clock.to_first(sample.time_ns);
  return record;
}

// A blocking collective begins once the last rank of its group has arrived; before that a rank
// waits. Its spans say when each arrived. All pipelines compute a norm together.
void start_groups_together(std::vector<Span>& spans, Transport& leaders) {
  for (const Kind kind : {Kind::REDUCE_TIED, Kind::GRAD_NORM}) {
    std::int64_t start_ns = std::numeric_limits<std::int64_t>::min();
    for (const Span& span : spans) {
      if (span.action.kind == kind) start_ns = std::max(start_ns, span.start_ns);
    }
    if (kind == Kind::GRAD_NORM && leaders.ranks() > 1) {
      for (const std::int64_t theirs : gather_value(leaders, start_ns)) {
        start_ns = std::max(start_ns, theirs);
      }
      start_ns = broadcast_value(leaders, start_ns);
    }
    for (Span& span : spans) {
      if (span.action.kind != kind) continue;
      const std::int64_t later_ns = std::min(start_ns, span.end_ns) - span.start_ns;
      span.start_ns += later_ns;
      span.queued_ns += later_ns;
    }
  }
}

// An exchange with replicas, likewise, begins once the last of its group has reached it, and
// everything that it gathers has arrived at its end.
void start_exchanges_together(std::vector<Span>& spans, Transport& group) {
  struct Begin {
    Action action;
    std::int64_t start_ns = 0;
  };
  const auto is_exchange = [](const Span& span) {
    return is_collective(span.action) && span.action.kind != Kind::RESHARD;
  };
  std::vector<Begin> begins;
  for (const Span& span : spans) {
    if (is_exchange(span)) begins.push_back({span.action, span.start_ns});
  }
  std::map<ActionKey, Begin> last;
  for (const Bytes& bytes : gather(group, bytes_of(begins))) {
    for (const Begin& begin : values_of<Begin>(bytes)) {
      Begin& own = last.try_emplace(ActionKey(begin.action), begin).first->second;
      own.start_ns = std::max(own.start_ns, begin.start_ns);
    }
  }
  begins.clear();
  for (const auto& [key, begin] : last) begins.push_back(begin);
  const auto sent = bytes_of(begins);
  for (const Begin& begin : values_of<Begin>(broadcast(group, {sent.begin(), sent.end()}))) {
    last.try_emplace(ActionKey(begin.action), begin);
  }
  for (Span& span : spans) {
    if (!is_exchange(span)) continue;
    const std::int64_t start_ns = last.at(ActionKey(span.action)).start_ns;
    const std::int64_t later_ns = std::min(start_ns, span.end_ns) - span.start_ns;
    span.start_ns += later_ns;
    span.queued_ns += later_ns;
    if (span.action.kind == Kind::UNSHARD) span.input_arrival_ns = span.end_ns;
  }
}

Bytes bytes_of_record(const IterationRecord& record) {
  Bytes message;
  append(message, std::vector<std::int64_t>{count_of(record.spans), count_of(record.layers),
                                            count_of(record.exchanges), count_of(record.samples)});
  append(message, record.spans);
  append(message, record.layers);
  append(message, record.exchanges);
  append(message, record.samples);
  return message;
}

IterationRecord record_of(std::span<const std::byte> bytes) {
  const auto counts = take<std::int64_t>(bytes, 4);
  IterationRecord record;
  record.spans = take<Span>(bytes, counts[0]);
  record.layers = take<LayerSpan>(bytes, counts[1]);
  record.exchanges = take<ExchangeSpan>(bytes, counts[2]);
  record.samples = take<MemorySample>(bytes, counts[3]);
  return record;
}

}  // namespace

std::vector<IterationExtent> gather_extents(Transport& transport, const Recorder& recorder,
                                            const ClockRelation& clock, bool continuous) {
  struct Reach {
    std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
    std::int64_t end_ns = 0;

    void add(const Reach& other) {
      start_ns = std::min(start_ns, other.start_ns);
      end_ns = std::max(end_ns, other.end_ns);
    }
  };
  std::vector<Reach> own;
  for (const IterationRecord& iteration : recorder.iterations()) {
    Reach& reach = own.emplace_back();
    for (const Span& span : iteration.spans) {
      if (is_transfer(span.action.kind) || is_save_beside(span.action)) continue;
      reach.add({clock.to_first(span.start_ns), clock.to_first(span.end_ns)});
    }
  }
  std::vector<Reach> all;
  for (const Bytes& bytes : gather(transport, bytes_of(own))) {
    const auto theirs = values_of<Reach>(bytes);
    all.resize(theirs.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i].add(theirs[i]);
  }
  std::vector<IterationExtent> extents;
  for (const Reach& reach : all) {
    const IterationExtent extent{reach.start_ns, reach.end_ns - reach.start_ns};
    std::optional<IterationExtent> behind;
    if (continuous && !extents.empty()) behind = extent_behind(extents.back(), extent);
    extents.push_back(behind.value_or(extent));
  }
  return extents;
}

std::vector<MeasuredTransfer> gather_transfers(Transport& transport, const Mesh& mesh,
                                               const Recorder& recorder, std::size_t iteration,
                                               const ClockRelation& clock) {
  struct End {
    Action transfer;
    std::int64_t time_ns = 0;
  };
  std::vector<End> own;
  for (const Span& span : recorder.iterations()[iteration].spans) {
    if (!is_transfer(span.action.kind)) continue;
    const bool sends = is_send(span.action.kind);
    own.push_back({span.action, clock.to_first(sends ? span.start_ns : span.end_ns)});
  }
  // By the pipeline and the SEND.
  std::map<std::pair<std::int64_t, ActionKey>, MeasuredTransfer> transfers;
  int rank = 0;
  for (const Bytes& bytes : gather(transport, bytes_of(own))) {
    for (const End& end : values_of<End>(bytes)) {
      const bool sends = is_send(end.transfer.kind);
      MeasuredTransfer& transfer =
          transfers[{rank % mesh.stride(Axis::pipeline),
                     ActionKey(sends ? end.transfer : peer_of(end.transfer))}];
      (sends ? transfer.from : transfer.to) = rank;
      transfer.took_ns += sends ? -end.time_ns : end.time_ns;
    }
    ++rank;
  }
  std::vector<MeasuredTransfer> result;
  for (const auto& [send, transfer] : transfers) result.push_back(transfer);
  return result;
}

LargestBytes gather_largest(Transport& transport, const Recorder& recorder) {
  const auto raise = [](auto& largest, const auto& other, auto... fields) {
    ((largest.*fields = std::max(largest.*fields, other.*fields)), ...);
  };
  const auto add = [&](LargestBytes& largest, const StateBytes& states,
                       const WorkingBytes& working) {
    raise(largest.states, states, &StateBytes::weights, &StateBytes::gradients,
          &StateBytes::optimizer);
    raise(largest.working, working, &WorkingBytes::activations, &WorkingBytes::residue,
          &WorkingBytes::send_buffers, &WorkingBytes::receive_buffers, &WorkingBytes::unsharded,
          &WorkingBytes::workspace);
  };
  LargestBytes own;
  for (const IterationRecord& iteration : recorder.iterations()) {
    for (const MemorySample& sample : iteration.samples) add(own, sample.states, sample.working);
  }
  LargestBytes largest;
  for (const LargestBytes& theirs : gather_value(transport, own)) {
    add(largest, theirs.states, theirs.working);
  }
  return largest;
}

IterationRecord gather_iteration(Transport& transport, const Leaders& leaders,
                                 const Recorder& recorder, std::size_t iteration,
                                 std::int64_t zero_ns, const ClockRelation& clock) {
  IterationRecord result;
  const auto number = static_cast<std::int32_t>(iteration);
  const Bytes own = bytes_of_record(related(recorder.iterations()[iteration], clock));
  std::int32_t rank = 0;
  for (const Bytes& bytes : gather(transport, own)) {
    const IterationRecord theirs = record_of(bytes);
    for (Span span : theirs.spans) {
      span.rank = rank;
      span.iteration = number;
      for (std::int64_t* time : {&span.start_ns, &span.end_ns}) *time -= zero_ns;
      result.spans.push_back(span);
    }
    for (LayerSpan layer : theirs.layers) {
      layer.rank = rank;
      layer.iteration = number;
      for (std::int64_t* time : {&layer.start_ns, &layer.end_ns}) *time -= zero_ns;
      result.layers.push_back(layer);
    }
    for (ExchangeSpan exchange : theirs.exchanges) {
      exchange.rank = rank;
      exchange.iteration = number;
      for (std::int64_t* time : {&exchange.start_ns, &exchange.end_ns}) *time -= zero_ns;
      result.exchanges.push_back(exchange);
    }
    for (MemorySample sample : theirs.samples) {
      sample.rank = rank;
      // Memory held before the first start counts from there.
      sample.time_ns = std::max<std::int64_t>(0, sample.time_ns - zero_ns);
      result.samples.push_back(sample);
    }
    ++rank;
  }
  if (transport.rank() != 0) return result;

  start_groups_together(result.spans, leaders.all);
  start_exchanges_together(result.spans, leaders.sharing);

  // A RECV covers the time from when both ends were ready to the arrival; a SEND that from its
  // start to when its buffer was free again.
  const SpanIndex index(result.spans);
  for (Span& span : result.spans) {
    if (!is_receive(span.action.kind)) continue;
    const Span& send = result.spans[index.find(peer_of(span.action)).value()];
    span.end_ns = std::max(span.end_ns, send.start_ns + min_transfer_ns);
    span.start_ns = std::clamp(send.start_ns, span.start_ns, span.end_ns);
  }
  join_inputs(result.spans, index);
  const auto by_start = [](const auto& a, const auto& b) {
    return std::tuple(a.start_ns, a.rank) < std::tuple(b.start_ns, b.rank);
  };
  std::ranges::stable_sort(result.spans, by_start);
  std::ranges::stable_sort(result.layers, by_start);
  std::ranges::stable_sort(result.exchanges, by_start);
  std::ranges::stable_sort(result.samples, {}, &MemorySample::time_ns);
  return result;
}

std::vector<IterationRecord> gather_records(Transport& transport, const IterationRecord& own) {
  std::vector<IterationRecord> records;
  for (const Bytes& bytes : gather(transport, bytes_of_record(own))) {
    records.push_back(record_of(bytes));
  }
  return records;
}

}  // namespace pipesim::exec
