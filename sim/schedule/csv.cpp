#include "sim/schedule/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/schedule/cells.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::string_view grammar =
    "a cell is STAGE TYPE MICROBATCH such as 2F0, with TYPE one of F, I, W, B, SEND_F, RECV_F, "
    "SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD (the last three without a microbatch), or "
    "(0F1;3B0)OVERLAP_F_B";

struct CsvPlace {
  std::size_t line = 1;
  std::size_t column = 1;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    while (!text_.empty() && (text_.back() == '\n' || text_.back() == '\r')) {
      text_.remove_suffix(1);  // ends of lines after the last row
    }
  }

  Schedule run() {
    if (strip(text_).empty()) {
      throw input_error(fmt::format("{}: has no schedule; it needs one row per rank", file_));
    }
    schedule_.name = file_;
    rows_ = split(text_, '\n');
    schedule_.actions.reserve(static_cast<std::size_t>(std::ranges::count(text_, ',')) +
                              rows_.size());
    for (std::size_t line = 0; line < rows_.size(); ++line) read_row(line);
    settle_dialect();
    infer_shape(schedule_, file_, [&](int rank, std::size_t index, const std::string& rule) {
      fail(place_of(rank, index), rule);
    });
    if (const auto fault = find_fault(schedule_)) {
      fail(place_of(fault->rank, fault->index),
           fmt::format("rank {}: {}", fault->rank, fault->rule));
    }
    return std::move(schedule_);
  }

 private:
  // Calls use(cell, offset) for each cell of a row, until it returns false.
  template <typename Use>
  static void for_each_cell(std::string_view row, Use use) {
    if (row.ends_with('\r')) row.remove_suffix(1);
    for (std::size_t at = 0;;) {
      const std::size_t comma = std::min(row.find(',', at), row.size());
      std::size_t first = at;
      std::size_t last = comma;
      while (first < last && (row[first] == ' ' || row[first] == '\t')) ++first;
      while (last > first && (row[last - 1] == ' ' || row[last - 1] == '\t')) --last;
      if (last - first >= 2 && row[first] == '"' && row[last - 1] == '"') {
        ++first;  // a cell that a spreadsheet quoted
        --last;
      }
      if (!use(row.substr(first, last - first), first) || comma == row.size()) return;
      at = comma + 1;
    }
  }

  [[noreturn]] void fail(CsvPlace place, std::string_view rule) const {
    throw input_error(fmt::format("{}:{}:{}: {}", file_, place.line, place.column, rule));
  }

  void read_row(std::size_t line) {
    schedule_.actions.add_rank();
    bool works = false;
    for_each_cell(rows_[line], [&](std::string_view cell, std::size_t offset) {
      const CsvPlace place{line + 1, offset + 1};
      if (cell.empty()) {
        schedule_.actions.add({});
      } else if (cell.front() == '(') {
        read_joined(
            cell, [&](std::string_view part) { return read_action(part, place); },
            [&](const Action& action) { schedule_.actions.add(action); },
            [&](const std::string& rule) { fail(place, rule); });
        works = true;
      } else {
        schedule_.actions.add(read_action(cell, place));
        works = true;
      }
      return true;
    });
    if (!works) {
      fail({line + 1, 1}, fmt::format("rank {} has no action; every row needs one", line));
    }
  }

  Action read_action(std::string_view text, CsvPlace place) {
    bool is_bw = false;
    const auto action = parse_action(text, &is_bw);
    if (!action || !is_of_pytorch(action->kind)) {
      fail(place, fmt::format("{} is not an action; {}", quote(text), grammar));
    }
    if (is_bw) {
      const int rank = schedule_.ranks() - 1;
      full_backwards_.emplace_back(rank, schedule_.actions[rank].size());
      first_bw_ = std::min(first_bw_, std::pair(place.line, place.column));
    }
    if (action->kind == Kind::I) has_i_ = true;
    if (action->kind == Kind::W) has_w_ = true;
    return *action;
  }

  // 2024: B is the input gradient, BW the full backward.
  void settle_dialect() {
    const bool old = !full_backwards_.empty() || (has_w_ && !has_i_);
    if (!old) return;
    if (has_i_) {
      fail({first_bw_.first, first_bw_.second},
           "BW belongs to the dialect of 2024, where B is the input gradient, but this file also "
           "has I; use I, W and B throughout");
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      for (Action& action : schedule_.actions[rank]) {
        if (action.kind == Kind::B) action.kind = Kind::I;
      }
    }
    for (const auto& [rank, index] : full_backwards_) {
      schedule_.actions[rank][index].kind = Kind::B;
    }
  }

  // The cell that holds action `index` of a rank, or the end of its row.
  CsvPlace place_of(int rank, std::size_t index) const {
    const auto line = static_cast<std::size_t>(rank);
    std::size_t actions = 0;
    CsvPlace place{line + 1, rows_[line].size() + 1};
    for_each_cell(rows_[line], [&](std::string_view cell, std::size_t offset) {
      actions +=
          cell.starts_with('(') ? 1 + static_cast<std::size_t>(std::ranges::count(cell, ';')) : 1;
      if (actions <= index) return true;
      place.column = offset + 1;
      return false;
    });
    return place;
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<std::string_view> rows_;
  Schedule schedule_;
  std::vector<std::pair<int, std::size_t>> full_backwards_;  // (rank, index) of each BW
  std::pair<std::size_t, std::size_t> first_bw_{~std::size_t{0}, 0};
  bool has_i_ = false;
  bool has_w_ = false;
};

}  // namespace

Schedule parse_csv(std::string_view text, const std::string& file) {
  return Parser(text, file).run();
}

Schedule read_csv(const std::string& path) { return parse_csv(read_file(path), path); }

std::string csv_row(std::span<const Action> actions) {
  std::string row;
  row.reserve(actions.size() * 8);
  bool is_first = true;
  const Action* const end = actions.data() + actions.size();
  for (const Action* cell = actions.data(); cell != end;) {
    const std::size_t size = cell_size(cell, end);
    if (is_of_pytorch(cell->kind) || cell->kind == Kind::IDLE) {
      if (!std::exchange(is_first, false)) row += ',';
      append_cell(row, cell, size);
    }
    cell += size;
  }
  return row;
}

void check_fits_csv(const Schedule& schedule) {
  if (schedule.dependencies.empty()) return;
  const auto& [action, awaited] = schedule.dependencies.front();
  throw input_error(
      fmt::format("{}: CSV cannot say that {} waits for {}; write it with `pipesim schedule "
                  "streams`",
                  schedule.name, to_text(action), to_text(awaited)));
}

std::string to_csv(const Schedule& schedule) {
  check_fits_csv(schedule);
  std::string text;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    text += csv_row(schedule.actions[rank]);
    text += csv_line_end;
  }
  return text;
}

}  // namespace pipesim
