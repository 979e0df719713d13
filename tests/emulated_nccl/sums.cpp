#include "tests/emulated_nccl/sums.h"

#include <algorithm>
#include <cstring>

namespace emulated_nccl {

std::size_t Sum::bytes_from(int ranks) const {
  return bytes_to() * (terms.kind == Kind::reduce_scatter ? static_cast<std::size_t>(ranks) : 1);
}

// Numbers are read now, and until the sum is there no use can be made of what it goes to.
void Sums::start(Sum& sum) {
  const std::uint64_t number = first_ + open_.size();
  open_.push_back(&sum);
  Given own{sum.terms, std::vector<float>(sum.bytes_from(ranks_) / sizeof(float))};
  if (!own.numbers.empty()) std::memcpy(own.numbers.data(), sum.from, sum.bytes_from(ranks_));
  if (sum.to != nullptr && sum.bytes_to() > 0) std::memset(sum.to, 0xFF, sum.bytes_to());
  if (sum.is_lost) return;
  if (rank_ == 0) {
    given_[number][0] = std::move(own);
    add_up();  // others have agreed on their own only
    return;
  }
  std::string payload(sizeof own.terms + sum.bytes_from(ranks_), '\0');
  std::memcpy(payload.data(), &own.terms, sizeof own.terms);
  if (!own.numbers.empty()) {
    std::memcpy(payload.data() + sizeof own.terms, own.numbers.data(), sum.bytes_from(ranks_));
  }
  say_(0, {Word::give, number, payload.size()}, payload.data());
}

bool Sums::heed(int from, const Frame& frame, const std::string& payload) {
  if (frame.word == Word::sum) {
    Sum& sum = *open_.front();
    if (!payload.empty()) std::memcpy(sum.to, payload.data(), payload.size());
    sum.is_done = true;
    open_.pop_front();
    ++first_;
    return true;
  }
  Given given;
  std::memcpy(&given.terms, payload.data(), sizeof given.terms);
  given.numbers.resize((payload.size() - sizeof given.terms) / sizeof(float));
  if (!given.numbers.empty()) {
    std::memcpy(given.numbers.data(), payload.data() + sizeof given.terms,
                given.numbers.size() * sizeof(float));
  }
  given_[frame.number][from] = std::move(given);
  return add_up();
}

bool Sums::add_up() {
  while (!open_.empty()) {
    const auto found = given_.find(first_);
    if (found == given_.end() || std::ssize(found->second) < ranks_) return true;
    const std::map<int, Given> given = std::move(found->second);
    given_.erase(found);
    Sum& own = *open_.front();
    const bool agreed = std::all_of(given.begin(), given.end(),
                                    [&](const auto& one) { return one.second.terms == own.terms; });
    if (!agreed) return false;
    std::vector<float> sums = given.rbegin()->second.numbers;
    for (auto one = std::next(given.rbegin()); one != given.rend(); ++one) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += one->second.numbers[i];
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool takes = own.terms.kind != Sum::Kind::reduce || own.terms.root == rank;
      const std::size_t bytes = takes ? own.bytes_to() : 0;
      const auto place = own.terms.kind == Sum::Kind::reduce_scatter ? rank : 0;
      const float* from = sums.data() + static_cast<std::size_t>(place) * own.terms.count;
      if (rank > 0) {
        say_(rank, {Word::sum, first_, bytes}, bytes > 0 ? from : nullptr);
      } else if (bytes > 0) {
        std::memcpy(own.to, from, bytes);
      }
    }
    own.is_done = true;
    open_.pop_front();
    ++first_;
  }
  return true;
}

}  // namespace emulated_nccl
