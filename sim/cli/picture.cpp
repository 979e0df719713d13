#include "sim/cli/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

// Time to columns. Where the times have a common unit that fits, a unit is a
// whole number of columns, so that equal actions are equally wide.
class Scale {
 public:
  Scale(const Timeline& timeline, std::int64_t makespan_ns, int columns)
      : makespan_(std::max<std::int64_t>(makespan_ns, 1)), columns_(columns) {
    std::int64_t unit = makespan_;
    for (const Span& span : timeline.spans)
      unit = std::gcd(unit, std::gcd(span.start_ns, span.end_ns));
    const std::int64_t units = makespan_ / unit;
    constexpr std::int64_t widest = 6;
    if (units <= columns) columns_ = static_cast<int>(units * std::min(widest, columns / units));
  }

  int columns() const { return columns_; }
  int column(std::int64_t ns) const { return static_cast<int>(std::llround(exact(ns))); }
  double exact(std::int64_t ns) const {
    return static_cast<double>(ns) / static_cast<double>(makespan_) * columns_;
  }

 private:
  std::int64_t makespan_;
  int columns_;
};

std::string axis(const Scale& scale, std::int64_t makespan_ns, std::size_t margin) {
  constexpr int apart = 16;  // columns between two labels, at least
  const double least = static_cast<double>(makespan_ns) * apart / std::max(1, scale.columns());
  double step = std::pow(10, std::floor(std::log10(std::max(least, 1.0))));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor >= least) {
      step *= factor;
      break;
    }
  }
  std::string line(margin, ' ');
  for (double t = 0; t <= static_cast<double>(makespan_ns); t += step) {
    const auto ns = static_cast<std::int64_t>(t);
    const auto at = margin + static_cast<std::size_t>(scale.column(ns));
    const std::string label = makespan_ns < 10'000'000 || step >= 1e9
                                  ? format_time(ns)
                                  : fmt::format("{:.{}f} ms", t / 1e6, step < 1e6 ? 1 : 0);
    if (at + label.size() > margin + static_cast<std::size_t>(scale.columns())) break;
    line.resize(std::max(line.size(), at), ' ');
    line += label;
  }
  return line;
}

// The fullest label that fits.
std::string label_for(const Action& action, int chunk, bool chunks, int width) {
  if (!is_compute(action.kind)) return std::string(kind_name(action.kind).substr(0, 1));
  const std::array<std::string, 3> candidates{
      chunks ? fmt::format("{}{}.{}", kind_name(action.kind), action.microbatch, chunk)
             : fmt::format("{}{}", kind_name(action.kind), action.microbatch),
      fmt::format("{}{}", kind_name(action.kind), action.microbatch),
      std::string(kind_name(action.kind))};
  for (const std::string& label : candidates) {
    if (static_cast<int>(label.size()) <= width) return label;
  }
  return {};
}

struct Row {
  std::string text;
  std::vector<Kind> kind;  // of each column; IDLE where empty

  explicit Row(int columns)
      : text(static_cast<std::size_t>(columns), ' '),
        kind(static_cast<std::size_t>(columns), Kind::IDLE) {}

  std::string painted(bool colour) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      std::size_t end = i + 1;
      while (end < text.size() && kind[end] == kind[i]) ++end;
      const std::string part = text.substr(i, end - i);
      out += kind[i] == Kind::IDLE ? part : paint(part, kind[i], colour);
      i = end;
    }
    out.resize(out.find_last_not_of(' ') + 1);
    return out;
  }
};

// Each action as a block with a label.
Row draw_blocks(const std::vector<const Span*>& spans, const Timeline& timeline, const Scale& scale,
                bool chunks, bool colour) {
  Row row(scale.columns());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = *spans[i];
    const auto first = static_cast<std::size_t>(scale.column(span.start_ns));
    const auto last = static_cast<std::size_t>(scale.column(span.end_ns));
    if (last <= first) continue;
    const int chunk = timeline.chunk_of_stage[static_cast<std::size_t>(span.action.stage)];
    std::string label = label_for(span.action, chunk, chunks, static_cast<int>(last - first));
    if (i > 0 && spans[i - 1]->action.joined) {  // a cell of two: F&B
      const std::string both = label_for(spans[i - 1]->action, 0, false, 99) + "&" +
                               label_for(span.action, 0, false, 99);
      label = both.size() <= last - first ? both : "&";
    }
    label.resize(last - first, colour ? ' ' : '-');
    row.text.replace(first, last - first, label);
    std::fill(row.kind.begin() + static_cast<std::ptrdiff_t>(first),
              row.kind.begin() + static_cast<std::ptrdiff_t>(last), span.action.kind);
  }
  return row;
}

constexpr std::size_t overlapped = kind_count;

// Many actions a column: the kind that fills most of it, a dot where it is
// mostly idle.
Row draw_density(const std::vector<const Span*>& spans, const Scale& scale) {
  Row row(scale.columns());
  const auto columns = static_cast<std::size_t>(scale.columns());
  // By kind; the last place for forward and backward in one cell.
  std::vector<std::array<double, kind_count + 1>> busy(columns);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span* span = spans[i];
    if (i > 0 && spans[i - 1]->action.joined) continue;  // counted with the one before
    const std::size_t kind =
        span->action.joined ? overlapped : static_cast<std::size_t>(span->action.kind);
    double at = scale.exact(span->start_ns);
    const double end = scale.exact(span->end_ns);
    while (at < end) {
      const auto column = std::min(columns - 1, static_cast<std::size_t>(at));
      const double next = std::min(end, static_cast<double>(column) + 1);
      busy[column][kind] += next - at;
      if (next <= at) break;
      at = next;
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    const double all = std::accumulate(busy[c].begin(), busy[c].end(), 0.0);
    if (all < 0.02) continue;
    const auto most = static_cast<std::size_t>(std::max_element(busy[c].begin(), busy[c].end()) -
                                               busy[c].begin());
    if (all < 0.5) {
      row.text[c] = '.';
    } else if (most == overlapped) {
      row.text[c] = '&';
      row.kind[c] = Kind::SEND_F;  // grey: neither forward nor backward alone
    } else {
      row.text[c] = kind_name(static_cast<Kind>(most))[0];
      row.kind[c] = static_cast<Kind>(most);
    }
  }
  return row;
}

}  // namespace

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

std::string draw_timeline(const Timeline& timeline, const std::vector<int>& ranks,
                          std::int64_t makespan_ns, int chunks, const Terminal& terminal) {
  const std::size_t margin = fmt::formatted_size("{}", ranks.back()) + 2;
  const Scale scale(timeline, makespan_ns, terminal.width - static_cast<int>(margin));

  std::vector<std::vector<const Span*>> spans(static_cast<std::size_t>(timeline.ranks));
  std::array<bool, kind_count> used{};
  double narrowest = scale.columns();
  bool overlaps = false;
  for (const Span& span : timeline.spans) {
    spans[static_cast<std::size_t>(span.rank)].push_back(&span);
    used[static_cast<std::size_t>(span.action.kind)] = true;
    overlaps = overlaps || span.action.joined;
    if (span.end_ns > span.start_ns) {
      narrowest = std::min(narrowest, scale.exact(span.end_ns) - scale.exact(span.start_ns));
    }
  }
  const bool blocks = narrowest >= 1.5;

  std::string out = axis(scale, makespan_ns, margin) + "\n";
  for (const int rank : ranks) {
    const auto& own = spans[static_cast<std::size_t>(rank)];
    const Row row = blocks ? draw_blocks(own, timeline, scale, chunks > 1, terminal.colour)
                           : draw_density(own, scale);
    out += fmt::format("{:>{}}  {}\n", rank, margin - 2, row.painted(terminal.colour));
  }
  std::string legend(margin, ' ');
  constexpr std::array<std::pair<Kind, std::string_view>, 6> meaning{
      {{Kind::F, "forward"},
       {Kind::B, "backward"},
       {Kind::I, "input gradient"},
       {Kind::W, "weight gradient"},
       {Kind::REDUCE_GRAD, "reduction"},
       {Kind::OPTIMIZER, "optimizer"}}};
  bool first = true;
  for (const auto& [kind, text] : meaning) {
    if (!used[static_cast<std::size_t>(kind)]) continue;
    legend += fmt::format("{}{} {}", first ? "" : ", ",
                          paint(kind_name(kind).substr(0, 1), kind, terminal.colour), text);
    first = false;
  }
  if (overlaps) legend += ", & both in one";
  legend += blocks ? (chunks > 1 ? "; F3.1: microbatch 3, chunk 1" : "; blank: bubble")
                   : "\n" + std::string(margin, ' ') +
                         "a column shows what fills most of it; dot: mostly idle";
  return out + legend + "\n";
}

}  // namespace pipesim::cli
