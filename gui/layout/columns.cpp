#include "gui/layout/columns.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "gui/layout/palette.h"

namespace pipesim::gui {
namespace {

// However short a bar is, it is seen.
constexpr double min_filled = 0.375;
// Bars of fewer columns than this, in the mean of what is in sight, are not told apart. A cell
// is an exception where its bars are clearly shorter, or longer, than that: rows look alike all
// along where they are.
constexpr double min_seen = 2.75;
constexpr double min_seen_at_all = 1.25;
constexpr double min_seen_surely = 3.5;
// Of a column in which more bars end each is not looked at.
constexpr std::size_t max_looked_into = 4;
// Cells are so many times as long as a wide bar at least, and less than twice that.
constexpr int cell_in_wide = 3;

// Where in a stack a shade is: the greatest at the top.
int place_in_stack(Shade shade) {
  if (is_bubble(shade) || shade == wait_shade) return shade_count * (lighter_steps + 1) + shade;
  return is_lighter(shade)
             ? full_shade(shade) * (lighter_steps + 1) + 1 + (shade - first_lighter_shade) / 4
             : shade * (lighter_steps + 1);
}

// The first of `instants` from `index` on that is no earlier.
std::size_t first_from(std::span<const BarRow::Instant> instants, std::size_t index,
                       std::int64_t time_ns) {
  std::size_t step = 1;
  while (index + step < instants.size() && instants[index + step].time_ns < time_ns) step *= 2;
  const auto near = instants.subspan(index, std::min(step + 1, instants.size() - index));
  const auto found = std::ranges::lower_bound(near, time_ns, {}, &BarRow::Instant::time_ns);
  return index + static_cast<std::size_t>(found - near.begin());
}

class RowPainter {
 public:
  RowPainter(const BarRow& row, const RowPaint& paint, std::span<const std::int64_t> times,
             DrawList::Strip& strip, std::vector<WideBar>* wide)
      : row_(row), paint_(paint), times_(times), strip_(strip), wide_(wide), sweep_(row) {
    for (const Shade shade : row.shades()) {
      used_[used_count_++] = {shade, paint.shades[shade], 0, 0};
    }
    std::ranges::sort(used(), std::greater(),
                      [](const Used& one) { return place_in_stack(one.shade); });
    // Cells begin at the same instants wherever the columns do.
    const std::int64_t length = times.back() - times.front();
    const auto cell_ns = std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(
        length / std::ssize(strip.columns) * cell_in_wide * paint.least_wide, 1)));
    cell_bits_ = static_cast<int>(std::bit_width(cell_ns)) - 1;
    before_.swap(strip.parts);
    if (!before_.empty()) painted_.resize(columns());
    if (!row.instants().empty()) mostly_filled_.resize(columns());
  }

  void paint() {
    const std::size_t in_sight =
        row_.first_ending_after(time(columns())) - row_.first_ending_after(time(0));
    is_dense_ = min_seen * static_cast<double>(in_sight) > static_cast<double>(columns_of_row());
    take(time(0));
    for (std::size_t x = 0; x < columns();) {
      const std::int64_t from = time(x);
      const std::int64_t to = time(x + 1);
      if (from == to) {  // less than a nanosecond: as the one before, within the same one
        set(x, strip_.columns[x == 0 ? 0 : x - 1]);
        ++x;
        continue;
      }
      if (sweep_.next() < row_.size() && row_.end_ns(sweep_.next()) <= from) take(from);
      const std::size_t next = sweep_.next();
      if (next == row_.size()) break;
      const std::int64_t wide_ns = (to - from) * paint_.least_wide;
      const std::int64_t start_ns = row_.start_ns(next);
      const std::int64_t end_ns = row_.end_ns(next);
      if (start_ns >= to) {
        x = next > 0 && start_ns - row_.end_ns(next - 1) < wide_ns ? share(x) : x + 1;
      } else if (start_ns <= from && end_ns >= to && end_ns - start_ns >= wide_ns) {
        x = fill(next, x);
      } else {
        x = share(x);
      }
    }
    end_cell();
    add_instants();
    put_behind();
  }

 private:
  struct Used {
    Shade shade = 0;
    Rgb colour = 0;
    std::int64_t before_ns = 0;  // filled with it at swept_ns_
    std::int64_t busy_ns = 0;    // of what is drawn just now
  };
  // A column that short bars have, or some of them.
  struct Shared {
    std::size_t x = 0;
    std::size_t columns = 1;  // from x on
    std::int64_t length_ns = 0;
    std::size_t ends = 0;    // of bars that are not wide
    bool has_short = false;  // work that is within it, as far as a look tells
  };

  std::span<Used> used() { return {used_.data(), used_count_}; }
  std::size_t columns() const { return strip_.columns.size(); }
  std::int64_t time(std::size_t column) const { return times_[column] - paint_.offset_ns; }

  // Between the row's ends.
  std::int64_t columns_of_row() const {
    const auto at = [&](std::int64_t time_ns) {
      return std::ranges::lower_bound(times_, time_ns + paint_.offset_ns) - times_.begin();
    };
    return at(row_.end_ns(row_.size() - 1)) - at(row_.start_ns(0));
  }

  void take(std::int64_t at_ns) {
    const ShadeTimes& filled = sweep_.filled_before(at_ns);
    for (Used& one : used()) one.before_ns = filled[one.shade];
    swept_ns_ = at_ns;
  }

  void set(std::size_t x, Rgb colour) {
    strip_.columns[x] = colour;
    if (!painted_.empty()) painted_[x] = 1;
  }
  void note_filled(std::size_t x) {
    if (!mostly_filled_.empty()) mostly_filled_[x] = 1;
  }

  // From `x` on with one bar, as far as it goes.
  std::size_t fill(std::size_t number, std::size_t x) {
    const Bar bar = row_[number];
    const Rgb colour = paint_.shades[bar.shade];
    // The column before, too, where it was decided to be the bar's.
    const std::size_t first = x > 0 && decided_for_ == number ? x - 1 : x;
    while (x < columns() && time(x + 1) <= bar.end_ns) {
      note_filled(x);
      set(x++, colour);
    }
    if (static_cast<int>(x - first) < paint_.least_wide) return x;
    if (wide_ != nullptr) wide_->push_back({number, static_cast<int>(first), static_cast<int>(x)});
    if (bar.start_ns >= time(0) && !is_bubble(bar.shade)) {
      set(first, mix(colour, paint_.edge_colour, paint_.edge));
    }
    return x;
  }

  // Where wide bars and idle time meet, or most of a column is one's and no short work is in
  // it, the column is whose most of it is. Says whether it was so.
  bool decide(std::size_t next, std::size_t x) {
    const std::int64_t from = time(x);
    const std::int64_t to = time(x + 1);
    const std::int64_t wide_ns = (to - from) * paint_.least_wide;
    std::int64_t idle_ns = to - from;
    std::int64_t most_ns = 0;
    std::size_t most = row_.size();
    bool has_bubble = false;  // a short one
    for (std::size_t i = next; i < row_.size() && row_.start_ns(i) < to; ++i) {
      const std::int64_t length_ns = row_.end_ns(i) - row_.start_ns(i);
      if (length_ns < wide_ns) {
        has_bubble = has_bubble || length_ns > 0;
        if (length_ns == 0 || is_bubble(row_[i].shade)) continue;
        return false;
      }
      const std::int64_t own = std::min(row_.end_ns(i), to) - std::max(row_.start_ns(i), from);
      idle_ns -= own;
      if (own > most_ns) {
        most_ns = own;
        most = i;
      }
    }
    if (has_bubble && 2 * most_ns <= to - from) return false;
    if (2 * idle_ns <= to - from) note_filled(x);
    if (idle_ns >= most_ns) return true;
    set(x, paint_.shades[row_[most].shade]);
    decided_for_ = most;
    if (wide_ != nullptr && !wide_->empty() && wide_->back().bar == most &&
        wide_->back().last == static_cast<int>(x)) {
      ++wide_->back().last;
    }
    return true;
  }

  // Of a column that no wide bar has to itself: notes what fills it. Returns the next one.
  std::size_t share(std::size_t x) {
    if (!is_of_cell(x)) end_cell();
    const std::size_t end = x + pace(x);
    const std::int64_t from = time(x);
    const std::int64_t to = time(end);
    if (swept_ns_ != from) take(from);
    const std::size_t next = sweep_.next();
    const ShadeTimes& filled = sweep_.filled_before(to);
    swept_ns_ = to;
    Shared column{x, end - x, to - from, sweep_.next() - next, true};
    std::int64_t all_ns = 0;
    for (Used& one : used()) {
      const std::int64_t busy_ns = filled[one.shade] - one.before_ns;
      one.before_ns += busy_ns;
      all_ns += busy_ns;
      busy_ns_.push_back(busy_ns);
    }
    if (end == x + 1 && column.ends <= max_looked_into) {
      if (row_.start_ns(next) < to && decide(next, x)) {
        busy_ns_.resize(busy_ns_.size() - used_count_);
        return end;
      }
      look_at(next, from, column);
    }
    shared_.push_back(column);
    for (; x < end && 2 * all_ns >= to - from; ++x) note_filled(x);
    return end;
  }

  // Columns that are looked at in one go. Where no bar, and no time between two, is as long as
  // a column: all of the cell. Where the last had many bars: so many that a wide bar has the
  // first of some, whole.
  std::size_t pace(std::size_t x) {
    if (!is_dense_ || !row_.instants().empty()) return 1;
    const std::size_t rest = end_of_cell(x) - x;
    if (rest >= 2 * static_cast<std::size_t>(paint_.least_wide) &&
        sweep_.longest_until(time(x + rest)) < time(x + 1) - time(x)) {
      return rest;
    }
    if (shared_.empty()) return 1;
    const Shared& last = shared_.back();
    const auto most = static_cast<std::size_t>(paint_.least_wide) - 1;
    if (last.ends <= max_looked_into * last.columns || x + most >= columns()) return 1;
    if (row_.end_ns(row_.size() - 1) < time(x + most)) return 1;
    return rest >= most ? most : 1;
  }

  // The column behind those that begin in the same cell.
  std::size_t end_of_cell(std::size_t x) {
    if (x < cell_end_) return cell_end_;
    const std::int64_t cell = times_[x] >> cell_bits_;
    cell_end_ = x + 1;
    while (cell_end_ < columns() && times_[cell_end_] >> cell_bits_ == cell) ++cell_end_;
    return cell_end_;
  }

  void look_at(std::size_t next, std::int64_t from, Shared& column) const {
    column.has_short = false;
    for (std::size_t i = next; i < next + column.ends; ++i) {
      const Bar bar = row_[i];
      const bool is_work = bar.end_ns > bar.start_ns && !is_bubble(bar.shade);
      if (is_work && bar.start_ns >= from) column.has_short = true;
    }
    const bool first_is_wide = column.ends > 0 && row_.end_ns(next) - row_.start_ns(next) >=
                                                      column.length_ns * paint_.least_wide;
    if (first_is_wide) --column.ends;
  }

  // Where bars are short, the columns of a cell that follow each other share a stack. Where
  // they are long enough to be told apart, or few, each column is by itself.
  void end_cell() {
    if (shared_.empty()) return;
    std::size_t ends = 0;
    for (const Shared& column : shared_) ends += column.ends;
    const std::size_t width = shared_.back().x + shared_.back().columns - shared_.front().x;
    const bool is_few = width < 2 * static_cast<std::size_t>(paint_.least_wide);
    if (!is_few) {
      const double least = is_dense_ ? min_seen_surely : min_seen_at_all;
      is_dense_ = least * static_cast<double>(ends) > static_cast<double>(width);
    }
    if (is_dense_ && !is_few) {
      const std::int64_t length_ns = sum(0, shared_.size());
      stack(shared_, length_ns, 0);
    } else {
      for (std::size_t i = 0; i < shared_.size(); ++i) {
        sum(i, i + 1);
        if (shared_[i].has_short) {
          stack(std::span(shared_).subspan(i, 1), shared_[i].length_ns, min_filled);
        } else {
          give_to_greatest(shared_[i]);
        }
      }
    }
    shared_.clear();
    busy_ns_.clear();
  }

  bool is_of_cell(std::size_t x) const {
    if (shared_.empty()) return true;
    const Shared& last = shared_.back();
    return x == last.x + last.columns && times_[x] >> cell_bits_ == times_[last.x] >> cell_bits_;
  }

  // Into busy_ns, what fills those columns; and how long they are.
  std::int64_t sum(std::size_t first, std::size_t last) {
    for (Used& one : used()) one.busy_ns = 0;
    std::int64_t length_ns = 0;
    for (std::size_t column = first; column < last; ++column) {
      length_ns += shared_[column].length_ns;
      const std::int64_t* busy_ns = busy_ns_.data() + column * used_count_;
      for (Used& one : used()) one.busy_ns += *busy_ns++;
    }
    return length_ns;
  }

  void give_to_greatest(const Shared& column) {
    std::int64_t idle_ns = column.length_ns;
    for (const Used& one : used()) idle_ns -= one.busy_ns;
    const auto greatest = std::ranges::max_element(used(), {}, &Used::busy_ns);
    if (greatest != used().end() && greatest->busy_ns > idle_ns) set(column.x, greatest->colour);
  }

  // Columns of which busy_ns tells what of `length_ns` is busy: as layers from the bottom.
  // Where anything is, they have at least that part of the height, and a row of pixels.
  void stack(std::span<const Shared> shared, std::int64_t length_ns, double least) {
    std::int64_t all_ns = 0;
    for (const Used& one : used()) all_ns += one.busy_ns;
    if (all_ns == 0) return;
    const double height = strip_.height;
    const auto busy = static_cast<double>(all_ns);
    const double rows_a_ns =
        std::max({height / static_cast<double>(length_ns), height * least / busy, 1 / busy});
    const auto top_of = [&](std::int64_t ns) {
      return strip_.height - static_cast<int>(static_cast<double>(ns) * rows_a_ns + 0.5);
    };
    std::array<DrawList::Strip::Part, shade_count> layers;
    std::size_t count = 0;
    int top = top_of(all_ns);
    for (const Used& one : used()) {
      all_ns -= one.busy_ns;
      const int bottom = top_of(all_ns);
      if (bottom == top) continue;
      const bool as_above = count > 0 && layers[count - 1].colour == one.colour;
      if (!as_above) layers[count++] = {0, 1, std::max(top, 0), one.colour};
      top = bottom;
    }
    const std::size_t first = shared.front().x;
    const std::size_t end = shared.back().x + shared.back().columns;
    for (std::size_t x = first; x < end; ++x) {
      set(x, layers[0].top == 0 ? layers[0].colour : strip_.columns[x]);
    }
    for (auto& layer : std::span(layers).first(count)) {
      if (layer.top == 0) continue;
      layer.column = static_cast<int>(first);
      layer.width = static_cast<int>(end - first);
      strip_.parts.push_back(layer);
    }
  }

  void add_instants() {
    if (mostly_filled_.empty()) return;
    const auto instants = row_.instants();
    std::size_t next = 0;
    for (std::size_t x = 0; x < columns(); ++x) {
      next = first_from(instants, next, time(x));
      if (next == instants.size()) break;
      if (instants[next].time_ns >= time(x + 1) || mostly_filled_[x]) continue;
      set(x, paint_.shades[row_[instants[next].bar].shade]);
      if (!strip_.parts.empty()) cover(strip_.parts, x);
    }
  }

  void cover(std::vector<DrawList::Strip::Part>& parts, std::size_t x) const {
    parts.push_back({static_cast<int>(x), 1, 0, strip_.columns[x]});
  }

  // What was there before this row lies behind it.
  void put_behind() {
    if (before_.empty()) return;
    for (std::size_t x = 0; x < columns(); ++x) {
      if (painted_[x] != 0) cover(before_, x);
    }
    before_.insert(before_.end(), strip_.parts.begin(), strip_.parts.end());
    strip_.parts.swap(before_);
  }

  const BarRow& row_;
  const RowPaint& paint_;
  std::span<const std::int64_t> times_;
  DrawList::Strip& strip_;
  std::vector<WideBar>* wide_;
  BarRow::Sweep sweep_;
  std::array<Used, shade_count> used_{};
  std::size_t used_count_ = 0;
  std::int64_t swept_ns_ = 0;
  std::size_t decided_for_ = std::numeric_limits<std::size_t>::max();
  int cell_bits_ = 0;
  std::size_t cell_end_ = 0;  // of the last that was asked for
  bool is_dense_ = false;
  std::vector<Shared> shared_;         // columns that follow each other, of one cell
  std::vector<std::int64_t> busy_ns_;  // of each of them, by used_
  std::vector<char> mostly_filled_;    // columns, where the row has bars of no length
  std::vector<DrawList::Strip::Part> before_;
  std::vector<char> painted_;  // columns, where there were parts before
};

}  // namespace

std::vector<std::int64_t> column_times(const Viewport& viewport) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(std::max(viewport.width, 0)) + 1);
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i] = viewport.time_of(viewport.x + static_cast<int>(i));
  }
  return times;
}

void paint_row(const BarRow& row, const RowPaint& paint, std::span<const std::int64_t> times,
               DrawList::Strip& strip, std::vector<WideBar>* wide) {
  if (row.empty() || strip.columns.empty()) return;
  RowPainter(row, paint, times, strip, wide).paint();
}

}  // namespace pipesim::gui
