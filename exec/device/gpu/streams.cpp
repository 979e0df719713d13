#include "exec/device/gpu/streams.h"

#include <chrono>
#include <cmath>
#include <utility>

namespace pipesim::exec {
namespace {

std::int64_t monotonic_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

double elapsed_ns(gpuEvent_t from, gpuEvent_t to) {
  float ms = 0;
  check(gpuEventElapsedTime(&ms, from, to), "tell a time");
  return static_cast<double>(ms) * 1e6;
}

}  // namespace

Stream::Stream() {
  check(gpuStreamCreateWithFlags(&stream_, gpuStreamNonBlocking), "create a stream");
}

Stream::~Stream() { static_cast<void>(gpuStreamDestroy(stream_)); }

void Stream::finish() const { check(gpuStreamSynchronize(stream_), "run what was asked for"); }

Event::Event() { check(gpuEventCreateWithFlags(&event_, 0), "create an event"); }

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

Event::~Event() {
  if (event_ != nullptr) static_cast<void>(gpuEventDestroy(event_));
}

Marks::Marks(const Stream& stream) : stream_(stream) { look(before_); }

Mark Marks::set(const Stream& stream) {
  if (used_ == events_.size()) events_.emplace_back();
  const auto mark = static_cast<Mark>(used_++);
  check(gpuEventRecord(event_of(mark), stream.get()), "record an event");
  seen_after_ = false;
  return mark;
}

bool Marks::has_passed(Mark mark) const {
  const gpuError_t result = gpuEventQuery(event_of(mark));
  if (result == gpuErrorNotReady) {
    static_cast<void>(gpuGetLastError());  // cleared, or the next kernel would report it
    return false;
  }
  check(result, "run what was asked for");
  return true;
}

void Marks::follow(const Stream& stream, Mark mark) const {
  check(gpuStreamWaitEvent(stream.get(), event_of(mark), 0), "wait for an event");
}

// Takes the try with the shortest time between the host's clock readings; the event was in between.
void Marks::look(Sight& sight) const {
  constexpr int tries = 8;
  stream_.finish();
  std::int64_t least = INT64_MAX;
  for (int i = 0; i < tries; ++i) {
    Event event;
    const std::int64_t before = monotonic_ns();
    check(gpuEventRecord(event.get(), stream_.get()), "record an event");
    check(gpuEventSynchronize(event.get()), "wait for an event");
    const std::int64_t took = monotonic_ns() - before;
    if (took >= least) continue;
    least = took;
    std::swap(sight.event, event);
    sight.host_ns = before + took / 2;
  }
}

std::int64_t Marks::time_of(Mark mark) {
  if (!seen_after_) look(after_);
  seen_after_ = true;
  const double whole = elapsed_ns(before_.event.get(), after_.event.get());
  const auto host = static_cast<double>(after_.host_ns - before_.host_ns);
  const double rate = whole > 0 ? host / whole : 1;
  const double since = elapsed_ns(before_.event.get(), event_of(mark));
  return before_.host_ns + std::llround(since * rate);
}

void Marks::forget() {
  if (!seen_after_) look(after_);
  std::swap(before_, after_);
  seen_after_ = false;
  used_ = 0;
}

}  // namespace pipesim::exec
