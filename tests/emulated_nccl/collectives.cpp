#include "tests/emulated_nccl/collectives.h"

#include <algorithm>
#include <cstring>

namespace emulated_nccl {
namespace {

void copy(char* to, const char* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Adds to the sums what one rank gives.
void add(std::string& sums, const std::string& given) {
  for (std::size_t at = 0; at + sizeof(float) <= sums.size(); at += sizeof(float)) {
    float sum = 0;
    float more = 0;
    std::memcpy(&sum, sums.data() + at, sizeof sum);
    std::memcpy(&more, given.data() + at, sizeof more);
    sum += more;
    std::memcpy(sums.data() + at, &sum, sizeof sum);
  }
}

}  // namespace

std::size_t Collective::bytes_from(int rank, int ranks) const {
  if (terms.kind == Kind::reduce_scatter) return terms.bytes * static_cast<std::size_t>(ranks);
  return terms.kind == Kind::broadcast && rank != terms.root ? 0 : terms.bytes;
}

std::size_t Collective::bytes_to(int rank, int ranks) const {
  if (terms.kind == Kind::all_gather) return terms.bytes * static_cast<std::size_t>(ranks);
  return terms.kind == Kind::reduce && rank != terms.root ? 0 : terms.bytes;
}

// What is given is read now, and until it is done no use can be made of what it goes to.
bool Collectives::start(Collective& one) {
  const std::uint64_t number = first_ + open_.size();
  open_.push_back(&one);
  Given own{one.terms, std::string(one.bytes_from(rank_, ranks_), '\0')};
  copy(own.bytes.data(), one.from, own.bytes.size());
  const std::size_t taken = one.bytes_to(rank_, ranks_);
  if (taken > 0) std::memset(one.to, 0xFF, taken);
  if (one.is_lost) return true;
  if (rank_ == 0) {
    given_[number][0] = std::move(own);
    return finish();
  }
  std::string payload(sizeof own.terms, '\0');
  std::memcpy(payload.data(), &own.terms, sizeof own.terms);
  payload += own.bytes;
  say_(0, {Word::give, number, payload.size()}, payload.data());
  return true;
}

bool Collectives::heed(int from, const Frame& frame, const std::string& payload) {
  if (frame.word == Word::take) {
    Collective& one = *open_.front();
    copy(one.to, payload.data(), payload.size());
    one.is_done = true;
    open_.pop_front();
    ++first_;
    return true;
  }
  Given given;
  std::memcpy(&given.terms, payload.data(), sizeof given.terms);
  given.bytes = payload.substr(sizeof given.terms);
  given_[frame.number][from] = std::move(given);
  return finish();
}

bool Collectives::finish() {
  while (!open_.empty()) {
    const auto found = given_.find(first_);
    if (found == given_.end() || std::ssize(found->second) < ranks_) return true;
    const std::map<int, Given> given = std::move(found->second);
    given_.erase(found);
    Collective& own = *open_.front();
    const bool agreed = std::all_of(given.begin(), given.end(),
                                    [&](const auto& one) { return one.second.terms == own.terms; });
    if (!agreed) return false;
    std::string all;
    if (own.terms.adds()) {
      all = given.rbegin()->second.bytes;
      for (auto one = std::next(given.rbegin()); one != given.rend(); ++one) {
        add(all, one->second.bytes);
      }
    } else {
      for (const auto& [rank, one] : given) all += one.bytes;
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::size_t bytes = own.bytes_to(rank, ranks_);
      const bool scatters = own.terms.kind == Collective::Kind::reduce_scatter;
      const char* from = all.data() + (scatters ? static_cast<std::size_t>(rank) * bytes : 0);
      if (rank > 0) {
        say_(rank, {Word::take, first_, bytes}, bytes > 0 ? from : nullptr);
      } else {
        copy(own.to, from, bytes);
      }
    }
    own.is_done = true;
    open_.pop_front();
    ++first_;
  }
  return true;
}

}  // namespace emulated_nccl
