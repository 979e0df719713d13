#include "traces/read/native_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/joining.h"
#include "traces/read/own_clocks.h"

namespace pipesim {
namespace {

class Assembly {
 public:
  Assembly(const NativeMetadata& metadata, const std::string& name) : name_(name) {
    run_.name = name;
    run_.about = metadata.about;
    run_.ranks = metadata.ranks;
    run_.microbatches = metadata.microbatches;
    run_.chunk_of_stage = metadata.chunk_of_stage;
  }

  RecordedRun run_of(std::vector<NativeEvents> files) {
    take(files);
    drop_contradictions();
    sort();
    find_iterations(run_);
    drop_repetitions();
    drop_odd_iterations();
    if (run_.spans.empty()) fail(files);
    join();
    report_missing();
    put_clocks_right(run_);
    return std::move(run_);
  }

 private:
  std::string place(const Span& span) const {
    return fmt::format("{}: {} on rank {} in iteration {}", name_, to_text(span.action), span.rank,
                       span.iteration);
  }
  bool has(const Action& action, std::int32_t rank) const {
    const auto is_there = [&](std::int32_t stage) {
      return stage >= 0 && stage < std::ssize(run_.about.rank_of_stage);
    };
    return is_there(action.stage) && run_.is_on(action, rank) &&
           action.microbatch < run_.microbatches &&
           (!is_transfer(action.kind) || is_there(peer_of(action).stage));
  }

  void take(std::vector<NativeEvents>& files) {
    run_.spans = std::move(files.front().spans);
    for (NativeEvents& file : files) {
      if (&file != &files.front()) {
        run_.spans.insert(run_.spans.end(), file.spans.begin(), file.spans.end());
        file.spans = LargeVector<Span>();
      }
      run_.layers.insert(run_.layers.end(), file.layers.begin(), file.layers.end());
      if (run_.samples.empty()) {
        run_.samples = std::move(file.samples);
      } else {
        run_.samples.append(file.samples);
      }
      run_.warnings.add(file.warnings);
    }
  }

  // The actions of a cell are kept or dropped together.
  void drop_contradictions() {
    auto kept = run_.spans.begin();
    for (auto cell = run_.spans.begin(); cell != run_.spans.end();) {
      const auto end = cell + (cell->action.joined ? 2 : 1);
      if (std::all_of(cell, end, [&](const Span& s) { return has(s.action, s.rank); })) {
        kept = kept == cell ? end : std::copy(cell, end, kept);
      } else {
        run_.warnings.add("actions that contradict metadata.pipesim, left out", place(*cell));
      }
      cell = end;
    }
    run_.spans.erase(kept, run_.spans.end());
    const auto layers = std::ssize(run_.about.layers);
    const auto strange = std::erase_if(run_.layers, [&](const LayerSpan& layer) {
      return !has(layer.action, layer.rank) || layer.layer >= layers;
    });
    if (strange > 0) {
      run_.warnings.add("layers that contradict metadata.pipesim, left out", name_,
                        static_cast<std::int64_t>(strange));
    }
    const std::size_t lost = run_.samples.drop_other_ranks(run_.ranks);
    if (lost > 0) {
      run_.warnings.add("memory samples of no known rank, left out", name_,
                        static_cast<std::int64_t>(lost));
    }
  }

  void sort() {
    sort_spans(run_.spans);
    run_.samples.sort_by_time();
  }

  void drop_repetitions() {
    std::vector<std::size_t> repeated;
    for (const RecordedIteration& iteration : run_.iterations) {
      const SpanIndex index(run_.spans_of(iteration));
      for (const std::size_t place : index.repeated()) repeated.push_back(iteration.begin + place);
    }
    if (repeated.empty()) return;
    run_.warnings.add("actions that are there twice, of which the first counts",
                      place(run_.spans[repeated.front()]),
                      static_cast<std::int64_t>(repeated.size()));
    for (const std::size_t at : repeated) {
      // The other action of its cell is separate from now on.
      if (at > 0) run_.spans[at - 1].action.joined = false;
    }
    auto next = repeated.begin();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < run_.spans.size(); ++i) {
      if (next != repeated.end() && *next == i) {
        ++next;
      } else {
        run_.spans[kept++] = run_.spans[i];
      }
    }
    run_.spans.erase(run_.spans.begin() + static_cast<std::ptrdiff_t>(kept), run_.spans.end());
    find_iterations(run_);
  }

  // Every iteration runs the same program, but for SAVEs, and, if several are one step, for steps
  // and exchanges with replicas: one with fewer actions than another has lost some. One that takes
  // absurdly long has unrelated clocks.
  void drop_odd_iterations() {
    const auto is_in_each = [&](const Span& span) {
      return run_.about.accumulate > 1 ? takes_microbatch(span.action.kind)
                                       : span.action.kind != Kind::SAVE;
    };
    const auto actions_of = [&](const RecordedIteration& iteration) {
      return std::ranges::count_if(run_.spans_of(iteration), is_in_each);
    };
    std::ptrdiff_t most = 0;
    for (const auto& iteration : run_.iterations) most = std::max(most, actions_of(iteration));
    std::set<std::int32_t> odd;
    for (const auto& iteration : run_.iterations) {
      const bool is_part = actions_of(iteration) < most;
      const auto spans = run_.spans_of(iteration);
      const std::int64_t start_ns = spans.front().start_ns;
      const bool is_absurd = std::ranges::any_of(
          spans, [&](const Span& span) { return span.end_ns - start_ns > max_time_ns; });
      if (!is_part && !is_absurd) continue;
      odd.insert(iteration.number);
      run_.warnings.add(is_part ? "iterations of which a part is missing, left out"
                                : "iterations of more than 11 days, left out",
                        fmt::format("{}: iteration {}", name_, iteration.number));
    }
    if (odd.empty()) return;
    const auto is_odd = [&](const auto& span) { return odd.contains(span.iteration); };
    std::erase_if(run_.spans, is_odd);
    std::erase_if(run_.layers, is_odd);
    find_iterations(run_);
  }

  void join() {
    std::ranges::stable_sort(run_.layers, {}, &LayerSpan::iteration);
    auto next = run_.layers.begin();
    for (const RecordedIteration& iteration : run_.iterations) {
      const std::span<Span> spans(run_.spans.data() + iteration.begin,
                                  iteration.end - iteration.begin);
      const SpanIndex index(spans);
      join_inputs(spans, index);
      for (const Span& span : spans) {
        if (is_transfer(span.action.kind) && !index.find(peer_of(span.action))) {
          run_.warnings.add("transfers of which the other end is missing", place(span));
        }
      }
      for (; next != run_.layers.end() && next->iteration <= iteration.number; ++next) {
        if (next->iteration == iteration.number) find_action(*next, spans, index);
      }
    }
    const auto lost = std::erase_if(
        run_.layers, [](const LayerSpan& layer) { return layer.action.kind == Kind::IDLE; });
    if (lost > 0) {
      run_.warnings.add("layers of no action, left out", name_, static_cast<std::int64_t>(lost));
    }
    std::ranges::stable_sort(run_.layers, [](const LayerSpan& a, const LayerSpan& b) {
      return std::tuple(a.start_ns, a.rank) < std::tuple(b.start_ns, b.rank);
    });
  }

  // A layer's I is part of an I or of a B, and so is a recomputed F; its W of a W or of a B. It
  // stays IDLE if there is none.
  static void find_action(LayerSpan& layer, std::span<const Span> spans, const SpanIndex& index) {
    const Action part = layer.action;
    const Kind kind = layer.again ? Kind::I : layer.kind;
    for (const Kind candidate : {kind, kind == Kind::F ? Kind::F : Kind::B}) {
      const Action action = make_action(part.stage, candidate, part.microbatch);
      const auto place = index.find(action);
      if (!place || layer.start_ns < spans[*place].start_ns ||
          layer.end_ns > spans[*place].end_ns) {
        continue;
      }
      layer.action = action;
      break;
    }
  }

  // Each stage has every microbatch's F once, and its B or its I and W; with two copies, half of
  // them each.
  void report_missing() {
    struct Counts {
      std::int64_t all = 0, stages = 0, forwards = 0, backwards = 0, inputs = 0, weights = 0;
    };
    std::vector<Counts> counts(static_cast<std::size_t>(run_.ranks));
    for (const auto* homes : {&run_.about.rank_of_stage, &run_.about.rank_of_second}) {
      for (const int rank : *homes) ++counts[static_cast<std::size_t>(rank)].stages;
    }
    for (const Span& span : run_.spans) {
      Counts& rank = counts[static_cast<std::size_t>(span.rank)];
      ++rank.all;
      rank.forwards += span.action.kind == Kind::F;
      rank.backwards += is_backward(span.action.kind);
      rank.inputs += span.action.kind == Kind::I;
      rank.weights += span.action.kind == Kind::W;
    }
    for (std::size_t r = 0; r < counts.size(); ++r) {
      const Counts& rank = counts[r];
      const std::string where = fmt::format("{}: rank {}", name_, r);
      if (rank.all == 0) {
        run_.warnings.add("it has no actions", where);
        continue;
      }
      const auto lacks = [&](std::int64_t count, std::int64_t expected, std::string_view what) {
        if (count < expected) run_.warnings.add(what, where, expected - count);
      };
      const std::int64_t each = run_.microbatches / (run_.about.rank_of_second.empty() ? 1 : 2);
      const std::int64_t results = rank.stages * each * std::ssize(run_.iterations);
      lacks(rank.forwards, results, "forwards (F) are missing");
      lacks(rank.backwards, results, "backwards (B, or I) are missing");
      lacks(rank.weights, rank.inputs, "weight gradients (W) are missing");
    }
  }

  [[noreturn]] void fail(const std::vector<NativeEvents>& files) const {
    std::string message = fmt::format(
        "{}: no action of a schedule in it: none of its X events has args kind, stage, rank and "
        "iteration that fit metadata.pipesim; it holds {}",
        name_, files.front().description());
    const auto& kinds = run_.warnings.kinds();
    for (const auto& kind : kinds) {
      message += fmt::format("; {}: {}", format_count(kind.count), kind.what);
    }
    throw input_error(message);
  }

  const std::string& name_;
  RecordedRun run_;
};

}  // namespace

RecordedRun native_run(std::vector<NativeEvents> files, const NativeMetadata& metadata,
                       const std::string& name) {
  return Assembly(metadata, name).run_of(std::move(files));
}

}  // namespace pipesim
