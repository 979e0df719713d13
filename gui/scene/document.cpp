#include "gui/scene/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/base/utf8.h"

namespace pipesim::gui {
namespace {

std::size_t place(int trace) { return static_cast<std::size_t>(trace); }

// Finds operations by their actions, of which most have the microbatches 0, 1, 2, ...
class OperationIndex {
 public:
  explicit OperationIndex(const Operations& operations) : operations_(operations) {
    std::int32_t stages = 0;
    for (const Action& action : operations.actions) stages = std::max(stages, action.stage + 1);
    stages_ = static_cast<std::size_t>(stages);
    first_.assign(stages_ * kind_count, no_operation);
    for (OperationId id = 0; id < operations.size(); ++id) {
      OperationId& first = first_[group_of(operations.actions[id])];
      if (first == no_operation) first = id;
    }
  }

  OperationId find(const Action& action) const {
    if (action.stage < 0 || static_cast<std::size_t>(action.stage) >= stages_) return no_operation;
    const OperationId first = first_[group_of(action)];
    if (first == no_operation) return no_operation;
    const std::size_t guess = first + static_cast<std::size_t>(std::max(action.microbatch, 0));
    if (guess < operations_.size()) {
      const Action& there = operations_.actions[guess];
      if (there.kind == action.kind && there.stage == action.stage &&
          there.microbatch == action.microbatch) {
        return static_cast<OperationId>(guess);
      }
    }
    return operations_.find(action);
  }

 private:
  std::size_t group_of(const Action& action) const {
    return static_cast<std::size_t>(action.kind) * stages_ + static_cast<std::size_t>(action.stage);
  }

  const Operations& operations_;
  std::size_t stages_ = 0;
  std::vector<OperationId> first_;  // of each kind and stage
};

void index_spans(const RecordedRun& run, Side side, Pair& pair) {
  const Operations& operations = pair.comparison.operations;
  const OperationIndex index(operations);
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  auto& span_of = pair.span_of[side];
  auto& operation_of = pair.operation_of[side];
  pair.first_span[side] = iteration.begin;
  span_of.assign(operations.size(), no_ref);
  operation_of.reserve(iteration.end - iteration.begin);
  for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
    const Action& action = run.spans[i].action;
    const OperationId id = index.find(is_receive(action.kind) ? peer_of(action) : action);
    operation_of.push_back(id);
    if (id == no_operation) continue;
    Ref& span = span_of[id];
    // A RECV stands for its transfer only where no SEND does.
    if (span == no_ref || (is_receive(run.spans[span].action.kind) && !is_receive(action.kind))) {
      span = static_cast<Ref>(i);
    }
  }
}

// The same of an input pipeline's slices: what a collective waits is its operation's, too.
void index_slices(const OpenInput& input, Side side, Pair& pair) {
  const Operations& operations = pair.comparison.operations;
  pair.span_of[side] = input.slices_of(operations);
  auto& operation_of = pair.operation_of[side];
  operation_of.assign(input.slices.size(), no_operation);
  for (OperationId id = 0; id < operations.size(); ++id) {
    const Ref slice = pair.span_of[side][id];
    if (slice != no_ref) operation_of[slice] = id;
  }
  for (std::size_t i = 0; i < input.slices.size(); ++i) {
    const InputSlice& own = input.slices[i];
    if (own.role != InputRole::wait) continue;
    operation_of[i] = operation_of[input.slice_of[static_cast<std::size_t>(own.rank)][own.place]];
  }
}

bool is_run(const Document& document, int trace) {
  return trace >= 0 && place(trace) < document.traces.size() &&
         (document.traces[place(trace)]->run || document.traces[place(trace)]->input);
}
bool is_input(const Document& document, int trace) {
  return document.traces[place(trace)]->input.has_value();
}

void index(const OpenTrace& trace, Side side, Pair& pair) {
  if (trace.input) {
    index_slices(*trace.input, side, pair);
  } else {
    index_spans(*trace.run, side, pair);
  }
}

void compare_two(Document& document, int predicted, int measured) {
  document.pair.reset();
  document.not_compared.clear();
  for (const int trace : {predicted, measured}) {
    if (is_run(document, trace)) continue;
    document.not_compared =
        fmt::format("{}: no pipeline is known in it, so there is nothing to compare",
                    document.traces[place(trace)]->name);
    return;
  }
  auto pair = std::make_shared<Pair>();
  pair->trace = {predicted, measured};
  try {
    pair->comparison = compare_traces(document.trace(predicted), document.trace(measured));
  } catch (const Error& error) {
    document.not_compared = error.what();
    return;
  }
  for (const Side side : both_sides) index(document.trace(pair->trace[side]), side, *pair);
  document.pair = std::move(pair);
}

}  // namespace

Comparison compare_traces(const OpenTrace& predicted, const OpenTrace& measured) {
  const auto run_of = [](const OpenTrace& trace) {
    return trace.input ? as_recorded(trace.input->run, trace.name) : *trace.run;
  };
  if (predicted.run && measured.run) return compare(*predicted.run, *measured.run);
  return compare(run_of(predicted), run_of(measured));
}

Source OpenTrace::source() const {
  if (input) return input->run.is_measured ? Source::measured : Source::predicted;
  return run ? run->about.source : Source::measured;
}

const Warnings& OpenTrace::warnings() const { return run ? run->warnings : events->warnings; }

OperationId Pair::find(Side side, Ref span) const {
  const auto& operations = operation_of[side];
  if (span < first_span[side] || span - first_span[side] >= operations.size()) return no_operation;
  return operations[span - first_span[side]];
}

std::optional<Side> Document::side_of(int trace) const {
  if (!pair) return std::nullopt;
  for (const Side side : both_sides) {
    if (pair->trace[side] == trace) return side;
  }
  return std::nullopt;
}

int Document::first_replica_of(int trace) const {
  const OpenTrace& own = this->trace(trace);
  if (!own.run || own.run->about.pipelines() == 1 || own.paths.empty()) return trace;
  for (int i = 0; i < trace; ++i) {
    if (this->trace(i).run && this->trace(i).paths == own.paths) return i;
  }
  return trace;
}

std::string name_of_side(const Document& document, Side side) {
  return std::string(side_name(document.pair->comparison, side));
}

std::string name_of_run(const Document& document, int trace) {
  const OpenTrace& own = document.trace(trace);
  if (own.input) {
    const auto alike = std::ranges::count_if(document.traces, [&](const auto& other) {
      return other->input && other->source() == own.source();
    });
    return alike > 1 ? own.name : std::string(name_of(own.source()));
  }
  if (const auto side = document.side_of(trace)) return name_of_side(document, *side);
  const int first = document.first_replica_of(trace);
  const bool has_others = first != trace || (trace + 1 < static_cast<int>(document.traces.size()) &&
                                             document.first_replica_of(trace + 1) == trace);
  return has_others ? own.run->about.pipeline_name() : own.name;
}

Document compared(const Document& document, int predicted, int measured) {
  Document result = document;
  compare_two(result, predicted, measured);
  return result;
}

Document paired(Document document) {
  if (document.pair) return document;
  std::optional<int> first;
  std::optional<int> prediction;
  const int count = static_cast<int>(document.traces.size());
  const bool any_pipeline = std::ranges::any_of(
      document.traces, [](const auto& trace) { return trace->run.has_value(); });
  const auto may_be = [&](int trace) {
    return is_run(document, trace) && is_input(document, trace) != any_pipeline;
  };
  for (int i = count; i-- > 0;) {
    if (!may_be(i)) continue;
    first = i;
    if (document.traces[place(i)]->source() == Source::predicted) prediction = i;
  }
  document.not_compared.clear();
  const std::optional<int> plan = prediction ? prediction : first;
  for (int i = 0; plan && i < count; ++i) {
    const bool is_run_itself = document.first_replica_of(i) == document.first_replica_of(*plan);
    if (is_run_itself || !may_be(i)) continue;
    compare_two(document, *plan, i);
    break;
  }
  return document;
}

Document without_trace(const Document& document, int trace) {
  Document result = document;
  result.traces.erase(result.traces.begin() + trace);
  if (document.side_of(trace)) result.pair.reset();
  if (result.pair && (result.pair->trace[0] > trace || result.pair->trace[1] > trace)) {
    auto moved = std::make_shared<Pair>(*result.pair);
    for (int& place_of : moved->trace) place_of -= place_of > trace ? 1 : 0;
    result.pair = std::move(moved);
  }
  return paired(std::move(result));
}

std::string label_of(const OpenTrace& trace, Ref ref) {
  constexpr std::size_t longest = 256;  // bytes; no label has room for more
  if (trace.events) {
    return printable(utf8_prefix(trace.events->text(trace.events->slices[ref].name), longest));
  }
  const RecordedRun& run = *trace.run;
  std::string text = to_text(run.spans[ref].action);
  const bool one_each = static_cast<int>(run.chunk_of_stage.size()) == run.ranks;
  return one_each ? text.substr(text.find_first_not_of("0123456789")) : text;
}

}  // namespace pipesim::gui
