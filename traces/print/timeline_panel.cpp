#include "traces/print/timeline_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/base/text.h"

namespace pipesim {

int TimelinePanel::chunks() const {
  return chunk_of_stage.empty() ? 1 : std::ranges::max(chunk_of_stage) + 1;
}

TimelinePanel panel_of(const InputRun& run, const std::vector<int>& ranks) {
  TimelinePanel panel;
  std::vector<std::pair<int, InputStream>> rows;
  for (const int rank : ranks) {
    const InputCalls& calls = run.program.calls[static_cast<std::size_t>(rank)];
    for (int i = 0; i < input_stream_count; ++i) {
      const auto stream = static_cast<InputStream>(i);
      const auto own =
          static_cast<std::size_t>(std::ranges::count(calls, stream, &InputCall::stream));
      if (own == 0 && stream != InputStream::host) continue;
      rows.emplace_back(rank, stream);
      panel.row_names.push_back(fmt::format("rank {} {}", rank, input_stream_name(stream)));
      panel.actions_of_rank.push_back(stream == InputStream::host ? calls.size() : own);
    }
  }
  panel.makespan_ns = makespan_of(run);
  panel.replay = [&run, rows](const SpanSink& sink) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto [rank, stream] = rows[row];
      const InputCalls& calls = run.program.calls[static_cast<std::size_t>(rank)];
      for (std::size_t place = 0; place < calls.size(); ++place) {
        const InputSpan& times = run.span(rank, place);
        Span span{calls[place].action, static_cast<std::int32_t>(row)};
        if (calls[place].stream == stream) {
          span.start_ns = times.start_ns;
          span.end_ns = times.end_ns;
        } else if (stream == InputStream::host) {
          span.action = Action();
          span.start_ns = times.called_ns;
          span.end_ns = times.issued_ns;
        } else {
          continue;
        }
        sink(span);
      }
    }
  };
  return panel;
}

TimelinePanel panel_of(const InputRun& run) {
  constexpr int most = 4;
  std::vector<int> ranks;
  for (int rank = 0; rank < std::min(run.program.ranks(), most); ++rank) ranks.push_back(rank);
  TimelinePanel panel = panel_of(run, ranks);
  if (run.program.ranks() > most) {
    panel.title = fmt::format("{} of {} ranks", most, format_count(run.program.ranks()));
  }
  return panel;
}

std::vector<int> shown_ranks(int ranks) {
  constexpr int most = 16;
  std::vector<int> shown;
  if (ranks <= most + 8) {
    for (int r = 0; r < ranks; ++r) shown.push_back(r);
    return shown;
  }
  for (int i = 0; i < most; ++i) {
    shown.push_back(static_cast<int>(std::int64_t{i} * (ranks - 1) / (most - 1)));
  }
  return shown;
}

}  // namespace pipesim
