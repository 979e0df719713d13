// Streams as queues of operations that have still to run, and who runs next.
//
// An operation of a stream runs once all before it have; one that waits for an
// event, once that is recorded. Whatever else could run, the generator decides.
// Streams belong to the thread that made them: others run them only as far as
// they must. Not for several threads at once.
#pragma once

#include <emulated_gpu.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace emulated_gpu {

// One recording of an event.
struct Record {
  Stream* stream = nullptr;
  bool done = false;
  std::int64_t time = 0;  // nanoseconds
};

struct Event {
  int gpu = 0;
  bool is_timed = true;
  std::shared_ptr<Record> latest;  // null: never recorded
};

struct Operation {
  std::function<void()> run;
  std::shared_ptr<const Record> awaited = nullptr;
  const void* host = nullptr;  // pinned memory that it needs
  std::size_t host_bytes = 0;
};

struct Stream {
  int gpu = 0;
  std::thread::id owner;  // none: what it runs waits for something outside of the GPU
  std::deque<Operation> operations;
};

class Streams {
 public:
  using Random = std::mt19937_64;

  // Lazy ones leave everything until it is needed.
  explicit Streams(bool lazy) : lazy_(lazy) {}

  Stream* create(int gpu);
  bool has(const Stream* stream) const;
  // Of one that has run all.
  void destroy(Stream* stream);

  void push(Stream& stream, Operation operation) {
    stream.operations.push_back(std::move(operation));
  }
  // After that: whether something should run at once, and what.
  bool is_due(const Stream& stream, Random& random) const;
  void run_some(Stream& stream, Random& random);
  // Runs what the stream needs for `done`, and what else comes to mind; of this thread's streams
  // all that can go on, where that takes something outside of the GPU.
  void run_until(Stream& stream, const std::function<bool()>& done, Random& random);
  void run_all(Stream& stream, Random& random);
  // On the GPU.
  void run_everything(int gpu, Random& random);
  // One operation that the stream needs, and perhaps others.
  void advance(Stream& stream, Random& random);

  // Whether an operation that has still to run needs some of that memory.
  bool needs(const void* host, std::size_t bytes) const;

 private:
  void run_first(Stream& stream);
  // The stream itself, or the one that it is waiting for.
  Stream& needed(Stream& stream);
  // A stream of this thread, but not that one, that could go on; or null.
  Stream* any(const Stream* except, Random& random);

  bool lazy_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace emulated_gpu
