#include "traces/print/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace pipesim {
namespace {

constexpr std::size_t overlapped_place = kind_count;

// Where all times have a common unit that fits, a unit is a whole number of
// columns, so that equal actions are equally wide.
TimeScale fitted_scale(const std::vector<std::vector<Span>>& rows, std::int64_t makespan_ns,
                       std::int64_t unit_ns, int columns) {
  std::int64_t unit = std::gcd(std::max<std::int64_t>(makespan_ns, 1), unit_ns);
  for (const auto& row : rows) {
    for (const Span& span : row) unit = std::gcd(unit, std::gcd(span.start_ns, span.end_ns));
  }
  const std::int64_t units = std::max<std::int64_t>(makespan_ns, 1) / unit;
  constexpr std::int64_t widest = 6;
  if (units > columns) return {0, makespan_ns, columns};
  return {0, makespan_ns, static_cast<int>(units * std::min(widest, columns / units))};
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
Row draw_blocks(const std::vector<Span>& spans, const std::vector<int>& chunk_of_stage,
                const TimeScale& scale, bool chunks, bool colour) {
  Row row(scale.columns());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const auto first = static_cast<std::size_t>(scale.column(span.start_ns));
    const auto last = static_cast<std::size_t>(scale.column(span.end_ns));
    if (last <= first) continue;
    const int chunk = chunk_of_stage[static_cast<std::size_t>(span.action.stage)];
    std::string label = label_for(span.action, chunk, chunks, static_cast<int>(last - first));
    if (i > 0 && spans[i - 1].action.joined) {  // a cell of two: F&B
      const std::string both =
          label_for(spans[i - 1].action, 0, false, 99) + "&" + label_for(span.action, 0, false, 99);
      label = both.size() <= last - first ? both : "&";
    }
    label.resize(last - first, colour ? ' ' : '-');
    row.text.replace(first, last - first, label);
    std::fill(row.kind.begin() + static_cast<std::ptrdiff_t>(first),
              row.kind.begin() + static_cast<std::ptrdiff_t>(last), span.action.kind);
  }
  return row;
}

// Adds a span's share to the columns that it covers.
template <typename Column>
void fill(std::vector<Column>& columns, const TimeScale& scale, const Span& span, bool overlapped) {
  const std::size_t place =
      overlapped ? overlapped_place : static_cast<std::size_t>(span.action.kind);
  double at = scale.exact(span.start_ns);
  const double end = scale.exact(span.end_ns);
  while (at < end) {
    const auto column = std::min(columns.size() - 1, static_cast<std::size_t>(at));
    const double next = std::min(end, static_cast<double>(column) + 1);
    columns[column][place] += next - at;
    if (next <= at) break;
    at = next;
  }
}

// The kind that fills most of each column, a dot where it is mostly idle.
template <typename Column>
Row draw_density(const std::vector<Column>& columns) {
  Row row(static_cast<int>(columns.size()));
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const double all = std::accumulate(columns[c].begin(), columns[c].end(), 0.0);
    if (all < 0.02) continue;
    const auto most =
        static_cast<std::size_t>(std::ranges::max_element(columns[c]) - columns[c].begin());
    if (all < 0.5) {
      row.text[c] = '.';
    } else if (most == overlapped_place) {
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

Picture::Frame Picture::frame_of(const std::vector<int>& chunk_of_stage,
                                 const std::vector<std::size_t>& actions_of_rank,
                                 std::int64_t makespan_ns) {
  Frame frame;
  frame.all_ranks = static_cast<int>(actions_of_rank.size());
  frame.ranks = shown_ranks(frame.all_ranks);
  frame.chunk_of_stage = chunk_of_stage;
  frame.chunks = std::ranges::max(chunk_of_stage) + 1;
  frame.makespan_ns = makespan_ns;
  for (const int rank : frame.ranks) {
    frame.longest_list =
        std::max(frame.longest_list, actions_of_rank[static_cast<std::size_t>(rank)]);
  }
  return frame;
}

Picture::Picture(Frame frame, const Terminal& terminal)
    : frame_(std::move(frame)),
      terminal_(terminal),
      margin_(fmt::formatted_size("{}", frame_.ranks.back()) + 2),
      columns_(terminal.width - static_cast<int>(margin_)),
      dense_(frame_.longest_list > static_cast<std::size_t>(columns_)),
      row_of_rank_(static_cast<std::size_t>(frame_.all_ranks), -1),
      spans_(frame_.ranks.size()),
      joined_(frame_.ranks.size()) {
  for (std::size_t row = 0; row < frame_.ranks.size(); ++row) {
    row_of_rank_[static_cast<std::size_t>(frame_.ranks[row])] = static_cast<int>(row);
  }
  if (dense_) {
    density_.assign(frame_.ranks.size(), std::vector<Column>(static_cast<std::size_t>(columns_)));
  }
}

void Picture::add(const Span& span) {
  if (span.start_ns < 0) {
    if (span.end_ns <= 0) return;
    Span rest = span;
    rest.start_ns = 0;
    add(rest);
    return;
  }
  const int row = row_of_rank_[static_cast<std::size_t>(span.rank)];
  if (row < 0 || is_communication(span.action)) return;
  const auto at = static_cast<std::size_t>(row);
  // What ends an iteration and takes no time is not in the picture.
  if (!is_closing(span.action) || span.end_ns > span.start_ns) {
    used_.kinds[static_cast<std::size_t>(span.action.kind)] = true;
  }
  used_.cells = used_.cells || span.action.joined;
  if (!dense_) {
    spans_[at].push_back(span);
  } else if (!joined_[at]) {  // a cell's second action is counted with its first
    fill(density_[at], TimeScale(0, frame_.makespan_ns, columns_), span, span.action.joined);
  }
  joined_[at] = span.action.joined;
}

TimeScale Picture::scale() const {
  if (dense_) return {0, frame_.makespan_ns, columns_};
  return fitted_scale(spans_, frame_.makespan_ns, frame_.unit_ns, columns_);
}

bool Picture::has_blocks(const TimeScale& scale) const {
  bool blocks = !dense_;
  for (const auto& row : spans_) {
    for (const Span& span : row) {
      // Closing work may be too short for a block.
      if (!is_compute(span.action.kind)) continue;
      const double width = scale.exact(span.end_ns) - scale.exact(span.start_ns);
      blocks = blocks && (span.end_ns == span.start_ns || width >= 1.5);
    }
  }
  return blocks;
}

std::string Picture::axis() const { return time_axis(scale(), margin_) + "\n"; }

std::string Picture::rows() const {
  const TimeScale scale = this->scale();
  const bool blocks = has_blocks(scale);
  std::string out;
  for (std::size_t i = 0; i < frame_.ranks.size(); ++i) {
    Row row(0);
    if (blocks) {
      row =
          draw_blocks(spans_[i], frame_.chunk_of_stage, scale, frame_.chunks > 1, terminal_.colour);
    } else if (dense_) {
      row = draw_density(density_[i]);
    } else {
      std::vector<Column> columns(static_cast<std::size_t>(scale.columns()));
      for (std::size_t s = 0; s < spans_[i].size(); ++s) {
        if (s > 0 && spans_[i][s - 1].action.joined) continue;
        fill(columns, scale, spans_[i][s], spans_[i][s].action.joined);
      }
      row = draw_density(columns);
    }
    const std::string line =
        fmt::format("{:>{}}  {}", frame_.ranks[i], margin_ - 2, row.painted(terminal_.colour));
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

Picture::Signs Picture::signs() const {
  Signs signs = used_;
  signs.columns = !has_blocks(scale());
  signs.chunks = !signs.columns && frame_.chunks > 1;
  return signs;
}

void Picture::Signs::add(const Signs& other) {
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    kinds[kind] = kinds[kind] || other.kinds[kind];
  }
  cells = cells || other.cells;
  columns = columns || other.columns;
  chunks = chunks || other.chunks;
}

std::string Picture::legend(const Signs& signs, std::size_t margin, int width, bool colour) {
  std::string out(margin, ' ');
  std::size_t length = margin;  // of the line so far, colours aside
  const auto add = [&](const std::string& plain, const std::string& painted) {
    const bool first = length == margin;
    if (!first && length + 2 + plain.size() > static_cast<std::size_t>(width)) {
      out += "\n" + std::string(margin, ' ');
      length = margin;
    } else if (!first) {
      out += "; ";
      length += 2;
    }
    out += painted;
    length += plain.size();
  };
  constexpr std::array<std::pair<Kind, std::string_view>, 8> meaning{
      {{Kind::F, "forward"},
       {Kind::B, "backward"},
       {Kind::I, "input gradient"},
       {Kind::W, "weight gradient"},
       {Kind::REDUCE_GRAD, "reduction"},
       {Kind::GRAD_NORM, "norm"},
       {Kind::OPTIMIZER, "optimizer"},
       {Kind::SAVE, "checkpoint"}}};
  const auto is_used = [&](Kind kind) { return signs.kinds[static_cast<std::size_t>(kind)]; };
  for (const auto& [kind, text] : meaning) {
    const bool reduces = kind == Kind::REDUCE_GRAD && is_used(Kind::REDUCE_TIED);
    if (!is_used(kind) && !reduces) continue;
    const auto letter = kind_name(kind).substr(0, 1);
    add(fmt::format("{} {}", letter, text),
        fmt::format("{} {}", paint(letter, kind, colour), text));
  }
  const auto add_plain = [&](const std::string& text) { add(text, text); };
  if (signs.cells) add_plain("& both in one");
  if (signs.columns) {
    add_plain("a column shows what fills most of it");
    add_plain("dot: mostly idle");
  }
  if (signs.chunks) add_plain("F3.1: microbatch 3, chunk 1");
  if (!signs.columns && !signs.chunks) add_plain("blank: bubble");
  return out + "\n";
}

std::string Picture::draw() const {
  return axis() + rows() + legend(signs(), margin_, terminal_.width, terminal_.colour);
}

}  // namespace pipesim
