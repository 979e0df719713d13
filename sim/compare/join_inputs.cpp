#include "sim/compare/join_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "traces/action_key.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

class InputJoiner {
 public:
  InputJoiner(const InputRun& predicted, const InputRun& measured)
      : runs_{&predicted, &measured}, program_(predicted.program) {}

  Operations join() {
    name_operations();
    for (const Side side : both_sides) {
      joined_.sides[side].resize(joined_.size());
      joined_.lists[side].resize(Operations::input_list(program_.ranks(), InputStream::host));
    }
    for (int rank = 0; rank < program_.ranks(); ++rank) place(rank);
    find_waits();
    find_meetings();
    joined_.opens_cell.resize(joined_.size());
    return std::move(joined_);
  }

 private:
  const InputCalls& calls(int rank) const { return program_.calls[static_cast<std::size_t>(rank)]; }

  static Action work_of(int rank, const InputCall& call) {
    return make_action(rank, call.action.kind, call.action.microbatch);
  }
  static Action calling_of(int rank, const InputCall& call) {
    Action action = make_action(rank, Kind::IDLE, call.action.microbatch);
    action.number = static_cast<std::uint16_t>(input_index(call.action.kind));
    return action;
  }
  static bool is_called(const InputCall& call) { return call.stream != InputStream::host; }

  void name_operations() {
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      for (const InputCall& call : calls(rank)) {
        joined_.actions.push_back(work_of(rank, call));
        if (is_called(call)) joined_.actions.push_back(calling_of(rank, call));
      }
    }
    std::ranges::sort(joined_.actions, {}, [](const Action& action) { return ActionKey(action); });
  }

  void place(int rank) {
    for (std::size_t at = 0; at < calls(rank).size(); ++at) {
      const InputCall& call = calls(rank)[at];
      const OperationId work = joined_.find(work_of(rank, call));
      const OperationId calling = is_called(call) ? joined_.find(calling_of(rank, call)) : work;
      for (const Side side : both_sides) {
        const InputSpan& span = runs_[side]->span(rank, at);
        set(side, work, rank, call.stream, span.start_ns, span.end_ns);
        if (is_called(call)) {
          set(side, calling, rank, InputStream::host, span.called_ns, span.issued_ns);
        }
      }
    }
  }
  void set(Side side, OperationId id, int rank, InputStream stream, std::int64_t start_ns,
           std::int64_t end_ns) {
    Occurrence& own = joined_.sides[side][id];
    own.rank = rank;
    own.start_ns = start_ns;
    own.end_ns = end_ns;
    joined_.lists[side][Operations::input_list(rank, stream)].push_back(id);
  }

  void find_waits() {
    std::vector<std::vector<OperationId>> waits(joined_.size());
    for (int rank = 0; rank < program_.ranks(); ++rank) {
      for (const InputCall& call : calls(rank)) {
        auto& own = waits[joined_.find(work_of(rank, call))];
        if (is_called(call)) own.push_back(joined_.find(calling_of(rank, call)));
        for (const std::uint32_t awaited : call.after) {
          own.push_back(joined_.find(work_of(rank, calls(rank)[awaited])));
        }
      }
    }
    joined_.waits_begin.push_back(0);
    for (const auto& own : waits) {
      joined_.waits.insert(joined_.waits.end(), own.begin(), own.end());
      joined_.waits_begin.push_back(static_cast<std::uint32_t>(joined_.waits.size()));
    }
  }

  void find_meetings() {
    std::map<std::pair<Kind, std::int32_t>, std::int32_t> numbers;
    for (const Action& action : joined_.actions) {
      const bool meets = is_meeting(action.kind) && program_.ranks() > 1;
      joined_.meeting_of.push_back(meets
                                       ? numbers
                                             .try_emplace({action.kind, action.microbatch},
                                                          static_cast<std::int32_t>(numbers.size()))
                                             .first->second
                                       : Operations::no_meeting);
    }
  }

  std::array<const InputRun*, 2> runs_;
  const InputProgram& program_;
  Operations joined_;
};

}  // namespace

std::string programs_differ(const RecordedRun& predicted, const RecordedRun& measured) {
  const auto about = [](const RecordedRun& run) {
    if (!run.inputs) return std::string("a pipeline");
    const InputProgram& program = run.inputs->program;
    return fmt::format("{}, {}, {}{}", printable(program.name), plural(program.ranks(), "rank"),
                       plural(program.batches, "batch", "batches"),
                       program.accumulate > 1
                           ? fmt::format(", {} per step", format_count(program.accumulate))
                           : "");
  };
  if (!predicted.inputs && !measured.inputs) return {};
  if (predicted.inputs && measured.inputs) {
    const InputProgram& one = predicted.inputs->program;
    const InputProgram& other = measured.inputs->program;
    if (one.calls == other.calls && one.batches == other.batches &&
        one.accumulate == other.accumulate && one.is_stale == other.is_stale) {
      return {};
    }
  }
  const std::string here = about(predicted), there = about(measured);
  return fmt::format("{} is of {}, {} of {}; compare two runs of one program",
                     printable(predicted.name), here, printable(measured.name),
                     here == there ? "another program of the same name" : there);
}

Operations join_inputs(const InputRun& predicted, const InputRun& measured) {
  return InputJoiner(predicted, measured).join();
}

}  // namespace pipesim
