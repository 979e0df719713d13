// A timeline drawn in characters: one row per rank, time from left to right.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/print/row_shares.h"
#include "traces/print/terminal.h"
#include "traces/print/time_axis.h"
#include "traces/print/timeline_panel.h"

namespace pipesim {

// Receives the spans of an evaluation, like a SpanSink; ignores those of other ranks, transfers and
// times before 0. Draws each action as a block if they are few, else kinds in proportion to the
// time that they fill; its memory is O(ranks shown x columns) either way.
class Picture {
 public:
  struct Frame {
    std::vector<int> ranks;           // to show
    std::vector<int> chunk_of_stage;  // of all stages
    int all_ranks = 0;
    int chunks = 1;  // the most on any rank; labels and shades tell them apart
    std::int64_t makespan_ns = 0;
    std::size_t longest_list = 0;  // the number of actions of the rank with the most
    // For pictures on one axis: a common divisor of all their times; 0: a single picture.
    std::int64_t unit_ns = 0;
    std::vector<std::string> names = {};  // of the rows, where these are not ranks
  };

  // What a legend explains.
  struct Signs {
    std::array<bool, kind_count> kinds{};
    bool cells = false;                         // with a forward and a backward
    bool blank = false;                         // empty time
    bool proportions = false;                   // instead of blocks
    bool microbatches = false, stages = false;  // in labels
    bool shades = false;                        // of chunks

    void add(const Signs& other);
  };

  static Frame frame_of(const TimelinePanel& panel);

  Picture(Frame frame, const Terminal& terminal);

  void add(const Span& span);
  // The axis, one line per rank, and the legend, separately and all together; each ends with a
  // newline.
  std::string axis() const;
  std::string rows() const;
  Signs signs() const;
  static std::string legend(const Signs& signs, std::size_t margin, int width, bool colour);
  std::string draw() const;

  std::size_t margin() const { return margin_; }  // before the axis begins

 private:
  struct Row;
  struct Block;
  std::string row_name(std::size_t row) const;
  int chunk_of(const Action& action) const;
  std::size_t place_of(const Action& action) const;  // in RowShares
  TimeScale scale() const;
  bool has_blocks(const TimeScale& scale) const;
  bool labels_have_stages(const TimeScale& scale) const;
  std::vector<Block> blocks_of(std::size_t row, const TimeScale& scale) const;
  Row draw_blocks(std::size_t row, const TimeScale& scale, bool stages) const;
  Row draw_proportions_of(std::size_t row, const TimeScale& scale) const;

  Frame frame_;
  Terminal terminal_;
  std::size_t margin_;
  int columns_;
  bool dense_;                            // too many actions for blocks
  std::vector<int> row_of_rank_;          // -1 if not shown
  std::vector<std::vector<Span>> spans_;  // by row, if not dense
  std::vector<RowShares> density_;        // by row, if dense
  std::vector<bool> joined_;              // by row: the last span opened a cell
  std::vector<std::int64_t> busy_ns_;     // by row
  Signs used_;                            // kinds and cells so far
};

std::string draw(const TimelinePanel& panel, const Terminal& terminal);

}  // namespace pipesim
