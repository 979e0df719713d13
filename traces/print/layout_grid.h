// The places of a layout's stages in a picture of it, and their texts: shared by its two forms,
// characters and SVG.
//
// Reading is const; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "traces/pipeline_layout.h"

namespace pipesim {

class LayoutGrid {
 public:
  // Neighbouring ranks or chunks: a single one, or several that are left out.
  struct Range {
    int first = 0;
    int last = 0;

    bool is_one() const { return first == last; }
    int count() const { return last - first + 1; }
  };
  // From a stage to the next.
  enum class Direction : std::uint8_t {
    end,     // there is none
    beside,  // on the same rank
    down,    // on the next rank, the same chunk of it
    up,      // on the rank before, the same chunk of it
    far,     // anywhere else
  };

  // The layout must outlive it. If there are more ranks or chunks than these, the middle is left
  // out.
  LayoutGrid(const PipelineLayout& layout, int max_ranks, int max_chunks);

  const std::vector<Range>& rows() const { return rows_; }
  const std::vector<Range>& columns() const { return columns_; }
  int chunks() const { return chunks_; }
  // -1 if the rank has no such chunk, or there is no such rank.
  int stage_at(int rank, int chunk) const;
  int chunk_of(int stage) const { return chunk_of_stage_[static_cast<std::size_t>(stage)]; }
  Direction direction_from(int stage) const;
  std::int64_t bytes_from(int stage) const;  // to the next

  // "rank 0", and its devices if they are not one per rank.
  std::vector<std::string> label(const Range& ranks) const;
  // The lines of a box; the first is its title. Empty if there is no stage.
  std::vector<std::string> words(const Range& ranks, const Range& chunks) const;

 private:
  const PipelineLayout& layout_;
  std::vector<std::vector<int>> stages_of_rank_;
  std::vector<int> chunk_of_stage_;
  std::vector<std::int64_t> bytes_from_;
  int chunks_ = 0;
  std::vector<Range> rows_, columns_;
};

// "gpt-mini, 1F1B: 4 ranks x 2 chunks, 8 microbatches; 2 replicas of 8 devices".
std::string layout_heading(const PipelineLayout& layout);

// A box's lines, broken at `letters` characters, after commas if that is enough.
std::vector<std::string> fitted(const std::vector<std::string>& words, int letters);

// The notes below the picture: what each sentence is about, and the sentence.
struct LayoutNote {
  std::string about;
  std::string text;
};
std::vector<LayoutNote> layout_notes(const PipelineLayout& layout, const LayoutGrid& grid);

}  // namespace pipesim
