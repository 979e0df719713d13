#include "traces/print/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "traces/input_action.h"
#include "traces/print/action_label.h"

namespace pipesim {
namespace {

// If all times have a common unit that fits, a unit is a whole number of columns, so that equal
// actions are equally wide.
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

// Without colours a small letter marks a chunk other than its rank's first.
std::string with_case(std::string label, int chunk) {
  if (chunk > 0 && label.front() >= 'A') label.front() += 'a' - 'A';
  return label;
}

// Letters in proportion to the time of kinds: each column shows the one of its kinds that has the
// fewest letters relative to its share.
template <typename Set>
void draw_proportions(const std::vector<RowShares::Column>& columns, Set&& set) {
  constexpr std::size_t blank = RowShares::places;
  std::array<double, blank + 1> behind{};
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::array<double, blank + 1> share{};
    std::ranges::copy(columns[c], share.begin());
    share[blank] = std::max(0.0, 1 - std::accumulate(columns[c].begin(), columns[c].end(), 0.0));
    std::size_t next = static_cast<std::size_t>(std::ranges::max_element(share) - share.begin());
    for (std::size_t kind = 0; kind <= blank; ++kind) {
      constexpr double least = 0.01;  // less is rounding
      behind[kind] += share[kind];
      if (share[kind] > least && behind[kind] > behind[next]) next = kind;
    }
    behind[next] -= 1;
    if (next != blank) set(c, next);
  }
}

}  // namespace

// The drawing of a rank.
struct Picture::Row {
  // A column's background: none, or that of a kind and chunk.
  struct Ground {
    Kind kind = Kind::IDLE;
    int chunk = 0;
    bool operator==(const Ground&) const = default;
  };

  explicit Row(int columns)
      : text(static_cast<std::size_t>(columns), ' '), ground(static_cast<std::size_t>(columns)) {}

  std::string painted(int chunks, bool colour) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      std::size_t end = i + 1;
      while (end < text.size() && ground[end] == ground[i]) ++end;
      const std::string part = text.substr(i, end - i);
      const auto& [kind, chunk] = ground[i];
      out += kind == Kind::IDLE ? part : paint(part, kind, chunk, chunks, colour);
      i = end;
    }
    out.resize(out.find_last_not_of(' ') + 1);
    return out;
  }

  std::string text;
  std::vector<Ground> ground;  // by column
  bool microbatches = false;   // in labels
};

struct Picture::Block {
  std::size_t first, last;  // columns
  Action action;
  int chunk;
  std::size_t kind;  // or RowShares::cells
  ActionLabels labels;

  std::size_t width() const { return last - first; }
};

std::vector<Picture::Block> Picture::blocks_of(std::size_t row, const TimeScale& scale) const {
  std::vector<Block> blocks;
  const bool stages = frame_.chunks > 1;
  const std::vector<Span>& spans = spans_[row];
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (action.joined && i + 1 < spans.size()) continue;  // with the next
    const bool is_cell = i > 0 && spans[i - 1].action.joined;
    const auto first = static_cast<std::size_t>(scale.column(spans[i].start_ns));
    const auto last = static_cast<std::size_t>(scale.column(spans[i].end_ns));
    if (last <= first) continue;
    blocks.push_back({first, last, action, chunk_of(action),
                      is_cell ? RowShares::cells : static_cast<std::size_t>(action.kind),
                      is_cell ? cell_labels(spans[i - 1].action, action, stages)
                              : action_labels(action, stages)});
  }
  return blocks;
}

// All labels of a picture name stages or none does. One that begins with a digit leaves a column
// free, so that two are never read as one.
bool Picture::labels_have_stages(const TimeScale& scale) const {
  if (frame_.chunks <= 1) return false;
  for (std::size_t row = 0; row < spans_.size(); ++row) {
    for (const Block& block : blocks_of(row, scale)) {
      if (is_compute(block.action.kind) && block.labels[0].size() >= block.width()) return false;
    }
  }
  return true;
}

// Draws each action as a block. All of a kind have the label that fits the narrowest of them.
Picture::Row Picture::draw_blocks(std::size_t row, const TimeScale& scale, bool stages) const {
  const std::vector<Block> blocks = blocks_of(row, scale);
  std::array<std::size_t, kind_count + 1> room;
  room.fill(static_cast<std::size_t>(scale.columns()));
  for (const Block& block : blocks) room[block.kind] = std::min(room[block.kind], block.width());
  Row drawn(scale.columns());
  for (const Block& block : blocks) {
    const bool is_cell = block.kind == RowShares::cells;
    std::size_t form = stages ? 0 : 1;
    while (form < 2 && (block.labels[form].empty() || block.labels[form].size() > room[block.kind]))
      ++form;
    std::string label = block.labels[form];
    if (form > 0 && !is_cell && !terminal_.colour) label = with_case(label, block.chunk);
    drawn.microbatches = drawn.microbatches || form == 1;
    label.resize(block.width(), terminal_.colour ? ' ' : '-');
    drawn.text.replace(block.first, label.size(), label);
    std::fill_n(drawn.ground.begin() + static_cast<std::ptrdiff_t>(block.first), label.size(),
                Row::Ground{block.action.kind, block.chunk});
  }
  return drawn;
}

Picture::Frame Picture::frame_of(const TimelinePanel& panel) {
  Frame frame;
  frame.all_ranks = static_cast<int>(panel.actions_of_rank.size());
  frame.ranks = shown_ranks(frame.all_ranks);
  if (!panel.row_names.empty()) {
    for (const int row : frame.ranks) {
      frame.names.push_back(panel.row_names[static_cast<std::size_t>(row)]);
    }
  }
  frame.chunk_of_stage = panel.chunk_of_stage;
  frame.chunks = panel.chunks();
  frame.makespan_ns = panel.makespan_ns;
  for (const int rank : frame.ranks) {
    frame.longest_list =
        std::max(frame.longest_list, panel.actions_of_rank[static_cast<std::size_t>(rank)]);
  }
  return frame;
}

Picture::Picture(Frame frame, const Terminal& terminal)
    : frame_(std::move(frame)),
      terminal_(terminal),
      margin_(2 + (frame_.names.empty()
                       ? fmt::formatted_size("{}", frame_.ranks.back())
                       : std::ranges::max(frame_.names, {}, &std::string::size).size())),
      columns_(terminal.width - static_cast<int>(margin_)),
      dense_(frame_.longest_list > static_cast<std::size_t>(columns_)),
      row_of_rank_(static_cast<std::size_t>(frame_.all_ranks), -1),
      spans_(frame_.ranks.size()),
      joined_(frame_.ranks.size()),
      busy_ns_(frame_.ranks.size()) {
  for (std::size_t row = 0; row < frame_.ranks.size(); ++row) {
    row_of_rank_[static_cast<std::size_t>(frame_.ranks[row])] = static_cast<int>(row);
  }
  if (dense_) {
    density_.assign(frame_.ranks.size(), RowShares(columns_));
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
  // Closing actions without duration are not in the picture.
  if (!is_closing(span.action) || span.end_ns > span.start_ns) {
    used_.kinds[static_cast<std::size_t>(span.action.kind)] = true;
  }
  used_.cells = used_.cells || span.action.joined;
  // A cell's second action is counted with its first.
  if (!joined_[at]) busy_ns_[at] += span.end_ns - span.start_ns;
  if (!dense_) {
    spans_[at].push_back(span);
  } else if (!joined_[at]) {
    const TimeScale scale(0, frame_.makespan_ns, columns_);
    density_[at].add(place_of(span.action), scale.exact(span.start_ns), scale.exact(span.end_ns));
  }
  joined_[at] = span.action.joined;
}

// Names begin at the margin, numbers end at it.
std::string Picture::row_name(std::size_t row) const {
  return frame_.names.empty() ? fmt::format("{:>{}}", frame_.ranks[row], margin_ - 2)
                              : fmt::format("{:<{}}", frame_.names[row], margin_ - 2);
}

int Picture::chunk_of(const Action& action) const {
  return is_compute(action.kind) ? frame_.chunk_of_stage[static_cast<std::size_t>(action.stage)]
                                 : 0;
}

// The index of an action, or of the cell that it opens.
std::size_t Picture::place_of(const Action& action) const {
  return action.joined ? RowShares::cells : RowShares::place_of(action.kind, chunk_of(action));
}

TimeScale Picture::scale() const {
  if (dense_) return {0, frame_.makespan_ns, columns_};
  return fitted_scale(spans_, frame_.makespan_ns, frame_.unit_ns, columns_);
}

bool Picture::has_blocks(const TimeScale& scale) const {
  bool blocks = !dense_;
  for (const auto& row : spans_) {
    for (const Span& span : row) {
      // Closing actions may be too short for a block.
      if (!is_compute(span.action.kind)) continue;
      const double width = scale.exact(span.end_ns) - scale.exact(span.start_ns);
      // As wide as others of its length, or wide enough that one column makes little difference.
      const bool is_whole = width >= 1 && width == std::floor(width);
      blocks = blocks && (span.end_ns == span.start_ns || is_whole || width >= 1.5);
    }
  }
  return blocks;
}

std::string Picture::axis() const { return time_axis(scale(), margin_) + "\n"; }

Picture::Row Picture::draw_proportions_of(std::size_t row, const TimeScale& scale) const {
  RowShares shares(scale.columns());
  const std::vector<Span>& spans = spans_[row];
  for (std::size_t s = 0; s < spans.size(); ++s) {
    if (s > 0 && spans[s - 1].action.joined) continue;
    shares.add(place_of(spans[s].action), scale.exact(spans[s].start_ns),
               scale.exact(spans[s].end_ns));
  }
  Row drawn(scale.columns());
  const auto set = [&](std::size_t column, std::size_t place) {
    if (place == RowShares::cells) {
      drawn.text[column] = '&';
      drawn.ground[column] = {Kind::SEND_F, 0};  // grey: neither forward nor backward alone
      return;
    }
    const Kind kind = RowShares::kind_of(place);
    const bool is_later = RowShares::is_later(place);
    const std::string letter(1, sign_of(kind).letter);
    drawn.text[column] = terminal_.colour ? letter[0] : with_case(letter, is_later ? 1 : 0)[0];
    drawn.ground[column] = {kind, is_later ? frame_.chunks - 1 : 0};
  };
  draw_proportions((dense_ ? density_[row] : shares).columns(), set);
  return drawn;
}

std::string Picture::rows() const {
  const TimeScale scale = this->scale();
  const bool blocks = has_blocks(scale);
  const bool stages = blocks && labels_have_stages(scale);
  std::string out;
  for (std::size_t i = 0; i < frame_.ranks.size(); ++i) {
    const Row row = blocks ? draw_blocks(i, scale, stages) : draw_proportions_of(i, scale);
    const std::string line = row_name(i) + "  " + row.painted(frame_.chunks, terminal_.colour);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

Picture::Signs Picture::signs() const {
  const TimeScale scale = this->scale();
  Signs signs = used_;
  signs.proportions = !has_blocks(scale);
  signs.blank = std::ranges::any_of(
      busy_ns_, [&](std::int64_t busy_ns) { return busy_ns < frame_.makespan_ns; });
  signs.stages = !signs.proportions && labels_have_stages(scale);
  signs.shades = frame_.chunks > 1 && (terminal_.colour || !signs.stages);
  if (signs.proportions || signs.stages) return signs;
  for (std::size_t i = 0; i < frame_.ranks.size(); ++i) {
    signs.microbatches = signs.microbatches || draw_blocks(i, scale, false).microbatches;
  }
  return signs;
}

void Picture::Signs::add(const Signs& other) {
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    kinds[kind] = kinds[kind] || other.kinds[kind];
  }
  cells = cells || other.cells;
  blank = blank || other.blank;
  proportions = proportions || other.proportions;
  microbatches = microbatches || other.microbatches;
  stages = stages || other.stages;
  shades = shades || other.shades;
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
  std::string before;  // two kinds of one meaning have one entry
  for (const Kind kind : explained_kinds()) {
    const auto [letter, meaning] = sign_of(kind);
    const std::string text = fmt::format("{} {}", letter, meaning);
    if (!signs.kinds[static_cast<std::size_t>(kind)] || text == before) continue;
    add(text, fmt::format("{} {}", paint({&letter, 1}, kind, colour), meaning));
    before = text;
  }
  const auto add_plain = [&](const std::string& text) { add(text, text); };
  if (signs.cells) add_plain("& both in one");
  if (signs.stages) {
    add_plain("4B0: virtual stage 4, microbatch 0");
  } else if (signs.microbatches) {
    const bool of_inputs = std::ranges::any_of(
        input_kinds, [&](Kind kind) { return signs.kinds[static_cast<std::size_t>(kind)]; });
    add_plain(of_inputs ? "T0: top of batch 0" : "B0: microbatch 0");
  }
  if (signs.shades) {
    add_plain(colour ? "lighter: later chunks" : "small letters: later chunks");
  }
  if (signs.proportions) add_plain("letters in proportion to time");
  if (signs.blank) add_plain("blank: bubble");
  return out + "\n";
}

std::string Picture::draw() const {
  return axis() + rows() + legend(signs(), margin_, terminal_.width, terminal_.colour);
}

std::string draw(const TimelinePanel& panel, const Terminal& terminal) {
  Picture picture(Picture::frame_of(panel), terminal);
  panel.replay([&](const Span& span) { picture.add(span); });
  return picture.draw();
}

}  // namespace pipesim
