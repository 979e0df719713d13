// Runs one rank's part of an input pipeline's program, and records when.
//
// The thread that calls run() is the transport's, and carries the exchanges (courier.h).
// One thread is the host: it issues the actions in order, and runs its own kinds itself. Each
// other stream that has any actions is a thread, which runs them in order, each once the host has
// issued it and what it waits for has ended. The first error on any thread ends all.
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "exec/input_pipeline/courier.h"
#include "exec/input_pipeline/input_workload.h"
#include "exec/run/clock.h"
#include "exec/transport/transport.h"
#include "traces/input_program.h"
#include "traces/input_run.h"

namespace pipesim::exec {

class InputWorker {
 public:
  // All must outlive it. The program must have no fault, and as many ranks as the transport.
  InputWorker(const InputProgram& program, Transport& transport, InputWorkload& workload,
              const Clock& clock = {});

  // Called by all ranks, once; none begins before all have called it. Spans are by the rank's
  // clock; for a collective `start_ns` is when this rank was ready.
  std::vector<InputSpan> run();

 private:
  using Place = std::uint32_t;
  // Each thread has its own condition.
  struct Thread {
    std::vector<Place> places;  // of its actions, in order
    std::condition_variable woken;
  };

  Thread& thread_of(InputStream stream) { return threads_[static_cast<std::size_t>(stream)]; }
  void work(InputStream stream);
  void call_all();
  void do_all(InputStream stream);
  // Runs an action that is next on its stream, and that the host has called.
  void act(Place place);
  // False if the run is aborted.
  bool await_turn(Place place);
  bool have_ended(const std::vector<Place>& places) const;
  void tell_end(Place place);
  void tell_called(Place place);
  void fail(std::exception_ptr error);
  void leave();

  const InputCalls& calls_;
  Transport& transport_;
  InputWorkload& workload_;
  Clock clock_;
  Courier courier_;
  std::array<Thread, input_stream_count> threads_;  // by stream
  std::vector<std::uint16_t> waiters_;  // by place, a bit for each stream that waits for it
  std::vector<InputSpan> spans_;        // each written by its thread

  std::mutex mutex_;
  std::size_t called_ = 0;   // calls that the host has made
  std::vector<bool> ended_;  // by place
  int working_ = 0;          // threads
  bool failed_ = false;
  std::exception_ptr error_;  // the first other than Courier::Stopped
};

}  // namespace pipesim::exec
