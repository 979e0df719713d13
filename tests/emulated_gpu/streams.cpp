#include "tests/emulated_gpu/streams.h"

#include <algorithm>

namespace emulated_gpu {
namespace {

constexpr std::size_t max_waiting = 1000;

bool could_go_on(const Stream& stream) {
  if (stream.operations.empty()) return false;
  const auto& awaited = stream.operations.front().awaited;
  return awaited == nullptr || awaited->done;
}

bool is_outside(const Stream& stream) { return stream.owner == std::thread::id(); }

}  // namespace

Stream* Streams::create(int gpu) {
  streams_.push_back(std::make_unique<Stream>());
  streams_.back()->gpu = gpu;
  streams_.back()->owner = std::this_thread::get_id();
  return streams_.back().get();
}

bool Streams::has(const Stream* stream) const {
  return std::ranges::any_of(streams_, [&](const auto& one) { return one.get() == stream; });
}

void Streams::destroy(Stream* stream) {
  std::erase_if(streams_, [&](const auto& one) { return one.get() == stream; });
}

bool Streams::is_due(const Stream& stream, Random& random) const {
  return stream.operations.size() > max_waiting || (!lazy_ && random() % 3 == 0);
}

void Streams::run_some(Stream& stream, Random& random) {
  if (stream.operations.size() > max_waiting) {
    run_until(
        stream, [&] { return stream.operations.size() <= max_waiting / 2; }, random);
    return;
  }
  do {
    Stream* next = any(nullptr, random);
    if (next == nullptr) return;
    run_first(*next);
  } while (random() % 2 == 0);
}

void Streams::run_first(Stream& stream) {
  const Operation operation = std::move(stream.operations.front());
  stream.operations.pop_front();
  operation.run();
}

Stream& Streams::needed(Stream& stream) {
  Stream* next = &stream;
  while (!could_go_on(*next)) next = next->operations.front().awaited->stream;
  return *next;
}

Stream* Streams::any(const Stream* except, Random& random) {
  std::vector<Stream*> ready;
  for (const auto& stream : streams_) {
    if (stream.get() != except && stream->owner == std::this_thread::get_id() &&
        could_go_on(*stream)) {
      ready.push_back(stream.get());
    }
  }
  return ready.empty() ? nullptr : ready[random() % ready.size()];
}

// The others run ahead as far as they can, or not at all, or by turns. Before anything that is not
// the GPU's is waited for, all that can run does: that may in turn wait for what another stream
// does, and a GPU runs its streams while the host waits for one.
void Streams::run_until(Stream& stream, const std::function<bool()>& done, Random& random) {
  const auto manner = random() % 3;
  while (manner == 0) {
    Stream* other = any(&stream, random);
    if (other == nullptr) break;
    run_first(*other);
  }
  while (!done()) {
    Stream& next = needed(stream);
    const bool lets_others = is_outside(next) || (manner == 1 && random() % 2 == 0);
    Stream* other = lets_others ? any(&stream, random) : nullptr;
    run_first(other != nullptr ? *other : next);
  }
}

void Streams::run_all(Stream& stream, Random& random) {
  run_until(
      stream, [&] { return stream.operations.empty(); }, random);
}

void Streams::run_everything(int gpu, Random& random) {
  for (const auto& stream : streams_) {
    if (stream->gpu == gpu) run_all(*stream, random);
  }
}

void Streams::advance(Stream& stream, Random& random) {
  run_first(needed(stream));
  while (random() % 2 == 0) {
    Stream* other = any(nullptr, random);
    if (other == nullptr) break;
    run_first(*other);
  }
}

bool Streams::needs(const void* host, std::size_t bytes) const {
  const auto* first = static_cast<const char*>(host);
  return std::ranges::any_of(streams_, [&](const auto& stream) {
    return std::ranges::any_of(stream->operations, [&](const Operation& operation) {
      const auto* other = static_cast<const char*>(operation.host);
      return other != nullptr && first < other + operation.host_bytes && other < first + bytes;
    });
  });
}

}  // namespace emulated_gpu
