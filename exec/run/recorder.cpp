#include "exec/run/recorder.h"

#include <algorithm>

namespace pipesim::exec {

void Recorder::start_iteration(bool keep) {
  keep_ = keep;
  actions_.clear();
  layers_.clear();
  exchanges_.clear();
  memory_.clear();
}

std::int64_t Recorder::time_of(Instant instant) const {
  return instant.is_mark ? clock_.shown_at(device_.time_of(instant.value)) : instant.value;
}

void Recorder::finish_iteration() {
  if (keep_) {
    IterationRecord record;
    for (const ActionNote& note : actions_) {
      // If one is the device's and the other this thread's, they may be out of order by the error
      // of relating the two clocks.
      const std::int64_t start = time_of(note.start);
      const std::int64_t end = std::max(start, time_of(note.end));
      Span& span = record.spans.emplace_back(Span{note.action, 0, 0, start, end});
      span.bytes = note.bytes;
      span.queued_ns = start - time_of(note.reached);
      span.preempted_ns = std::min(note.preempted_ns, end - start);
    }
    for (const LayerNote& note : layers_) {
      const std::int64_t start = time_of(note.start);
      const std::int64_t end = time_of(note.end);
      record.layers.push_back({0, 0, note.layer, note.kind, note.again, note.action, start, end,
                               std::min(note.preempted_ns, end - start)});
    }
    for (const ExchangeNote& note : exchanges_) {
      const std::int64_t start = time_of(note.start);
      const std::int64_t end = std::max(start, time_of(note.end));
      const std::int64_t begun = std::clamp(time_of(note.begun), start, end);
      const std::int64_t awaited = std::clamp(time_of(note.awaited), begun, end);
      record.exchanges.push_back({0, 0, note.layer, note.what, note.ranks, note.action, note.bytes,
                                  start, end, begun - start + end - awaited});
    }
    for (const MemoryNote& note : memory_) {
      record.samples.push_back(
          {0, time_of(note.time), note.bytes.states(), note.bytes.working(), note.chunks});
    }
    kept_.push_back(std::move(record));
  }
  device_.forget_marks();
}

void Recorder::add_beside(std::size_t place, const Action& action, std::int64_t bytes,
                          std::int64_t start_monotonic_ns, std::int64_t end_monotonic_ns) {
  Span span{action, 0, 0, clock_.shown_at(start_monotonic_ns), clock_.shown_at(end_monotonic_ns)};
  span.bytes = bytes;
  kept_[place].spans.push_back(span);
}

}  // namespace pipesim::exec
