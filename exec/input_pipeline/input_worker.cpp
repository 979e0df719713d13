#include "exec/input_pipeline/input_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "exec/input_pipeline/lane_exchange.h"
#include "exec/run/scheduler_slice.h"
#include "traces/base/error.h"
#include "traces/base/threads.h"

namespace pipesim::exec {
namespace {

// Whether a stream's work keeps a processor busy for long. Others may preempt it, as copies and
// exchanges on a device use streams of high priority.
bool computes(InputStream stream) {
  return stream == InputStream::compute || stream == InputStream::lookup ||
         stream == InputStream::prefetch || stream == InputStream::prepare;
}

}  // namespace

InputWorker::InputWorker(const InputProgram& program, Transport& transport, InputWorkload& workload,
                         const Clock& clock)
    : calls_(program.calls[static_cast<std::size_t>(transport.rank())]),
      transport_(transport),
      workload_(workload),
      clock_(clock),
      courier_(transport),
      waiters_(calls_.size()),
      spans_(calls_.size()),
      ended_(calls_.size()) {
  static_assert(input_stream_count <= 16);
  for (Place place = 0; place < calls_.size(); ++place) {
    const auto stream = static_cast<unsigned>(calls_[place].stream);
    threads_[stream].places.push_back(place);
    for (const Place awaited : calls_[place].after) {
      waiters_[awaited] = static_cast<std::uint16_t>(waiters_[awaited] | 1U << stream);
    }
  }
}

std::vector<InputSpan> InputWorker::run() {
  barrier(transport_);
  std::exception_ptr courier_error;
  {
    std::vector<InputStream> streams{InputStream::host};
    for (std::size_t i = 1; i < threads_.size(); ++i) {
      if (!threads_[i].places.empty()) streams.push_back(static_cast<InputStream>(i));
    }
    working_ = static_cast<int>(streams.size());
    std::vector<std::jthread> threads;
    for (const InputStream stream : streams) {
      try {
        threads.push_back(start_thread(fmt::format("for stream {}", input_stream_name(stream)),
                                       [this, stream] { work(stream); }));
      } catch (const Error&) {
        fail(std::current_exception());
        break;
      }
    }
    try {
      const ShortTurns turns;
      courier_.carry();
    } catch (...) {
      courier_error = std::current_exception();
      fail({});
    }
  }
  if (error_) std::rethrow_exception(error_);
  if (courier_error) std::rethrow_exception(courier_error);
  return std::move(spans_);
}

void InputWorker::work(InputStream stream) {
  std::optional<ShortTurns> turns;
  if (!computes(stream)) turns.emplace();
  try {
    if (stream == InputStream::host) {
      call_all();
    } else {
      do_all(stream);
    }
  } catch (const Courier::Stopped&) {  // another one has reported the cause
  } catch (...) {
    fail(std::current_exception());
  }
  leave();
}

void InputWorker::call_all() {
  for (Place place = 0; place < calls_.size(); ++place) {
    InputSpan& span = spans_[place];
    span.called_ns = clock_.now_ns();
    if (calls_[place].stream == InputStream::host) {
      if (!await_turn(place)) return;
      act(place);
      span.issued_ns = span.end_ns;
    } else {
      workload_.call(calls_[place].action);
      span.issued_ns = clock_.now_ns();
    }
    tell_called(place);
  }
}

void InputWorker::do_all(InputStream stream) {
  for (const Place place : thread_of(stream).places) {
    if (!await_turn(place)) return;
    act(place);
  }
}

void InputWorker::act(Place place) {
  const InputCall& call = calls_[place];
  InputSpan& span = spans_[place];
  span.ready_ns = span.start_ns = clock_.now_ns();
  if (is_meeting(call.action.kind)) {
    LaneExchange exchange(courier_, static_cast<int>(call.stream), to_text(call.action));
    workload_.run(call.action, &exchange);
  } else {
    workload_.run(call.action, nullptr);
  }
  span.end_ns = clock_.now_ns();
  tell_end(place);
}

bool InputWorker::await_turn(Place place) {
  const InputCall& call = calls_[place];
  const bool is_of_host = call.stream == InputStream::host;
  std::unique_lock lock(mutex_);
  thread_of(call.stream).woken.wait(lock, [&] {
    return failed_ || ((is_of_host || place < called_) && have_ended(call.after));
  });
  return !failed_;
}

bool InputWorker::have_ended(const std::vector<Place>& places) const {
  return std::ranges::all_of(places, [&](Place place) { return ended_[place]; });
}

void InputWorker::tell_end(Place place) {
  const std::lock_guard lock(mutex_);
  ended_[place] = true;
  for (unsigned stream = 0; stream < threads_.size(); ++stream) {
    if ((waiters_[place] >> stream & 1U) != 0) threads_[stream].woken.notify_one();
  }
}

void InputWorker::tell_called(Place place) {
  const std::lock_guard lock(mutex_);
  called_ = place + 1;
  thread_of(calls_[place].stream).woken.notify_one();
}

void InputWorker::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    if (!error_) error_ = std::move(error);
    for (Thread& thread : threads_) thread.woken.notify_one();
  }
  courier_.stop();
}

void InputWorker::leave() {
  const std::lock_guard lock(mutex_);
  if (--working_ == 0) courier_.stop();
}

}  // namespace pipesim::exec
