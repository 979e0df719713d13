#include "traces/print/input_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/base/text.h"
#include "traces/print/action_label.h"
#include "traces/print/time_axis.h"

namespace pipesim {
namespace {

constexpr char wait_sign = '~';  // a collective waits for other ranks

// The part of the run that is drawn.
struct PictureWindow {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int32_t first = 0, last = 0;  // batches that end in it
};

PictureWindow window_of(const InputRun& run, int rank, int columns) {
  const int batches = run.program.batches;
  std::vector<std::int64_t> ends(static_cast<std::size_t>(batches), 0);
  PictureWindow all{0, 0, 0, batches - 1};
  const auto& spans = run.spans[static_cast<std::size_t>(rank)];
  for (std::size_t place = 0; place < spans.size(); ++place) {
    const Action& action = run.program.calls[static_cast<std::size_t>(rank)][place].action;
    auto& end = ends[static_cast<std::size_t>(action.microbatch)];
    end = std::max(end, spans[place].end_ns);
    all.end_ns = std::max(all.end_ns, end);
  }
  constexpr int columns_of_batch = 30;  // enough for letters of its actions
  const int shown = std::max(2, columns / columns_of_batch);
  if (batches <= shown + 1) return all;
  PictureWindow window;
  window.first = std::max(1, (batches - shown) / 2);
  window.last = window.first + shown - 1;
  window.begin_ns = ends[static_cast<std::size_t>(window.first - 1)];
  window.end_ns = ends[static_cast<std::size_t>(window.last)];
  return window.begin_ns < window.end_ns ? window : all;
}

// A stream's cells: how full each is, and of what.
class StreamRow {
 public:
  explicit StreamRow(const TimeScale& scale)
      : scale_(scale), cells_(static_cast<std::size_t>(scale.columns())) {}

  // `mark` distinguishes adjacent items.
  void add(std::int64_t start_ns, std::int64_t end_ns, std::uint32_t mark) {
    const double begin = std::max(0.0, scale_.exact(start_ns));
    const double end = std::min(static_cast<double>(scale_.columns()), scale_.exact(end_ns));
    for (auto column = static_cast<std::size_t>(begin);
         column < cells_.size() && static_cast<double>(column) < end; ++column) {
      const auto left = static_cast<double>(column);
      const double share = std::min(end, left + 1) - std::max(begin, left);
      Cell& cell = cells_[column];
      cell.filled += share;
      if (share > cell.most) {
        cell.most = share;
        cell.mark = mark;
      }
    }
  }

  bool is_blank(std::size_t column) const { return cells_[column].filled < 0.02; }
  bool is_idle(std::size_t column) const { return cells_[column].filled < 0.5; }
  std::uint32_t mark(std::size_t column) const { return cells_[column].mark; }
  std::size_t size() const { return cells_.size(); }

 private:
  struct Cell {
    double filled = 0;
    double most = 0;
    std::uint32_t mark = 0;
  };

  const TimeScale& scale_;
  std::vector<Cell> cells_;
};

class InputPicture {
 public:
  InputPicture(const InputRun& run, int rank, const Terminal& terminal)
      : calls_(run.program.calls[static_cast<std::size_t>(rank)]),
        spans_(run.spans[static_cast<std::size_t>(rank)]),
        terminal_(terminal) {
    for (const InputCall& call : calls_) is_used_[static_cast<std::size_t>(call.stream)] = true;
    for (int i = 0; i < input_stream_count; ++i) {
      if (!is_used_[static_cast<std::size_t>(i)]) continue;
      margin_ = std::max(margin_, input_stream_name(static_cast<InputStream>(i)).size() + 2);
    }
    const int columns = std::max(20, terminal.width - static_cast<int>(margin_));
    window_ = window_of(run, rank, columns);
    title_ = fmt::format("rank {} of {}", rank, run.program.ranks());
    if (window_.last - window_.first + 1 < run.program.batches) {
      title_ +=
          fmt::format(": from the end of batch {} to that of batch {}, of {}", window_.first - 1,
                      window_.last, plural(run.program.batches, "batch", "batches"));
    }
    scale_ = TimeScale(window_.begin_ns, window_.end_ns, columns);
  }

  std::string draw() {
    std::string out = wrap(title_, terminal_.width) + "\n" + time_axis(scale_, margin_) + "\n";
    for (int i = 0; i < input_stream_count; ++i) {
      if (is_used_[static_cast<std::size_t>(i)]) out += row(static_cast<InputStream>(i));
    }
    return out + legend();
  }

 private:
  // Marks are indices of calls; larger ones are host calls and waits.
  std::string row(InputStream stream) {
    StreamRow cells(scale_);
    const auto count = static_cast<std::uint32_t>(calls_.size());
    for (std::uint32_t place = 0; place < count; ++place) {
      const InputSpan& span = spans_[place];
      if (calls_[place].stream == stream) {
        cells.add(span.start_ns, span.end_ns, place);
        if (is_meeting(calls_[place].action.kind)) {
          cells.add(span.ready_ns, span.start_ns, 2 * count + place);
        }
      } else if (stream == InputStream::host) {
        cells.add(span.called_ns, span.issued_ns, count + place);
      }
    }
    std::string out = fmt::format("{:<{}}", input_stream_name(stream), margin_);
    for (std::size_t column = 0; column < cells.size();) {
      if (cells.is_idle(column)) {
        has_dots_ = has_dots_ || !cells.is_blank(column);
        out += cells.is_blank(column) ? ' ' : '.';
        ++column;
        continue;
      }
      const std::uint32_t mark = cells.mark(column);
      std::size_t end = column + 1;
      while (end < cells.size() && !cells.is_idle(end) && cells.mark(end) == mark) ++end;
      out += block(mark, end - column);
      column = end;
    }
    out.resize(out.find_last_not_of(' ') + 1);
    return out + "\n";
  }

  std::string block(std::uint32_t mark, std::size_t width) {
    if (mark >= 2 * calls_.size()) {
      has_waits_ = true;
      return std::string(width, wait_sign);
    }
    if (mark >= calls_.size()) {
      has_calls_ = true;
      return paint(std::string(width, sign_of(Kind::IDLE).letter), Kind::NEXT, terminal_.colour);
    }
    const Action& action = calls_[mark].action;
    is_drawn_[static_cast<std::size_t>(action.kind)] = true;
    std::string label = fmt::format("{}{}", sign_of(action.kind).letter, action.microbatch);
    if (label.size() > width) label.resize(1);
    label.resize(width, terminal_.colour ? ' ' : '-');
    return paint(label, action.kind, terminal_.colour);
  }

  std::string legend() const {
    std::string out(margin_, ' ');
    std::size_t length = margin_;  // of the line so far, without colours
    const auto add = [&](const std::string& sign, std::string_view meaning) {
      const std::size_t width = 2 + meaning.size();  // a sign is one character
      if (length > margin_ && length + 2 + width > static_cast<std::size_t>(terminal_.width)) {
        out += "\n" + std::string(margin_, ' ');
        length = margin_;
      } else if (length > margin_) {
        out += "  ";
        length += 2;
      }
      out += fmt::format("{} {}", sign, meaning);
      length += width;
    };
    const auto painted = [&](char sign, Kind kind) {
      return paint(std::string(1, sign), kind, terminal_.colour);
    };
    for (const Kind kind : input_kinds) {
      if (!is_drawn_[static_cast<std::size_t>(kind)]) continue;
      const KindSign sign = sign_of(kind);
      add(painted(sign.letter, kind), sign.meaning);
    }
    const KindSign calls = sign_of(Kind::IDLE);
    if (has_calls_) add(painted(calls.letter, Kind::NEXT), calls.meaning);
    if (has_waits_) add(std::string(1, wait_sign), "waits for other ranks");
    if (has_dots_) add(".", "mostly idle");
    return out + "\n";
  }

  const InputCalls& calls_;
  const std::vector<InputSpan>& spans_;
  const Terminal& terminal_;
  std::size_t margin_ = 0;
  PictureWindow window_;
  std::string title_;
  TimeScale scale_{0, 0, 1};
  std::array<bool, input_stream_count> is_used_{};
  std::array<bool, kind_count> is_drawn_{};
  bool has_calls_ = false, has_waits_ = false, has_dots_ = false;
};

}  // namespace

std::string input_picture(const InputRun& run, int rank, const Terminal& terminal) {
  return InputPicture(run, rank, terminal).draw();
}

}  // namespace pipesim
