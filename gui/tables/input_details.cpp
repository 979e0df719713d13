// What there is to say of one action of an input pipeline, in each run that is open.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gui/tables/table_rows.h"
#include "gui/tables/tables.h"
#include "traces/input_releases.h"

namespace pipesim::gui {
namespace {

// One run's column.
struct InputColumn {
  int trace = 0;
  const OpenInput* input = nullptr;
  InputSlice slice;
  Ref ref = no_ref;  // of its action

  const InputCall& call() const { return input->called_by(slice); }
  const InputSpan& span() const { return input->span_of(slice); }
};

class InputDetails {
 public:
  InputDetails(const Document& document, const Pick& pick) {
    const OpenInput& own = *document.trace(pick.trace).input;
    const InputSlice& slice = own.slices[pick.ref];
    action_ = own.called_by(slice).action;
    table_.columns.push_back(text_column(to_text(action_)));
    for (int trace = 0; trace < static_cast<int>(std::ssize(document.traces)); ++trace) {
      const auto& input = document.trace(trace).input;
      if (!input) continue;
      const Ref ref = input->find(slice.rank, action_);
      if (ref == no_ref) continue;
      columns_.push_back({trace, &*input, input->slices[ref], ref});
    }
    for (const InputColumn& column : columns_) {
      table_.columns.push_back(text_column(name_of_run(document, column.trace)));
    }
    const std::string name = to_text(action_);
    const char* const before = pick.bubble                     ? "idle before "
                               : slice.role == InputRole::call ? "call of "
                                                               : "";
    const bool waits = slice.role == InputRole::wait && !pick.bubble;
    table_.title =
        fmt::format("{}{}{} of rank {}", before, name, waits ? " waits" : "", slice.rank);
    is_bubble_ = pick.bubble;
  }

  Table table() {
    if (is_bubble_) {
      add_idle_time();
      return std::move(table_);
    }
    const std::string kind(kind_name(action_.kind));
    text_row("kind", [&](const InputColumn&) {
      return fmt::format("{} ({})", kind, input_group_name(input_group_of(action_.kind)));
    });
    text_row("batch", [&](const InputColumn&) { return std::to_string(action_.microbatch); });
    text_row("stream", [](const InputColumn& column) {
      return std::string(input_stream_name(column.call().stream));
    });
    if (!table_.rows.empty()) {
      for (const InputColumn& column : columns_) {
        table_.rows.front().about.push_back({column.trace, column.ref, false});
      }
    }
    text_row("start", [](const InputColumn& column) { return instant(column.span().start_ns); });
    text_row("duration", [](const InputColumn& column) {
      return format_time(column.span().end_ns - column.span().start_ns);
    });
    text_row(is_meeting(action_.kind) ? "waited for ranks" : "waited", waited);
    text_row("let go by", let_go_by);
    text_row("waits for", [](const InputColumn& column) { return waits_of(column); });
    text_row("called", [](const InputColumn& column) { return instant(column.span().called_ns); });
    text_row("call took", [](const InputColumn& column) {
      const InputSpan& span = column.span();
      const bool is_of_host = column.call().stream == InputStream::host;
      return is_of_host || span.issued_ns == span.called_ns
                 ? std::string()
                 : format_time(span.issued_ns - span.called_ns);
    });
    text_row("ready", [](const InputColumn& column) { return instant(column.span().ready_ns); });
    return std::move(table_);
  }

 private:
  // When the compute stream did what comes before; 0 where nothing does.
  static std::int64_t end_before(const InputColumn& column) {
    const auto rank = static_cast<std::size_t>(column.slice.rank);
    const InputCalls& calls = column.input->run.program.calls[rank];
    for (std::uint32_t place = column.slice.place; place-- > 0;) {
      if (calls[place].stream != InputStream::compute) continue;
      return column.input->run.span(column.slice.rank, place).end_ns;
    }
    return 0;
  }

  // By cause, in the order of the first run that has it.
  void add_idle_time() {
    std::vector<std::string> causes;
    std::vector<std::map<std::string, std::int64_t>> by_cause;
    for (const InputColumn& column : columns_) {
      auto& own = by_cause.emplace_back();
      std::int64_t until_ns = column.span().start_ns;
      const std::int64_t since_ns = end_before(column);
      const auto waits = pipesim::waits_of(column.input->run, column.slice.rank);
      for (auto wait = waits.rbegin(); wait != waits.rend(); ++wait) {
        if (wait->end_ns > until_ns) continue;
        if (wait->end_ns < until_ns || wait->start_ns < since_ns) break;
        until_ns = wait->start_ns;
        const std::string cause(wait->what == "host" ? "the host's calls" : wait->what);
        if (std::ranges::find(causes, cause) == causes.end()) causes.push_back(cause);
        own[cause] += wait->end_ns - wait->start_ns;
      }
    }
    for (const std::string& cause : causes) {
      RowOf row(table_);
      row.text(cause);
      for (auto& own : by_cause) row.text(own.contains(cause) ? format_time(own[cause]) : "");
    }
    for (const InputColumn& column : columns_) {
      if (!table_.rows.empty())
        table_.rows.front().about.push_back({column.trace, column.ref, true});
    }
    table_.note = "What the compute stream waited for meanwhile.";
  }

  // No row where no run has anything to say.
  void text_row(std::string_view label, const std::function<std::string(const InputColumn&)>& of) {
    std::vector<std::string> cells;
    bool any = false;
    for (const InputColumn& column : columns_) {
      cells.push_back(of(column));
      any = any || !cells.back().empty();
    }
    if (!any) return;
    RowOf row(table_);
    row.text(label);
    for (const std::string& cell : cells) row.text(cell);
  }

  // Of a collective for other ranks, of the host's own in the middle of its calls.
  static std::string waited(const InputColumn& column) {
    const InputSpan& span = column.span();
    const bool is_of_host = column.call().stream == InputStream::host;
    const std::int64_t since_ns = is_of_host ? span.called_ns : span.ready_ns;
    return span.start_ns > since_ns ? format_time(span.start_ns - since_ns) : std::string();
  }

  static std::string let_go_by(const InputColumn& column) {
    const auto rank = static_cast<std::size_t>(column.slice.rank);
    const InputCalls& calls = column.input->run.program.calls[rank];
    const InputRelease release =
        InputReleases(calls, column.input->run.spans[rank]).of(column.slice.place);
    if (!release.is_host()) return "the end of " + to_text(calls[release.place].action);
    return column.call().stream == InputStream::host ? "its turn" : "the host's call";
  }

  static std::string waits_of(const InputColumn& column) {
    const InputCalls& calls =
        column.input->run.program.calls[static_cast<std::size_t>(column.slice.rank)];
    std::string text;
    for (const std::uint32_t place : column.call().after) {
      text += (text.empty() ? "" : ", ") + to_text(calls[place].action);
    }
    return text;
  }

  bool is_bubble_ = false;  // the idle time before the action is picked
  Action action_;
  std::vector<InputColumn> columns_;
  Table table_;
};

}  // namespace

Table details_of_input(const Document& document, const Pick& pick) {
  return InputDetails(document, pick).table();
}

}  // namespace pipesim::gui
