// Runs of input pipelines, made by hand or with random times.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "traces/input_run.h"

namespace pipesim::testing {

// Batches overlap: ids of the next one travel while one is trained.
inline InputProgram overlapping_program(int ranks, int batches, int accumulate = 1) {
  std::string text = "pipesim-program 1\nbatches " + std::to_string(batches) + "\n";
  if (accumulate > 1) text += "accumulate " + std::to_string(accumulate) + "\n";
  text += ranks == 1 ? "rank 0\n" : "ranks 0-" + std::to_string(ranks - 1) + "\n";
  const auto fetch = [&](int batch) {
    if (batch >= batches) return;
    const std::string b = std::to_string(batch);
    text += "host NEXT" + b + "\nmemcpy COPY" + b + "\ndata_dist SPLITS" + b + " after COPY" + b +
            "\nhost READ" + b + " after SPLITS" + b + "\ndata_dist IDS" + b + "\n";
  };
  fetch(0);
  for (int batch = 0; batch < batches; ++batch) {
    const std::string b = std::to_string(batch);
    const bool steps = (batch + 1) % accumulate == 0 || batch + 1 == batches;
    if (batch % accumulate == 0) text += "compute ZERO_GRAD" + b + "\n";
    text += "compute BOTTOM" + b + "\ncompute LOOKUP" + b + " after IDS" + b + "\ncompute OUTPUT" +
            b + "\ncompute TOP" + b + "\ncompute TOP_BACKWARD" + b + "\n";
    if (steps) text += "reduction REDUCE_TOP" + b + " after TOP_BACKWARD" + b + "\n";
    text += "compute OUTPUT_BACKWARD" + b + "\ncompute UPDATE" + b + "\ncompute BOTTOM_BACKWARD" +
            b + "\n";
    fetch(batch + 1);
    if (!steps) continue;
    text += "reduction REDUCE_BOTTOM" + b + " after BOTTOM_BACKWARD" + b + "\ncompute OPTIMIZER" +
            b + " after REDUCE_TOP" + b + " REDUCE_BOTTOM" + b + "\n";
  }
  return parse_input_program(text, "overlapping");
}

// When calls happen whose own times are random: each as soon as it can.
inline InputRun random_run(const InputProgram& program, std::mt19937_64& random,
                           std::int64_t longest_ns = 1000) {
  InputRun run;
  run.program = program;
  const auto draw = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  struct Progress {
    std::vector<bool> is_issued, is_ready, is_done;
  };
  std::vector<Progress> all;
  std::map<std::pair<Kind, std::int32_t>, int> coming;  // ranks not ready yet
  for (const InputCalls& calls : program.calls) {
    run.spans.emplace_back(calls.size());
    const std::vector<bool> no(calls.size());
    all.push_back({no, no, no});
  }
  const auto can_start = [&](std::size_t rank, std::size_t place, std::int64_t& ready_ns) {
    const InputCall& call = program.calls[rank][place];
    const auto comes_after = [&](std::size_t other) {
      ready_ns = std::max(ready_ns, run.spans[rank][other].end_ns);
      return static_cast<bool>(all[rank].is_done[other]);
    };
    bool can = true;
    for (const std::uint32_t awaited : call.after) can = comes_after(awaited) && can;
    for (std::size_t other = 0; other < place; ++other) {
      if (program.calls[rank][other].stream == call.stream) can = comes_after(other) && can;
    }
    return can;
  };
  const auto all_ready = [&](const Action& action, std::int64_t& start_ns) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      for (std::size_t place = 0; place < program.calls[rank].size(); ++place) {
        if (!(program.calls[rank][place].action == action)) continue;
        if (!all[rank].is_ready[place]) return false;
        start_ns = std::max(start_ns, run.spans[rank][place].ready_ns);
      }
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      Progress& own = all[rank];
      for (std::size_t place = 0; place < own.is_done.size(); ++place) {
        const InputCall& call = program.calls[rank][place];
        InputSpan& span = run.spans[rank][place];
        const bool on_host = call.stream == InputStream::host;
        if (own.is_done[place]) continue;
        if (!own.is_issued[place]) {
          if (place > 0 && !own.is_issued[place - 1]) break;  // the host comes to it later
          span.called_ns = place == 0 ? 0 : run.spans[rank][place - 1].issued_ns;
          std::int64_t start_ns = span.called_ns;
          if (on_host) {
            if (!can_start(rank, place, start_ns)) break;
            span.ready_ns = span.start_ns = start_ns;
            span.end_ns = start_ns + draw(longest_ns / 4);
            own.is_done[place] = true;
          }
          span.issued_ns = on_host ? span.end_ns : start_ns + draw(longest_ns / 20);
          own.is_issued[place] = moved = true;
          if (on_host) continue;
        }
        if (!own.is_ready[place]) {
          span.ready_ns = span.issued_ns;
          if (!can_start(rank, place, span.ready_ns)) continue;
          own.is_ready[place] = moved = true;
        }
        span.start_ns = span.ready_ns;
        if (is_meeting(call.action.kind) && !all_ready(call.action, span.start_ns)) continue;
        span.end_ns = span.start_ns + draw(longest_ns);
        own.is_done[place] = moved = true;
      }
    }
  }
  return run;
}

}  // namespace pipesim::testing
