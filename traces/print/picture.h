// A timeline drawn in characters: one row a rank, time from left to right.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/print/terminal.h"
#include "traces/print/time_axis.h"
#include "traces/timeline.h"

namespace pipesim {

// The ranks that fit a page: all, or an even choice with the first and last.
std::vector<int> shown_ranks(int ranks);

// Fed with the spans of an evaluation, as a SpanSink is; those of other ranks,
// transfers and what lies before 0 are passed over. Draws each action as a block where they are
// few, else what fills most of each column; its memory is O(ranks shown x
// columns) either way.
class Picture {
 public:
  struct Frame {
    std::vector<int> ranks;           // to show
    std::vector<int> chunk_of_stage;  // of all stages
    int all_ranks = 0;
    int chunks = 1;  // the most a rank holds; labels tell them apart
    std::int64_t makespan_ns = 0;
    std::size_t longest_list = 0;  // actions of the rank with the most
    // Of pictures on one axis: what divides the times of all; 0: there is no other.
    std::int64_t unit_ns = 0;
  };

  // What a legend explains.
  struct Signs {
    std::array<bool, kind_count> kinds{};
    bool cells = false;    // with a forward and a backward
    bool columns = false;  // that show what fills most of them
    bool chunks = false;   // in labels

    void add(const Signs& other);
  };

  // Of a timeline with these stages, whose rank r does actions_of_rank[r] actions.
  static Frame frame_of(const std::vector<int>& chunk_of_stage,
                        const std::vector<std::size_t>& actions_of_rank, std::int64_t makespan_ns);

  Picture(Frame frame, const Terminal& terminal);

  void add(const Span& span);
  // The axis, a line a rank, and the legend, each by itself and all together; they end with a
  // line's end.
  std::string axis() const;
  std::string rows() const;
  Signs signs() const;
  static std::string legend(const Signs& signs, std::size_t margin, int width, bool colour);
  std::string draw() const;

  std::size_t margin() const { return margin_; }  // before the axis begins

 private:
  // Shares of a column by kind; the last for forward and backward in one cell.
  using Column = std::array<double, kind_count + 1>;

  TimeScale scale() const;
  bool has_blocks(const TimeScale& scale) const;

  Frame frame_;
  Terminal terminal_;
  std::size_t margin_;
  int columns_;
  bool dense_;                                // too many actions for blocks
  std::vector<int> row_of_rank_;              // -1 where not shown
  std::vector<std::vector<Span>> spans_;      // by row, where not dense
  std::vector<std::vector<Column>> density_;  // by row, where dense
  std::vector<bool> joined_;                  // by row: the last span opened a cell
  Signs used_;                                // kinds and cells so far
};

}  // namespace pipesim
