#include "sim/schedule/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {

Placement::Placement(std::vector<int> rank_of_stage, std::vector<int> rank_of_second,
                     int microbatches)
    : rank_of_stage_(std::move(rank_of_stage)),
      rank_of_second_(std::move(rank_of_second)),
      microbatches_(microbatches) {
  const int stages = static_cast<int>(rank_of_stage_.size());
  int highest = -1;
  for (const int rank : rank_of_stage_) highest = std::max(highest, rank);
  for (const int rank : rank_of_second_) highest = std::max(highest, rank);
  if (highest >= stages) {
    throw input_error(fmt::format(
        "placement: rank {} is named but {} cannot fill that many ranks; number ranks from 0 "
        "without gaps",
        highest, plural(stages, "virtual stage")));
  }
  stages_of_rank_.resize(static_cast<std::size_t>(highest) + 1);
  chunk_of_stage_.reserve(rank_of_stage_.size());
  const auto add = [&](int rank, int stage) {
    auto& own = stages_of_rank_[static_cast<std::size_t>(rank)];
    own.push_back(stage);
    return static_cast<int>(own.size()) - 1;
  };
  for (int stage = 0; stage < stages; ++stage) {
    const int chunk = add(rank_of(stage), stage);
    chunk_of_stage_.push_back(chunk);
    if (rank_of_second_.empty()) continue;
    if (rank_of(stage, 1) == rank_of(stage) || add(rank_of(stage, 1), stage) != chunk) {
      throw input_error(fmt::format(
          "placement: the copies of stage {} must live on two ranks, on both after as many others",
          stage));
    }
  }
  for (int rank = 0; rank <= highest; ++rank) {
    if (stages_of(rank).empty()) {
      throw input_error(fmt::format("placement: rank {} holds no stage; give it one", rank));
    }
  }
}

Placement Placement::loop(int ranks, int chunks) {
  std::vector<int> rank_of_stage(static_cast<std::size_t>(ranks) *
                                 static_cast<std::size_t>(chunks));
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
    rank_of_stage[s] = static_cast<int>(s % static_cast<std::size_t>(ranks));
  }
  return Placement(std::move(rank_of_stage));
}

Placement Placement::v(int ranks, int chunks) {
  std::vector<int> rank_of_stage;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (int i = 0; i < ranks; ++i) rank_of_stage.push_back(chunk % 2 == 0 ? i : ranks - 1 - i);
  }
  return Placement(std::move(rank_of_stage));
}

Placement Placement::both_ways(int ranks, int microbatches) {
  std::vector<int> down;
  for (int rank = 0; rank < ranks; ++rank) down.push_back(rank);
  std::vector<int> up(down.rbegin(), down.rend());
  return {std::move(down), std::move(up), microbatches};
}

Placement Placement::parse(std::string_view text, int ranks, int chunks) {
  if (text == "loop") return loop(ranks, chunks);
  if (text == "v") return v(ranks, chunks);
  std::vector<int> rank_of_stage;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view digits = strip(part);
    int rank = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (status != std::errc() || end != digits.data() + digits.size() || rank < 0) {
      throw input_error(fmt::format(
          "--placement: {} is none of loop, v, or a list of ranks such as 0,1,1,0", quote(text)));
    }
    rank_of_stage.push_back(rank);
  }
  Placement placement(std::move(rank_of_stage));
  if (placement.ranks() != ranks) {
    throw input_error(fmt::format("--placement: {} names {}, --stages {}", quote(text),
                                  plural(placement.ranks(), "rank"), ranks));
  }
  return placement;
}

int Placement::name_stage(int rank) const {
  const std::vector<int>& own = stages_of(rank);
  const auto first = std::ranges::find(own, rank, [&](int stage) { return rank_of(stage); });
  return first == own.end() ? own.front() : *first;
}

int Placement::chunks() const {
  std::size_t most = 0;
  for (const auto& own : stages_of_rank_) most = std::max(most, own.size());
  return static_cast<int>(most);
}

bool Placement::even() const {
  return static_cast<std::size_t>(chunks()) * stages_of_rank_.size() ==
         rank_of_stage_.size() + rank_of_second_.size();
}

bool Placement::is_loop() const {
  if (copies() > 1) return false;
  for (int stage = 0; stage < stages(); ++stage) {
    if (rank_of(stage) != stage % ranks()) return false;
  }
  return true;
}

std::string shape_text(const Placement& placement) {
  const int chunks = placement.virtual_stages();
  const std::string stages = plural(placement.ranks(), "stage");
  return chunks > 1 ? stages + " x " + plural(chunks, "chunk") : stages;
}

}  // namespace pipesim
