#include "traces/input_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "traces/base/memory.h"
#include "traces/base/text.h"
#include "traces/event/event_engine.h"

namespace pipesim {
namespace {

// Calls as tasks of the event engine. Call n has three: the host's part, which is everything for
// the host's own actions; for a collective its rank's arrival, which takes no time; and its work.
class InputTasks {
 public:
  InputTasks(const InputProgram& program, std::vector<CallWork> work, FlowNetwork network)
      : program_(program), work_(std::move(work)) {
    constexpr double bytes_of_call = 200;  // tasks, spans and the run's copy of the program
    check_memory(plural(program.size(), "call"),
                 static_cast<double>(program.size()) * bytes_of_call);
    plan_.network = std::move(network);
    std::uint32_t count = 0;
    for (const InputCalls& calls : program.calls) {
      first_.push_back(count);
      count += static_cast<std::uint32_t>(calls.size());
      run_.spans.emplace_back(calls.size());
    }
    first_.push_back(count);
    rank_of_.reserve(count);
    groups_.assign(count, no_group);
    plan_.resize(static_cast<std::size_t>(program.ranks()) * input_stream_count,
                 std::size_t{count} * tasks_of_call);
    for (int rank = 0; rank < program.ranks(); ++rank) add(rank);
    group_parts();
    for (std::size_t group = 0; group < parts_.size(); ++group) {
      missing_.push_back(parts_[group].size());
    }
  }

  std::variant<InputRun, InputFault> run() {
    run_.program = program_;
    EventEngine<InputTasks> engine(*this, std::move(plan_));
    engine_ = &engine;
    if (!engine.run()) return describe_circle();
    check_sums(run_, program_.name);
    return std::move(run_);
  }

  // Callbacks of the engine.
  void start(TaskId task) {
    const std::uint32_t node = task / tasks_of_call;
    const CallWork& work = work_[node];
    const std::int64_t now = engine_->now_ns();
    InputSpan& span = span_of(node);
    switch (part_of(task)) {
      case Part::host:
        span.called_ns = node == first_[rank(node)] ? 0 : span_of(node - 1).issued_ns;
        if (stands_on_host(node)) {
          span.ready_ns = span.start_ns = now;
          return engine_->finish_at(task, now + work.duration_ns);
        }
        return engine_->finish_at(task, now + work.host_ns);
      case Part::coming: span.ready_ns = now; return engine_->finish_at(task, now);
      case Part::work:
        if (groups_[node] == no_group) span.ready_ns = now;
        span.start_ns = now;
        return engine_->send(task, work.route.value_or(no_route), work.bytes);
    }
  }

  void finish(TaskId task) {
    const std::uint32_t node = task / tasks_of_call;
    InputSpan& span = span_of(node);
    switch (part_of(task)) {
      case Part::host:
        span.issued_ns = engine_->now_ns();
        if (stands_on_host(node)) {
          end(node);
        } else {
          engine_->signal(first_task(node));
        }
        return;
      case Part::coming: {
        const std::uint32_t group = groups_[node];
        if (--missing_[group] > 0) return;
        for (const std::uint32_t part : parts_[group]) engine_->signal(task_of(part, Part::work));
        return;
      }
      case Part::work: end(node);
    }
  }

  static bool is_current(TaskId /*task*/, std::uint32_t /*version*/) { return true; }
  std::array<StreamId, 2> streams_of(TaskId task) const {
    const std::uint32_t node = task / tasks_of_call;
    const InputStream stream = part_of(task) == Part::host ? InputStream::host : call(node).stream;
    return {stream_of(rank(node), stream), no_stream};
  }
  std::int64_t latency_of(TaskId task) const { return work_[task / tasks_of_call].duration_ns; }

 private:
  enum class Part : std::uint8_t { host, coming, work };
  static constexpr std::uint32_t tasks_of_call = 3;
  static constexpr std::uint32_t no_group = 0xffffffff;

  static Part part_of(TaskId task) { return static_cast<Part>(task % tasks_of_call); }
  static TaskId task_of(std::uint32_t node, Part part) {
    return node * tasks_of_call + static_cast<std::uint32_t>(part);
  }
  static StreamId stream_of(std::size_t rank, InputStream stream) {
    return static_cast<StreamId>(rank * input_stream_count + static_cast<std::size_t>(stream));
  }
  std::size_t rank(std::uint32_t node) const { return rank_of_[node]; }
  const InputCall& call(std::uint32_t node) const {
    return program_.calls[rank(node)][node - first_[rank(node)]];
  }
  InputSpan& span_of(std::uint32_t node) {
    return run_.spans[rank(node)][node - first_[rank(node)]];
  }
  bool stands_on_host(std::uint32_t node) const { return call(node).stream == InputStream::host; }
  // The task that waits for the host and for other calls.
  TaskId first_task(std::uint32_t node) const {
    if (stands_on_host(node)) return task_of(node, Part::host);
    return task_of(node, is_meeting(call(node).action.kind) ? Part::coming : Part::work);
  }

  void add(int at) {
    const auto rank = static_cast<std::size_t>(at);
    const InputCalls& calls = program_.calls[rank];
    rank_of_.insert(rank_of_.end(), calls.size(), static_cast<std::uint32_t>(rank));
    std::vector<std::vector<std::uint32_t>> next(calls.size());
    for (std::uint32_t place = 0; place < calls.size(); ++place) {
      const std::uint32_t node = first_[rank] + place;
      const InputCall& own = calls[place];
      plan_.append(stream_of(rank, InputStream::host), task_of(node, Part::host));
      for (const std::uint32_t awaited : own.after) {
        next[awaited].push_back(node);
        plan_.need_signal(first_task(node));
      }
      if (own.stream == InputStream::host) continue;
      plan_.need_signal(first_task(node));  // from the host
      plan_.append(stream_of(rank, own.stream), first_task(node));
      if (!is_meeting(own.action.kind)) continue;
      plan_.append(stream_of(rank, own.stream), task_of(node, Part::work));
      plan_.need_signal(task_of(node, Part::work));  // from the last rank to arrive
    }
    for (const auto& waiting : next) {
      waiting_begin_.push_back(static_cast<std::uint32_t>(waiting_.size()));
      waiting_.insert(waiting_.end(), waiting.begin(), waiting.end());
    }
    if (at + 1 == program_.ranks()) {
      waiting_begin_.push_back(static_cast<std::uint32_t>(waiting_.size()));
    }
  }

  // The parts of a collective are those of one kind and batch.
  void group_parts() {
    std::map<std::pair<Kind, std::int32_t>, std::uint32_t> numbers;
    for (std::uint32_t node = 0; node < groups_.size(); ++node) {
      const Action& action = call(node).action;
      if (!is_meeting(action.kind)) continue;
      const auto [at, is_new] = numbers.try_emplace({action.kind, action.microbatch},
                                                    static_cast<std::uint32_t>(parts_.size()));
      if (is_new) parts_.emplace_back();
      groups_[node] = at->second;
      parts_[at->second].push_back(node);
    }
  }

  void end(std::uint32_t node) {
    span_of(node).end_ns = engine_->now_ns();
    for (std::uint32_t i = waiting_begin_[node]; i < waiting_begin_[node + 1]; ++i) {
      engine_->signal(first_task(waiting_[i]));
    }
  }

  // ---- Where ranks wait for each other

  bool has_run(std::uint32_t node) const {
    return engine_->is_released(task_of(node, stands_on_host(node) ? Part::host : Part::work));
  }

  // What a stuck call waits for: an earlier one of its rank, or another rank to come to it.
  std::uint32_t awaited_by(std::uint32_t node) const {
    const InputCalls& calls = program_.calls[rank(node)];
    const std::uint32_t first = first_[rank(node)];
    const auto last_before = [&](InputStream stream) {
      for (std::uint32_t at = node; at-- > first;) {
        if (calls[at - first].stream == stream) return at;
      }
      return node;
    };
    for (const InputStream stream : {call(node).stream, InputStream::host}) {
      const std::uint32_t before = last_before(stream);
      if (before != node && !has_run(before)) return before;
    }
    for (const std::uint32_t awaited : call(node).after) {
      if (!has_run(first + awaited)) return first + awaited;
    }
    return *std::ranges::find_if(parts_[groups_[node]], [&](std::uint32_t part) {
      return !engine_->is_released(task_of(part, Part::coming));
    });
  }

  InputFault describe_circle() const {
    std::uint32_t node = 0;
    while (has_run(node)) ++node;
    for (std::vector<bool> seen(groups_.size()); !seen[node]; node = awaited_by(node)) {
      seen[node] = true;
    }
    std::string text = "the ranks wait for each other forever: ";
    std::uint32_t at = node;
    do {
      const std::uint32_t next = awaited_by(at);
      text += fmt::format("rank {}'s {} waits for {}; ", rank(at), to_text(call(at).action),
                          rank(next) != rank(at) ? fmt::format("rank {} to come to it", rank(next))
                                                 : to_text(call(next).action));
      at = next;
    } while (at != node);
    text.resize(text.size() - 2);
    return {static_cast<int>(rank(node)), node - first_[rank(node)], std::move(text)};
  }

  const InputProgram& program_;
  std::vector<CallWork> work_;                          // by call
  std::vector<std::uint32_t> first_;                    // call of each rank, and one past the last
  std::vector<std::uint32_t> rank_of_;                  // by call
  std::vector<std::uint32_t> waiting_begin_, waiting_;  // by call, those that wait for it
  std::vector<std::uint32_t> groups_;                   // the collective of each call, or none
  std::vector<std::vector<std::uint32_t>> parts_;
  std::vector<std::size_t> missing_;  // ranks that have not reached it
  EventPlan plan_;
  EventEngine<InputTasks>* engine_ = nullptr;
  InputRun run_;
};

}  // namespace

std::variant<InputRun, InputFault> play(const InputProgram& program, std::vector<CallWork> work,
                                        FlowNetwork network) {
  return InputTasks(program, std::move(work), std::move(network)).run();
}

std::optional<InputFault> find_deadlock(const InputProgram& program) {
  std::vector<CallWork> none(static_cast<std::size_t>(program.size()));
  auto result = play(program, std::move(none), {});
  const InputFault* fault = std::get_if<InputFault>(&result);
  return fault == nullptr ? std::nullopt : std::optional(std::move(*fault));
}

}  // namespace pipesim
