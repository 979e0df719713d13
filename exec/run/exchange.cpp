#include "exec/run/exchange.h"

#include <algorithm>
#include <utility>

namespace pipesim::exec {

Exchange::Exchange(Transport& group, Pool& pool, SharedArray array, int tag)
    : group_(group),
      pool_(pool),
      array_(std::move(array)),
      tag_(tag),
      in_place_(pool.device().host_reaches_memory()) {
  if (!in_place_) copy_.resize(static_cast<std::size_t>(array_.numbers.bytes()));
}

std::span<std::byte> Exchange::host(const Range& range) {
  const Slice numbers = slice(range);
  const auto bytes = static_cast<std::size_t>(numbers.bytes());
  if (in_place_) return {static_cast<std::byte*>(numbers.memory()), bytes};
  const auto first = static_cast<std::size_t>(range.begin * bytes_of(numbers.data().type));
  return std::span(copy_).subspan(first, bytes);
}

void Exchange::put(const Range& range) {
  if (in_place_) return;
  const std::span<std::byte> bytes = host(range);
  device().upload(slice(range).memory(), bytes.data(), static_cast<std::int64_t>(bytes.size()));
}

void Exchange::send(int to, const Range& range) {
  if (range.size() == 0) return;
  const std::span<std::byte> bytes = host(range);
  if (!in_place_) {
    device().download(bytes.data(), slice(range).memory(), static_cast<std::int64_t>(bytes.size()));
  }
  open_.push_back({group_.send(to, tag_, bytes), none});
  sent_bytes_ += static_cast<std::int64_t>(bytes.size());
}

void Exchange::receive(int from, const Range& range) {
  if (range.size() > 0) receive(from, host(range));
}

void Exchange::receive(int from, std::span<std::byte> bytes) {
  open_.push_back({group_.receive(from, tag_, bytes), from});
}

void Exchange::await(Ticket ticket, std::int64_t sent_bytes) {
  open_.push_back({ticket, group_.rank()});
  sent_bytes_ += sent_bytes;
}

bool Exchange::poll() {
  for (std::size_t i = 0; i < open_.size();) {
    if (group_.test(open_[i].ticket)) {
      settle(i);
    } else {
      ++i;
    }
  }
  return is_done();
}

void Exchange::collect(std::vector<Ticket>& tickets) const {
  for (const Message& message : open_) tickets.push_back(message.ticket);
}

void Exchange::settle(std::size_t message) {
  const int from = open_[message].from;
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(message));
  if (from != none) arrived(from);
}

void ReduceScatter::start() {
  const Range own = part(group_.rank());
  const auto ranks = static_cast<std::size_t>(group_.ranks());
  theirs_.resize(ranks);
  is_there_.assign(ranks, false);
  is_there_[static_cast<std::size_t>(group_.rank())] = true;
  staged_.resize(ranks);
  const bool in_place = device().host_reaches_memory();
  if (room_.empty() && own.size() > 0) {
    own_room_ = pool_.take((group_.ranks() - 1) * own.size(), Use::workspace);
    room_ = own_room_.all();
  }
  std::int64_t place = 0;
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    if (rank == group_.rank() || own.size() == 0) continue;
    const auto at = static_cast<std::size_t>(rank);
    theirs_[at] = room_.part(place, own.size());
    place += own.size();
    const auto bytes = static_cast<std::size_t>(theirs_[at].bytes());
    if (!in_place) staged_[at].resize(bytes);
    receive(rank, in_place ? std::span(static_cast<std::byte*>(theirs_[at].memory()), bytes)
                           : std::span(staged_[at]));
  }
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    if (rank != group_.rank()) send(rank, part(rank));
  }
}

void ReduceScatter::arrived(int from) {
  const auto at = static_cast<std::size_t>(from);
  if (!staged_[at].empty()) {
    device().upload(theirs_[at].memory(), staged_[at].data(), theirs_[at].bytes());
    staged_[at] = {};
  }
  is_there_[at] = true;
  add_in_order();
}

// In floating point (a + b) + c is not a + (b + c): ranks' parts are added as their numbers go.
void ReduceScatter::add_in_order() {
  const Slice own = slice(part(group_.rank()));
  for (; next_ < group_.ranks() && is_there_[static_cast<std::size_t>(next_)]; ++next_) {
    const Slice& theirs = theirs_[static_cast<std::size_t>(next_)];
    if (next_ == group_.rank()) {
      if (!sum_.empty()) device().add(own.size(), sum_.data(), own.data(), own.data());
    } else if (next_ > group_.rank()) {
      device().add(own.size(), own.data(), theirs.data(), own.data());
    } else if (sum_.empty()) {
      sum_ = theirs;
    } else {
      device().add(own.size(), sum_.data(), theirs.data(), sum_.data());
    }
  }
}

LibraryReduction::LibraryReduction(Transport& group, Pool& pool, SharedArray array, int tag,
                                   LibrarySums& sums)
    : Exchange(group, pool, std::move(array), tag), library_(sums) {}

Slice LibraryReduction::own() const {
  return array().parts.empty() ? array().numbers : slice(part(group_.rank()));
}

void LibraryReduction::start() {
  const Slice& all = array().numbers;
  std::vector<float> numbers(static_cast<std::size_t>(all.size()));
  device().download(numbers.data(), all.memory(), all.bytes());
  LibrarySums::Started started;
  if (array().parts.empty()) {
    started = library_.all_reduce(std::move(numbers));
  } else {
    std::vector<int> counts;
    for (const Range& one : array().parts) counts.push_back(static_cast<int>(one.size()));
    started = library_.reduce_scatter(std::move(numbers), counts);
  }
  sums_ = started.sums;
  // As much as leaves a rank at least.
  await(started.ticket, all.bytes() - all.bytes() / group_.ranks());
}

void LibraryReduction::arrived(int /*from*/) {
  const Slice to = own();
  if (to.size() > 0) device().upload(to.memory(), sums_->data(), to.bytes());
  sums_.reset();
}

void AllGather::start() {
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    if (rank != group_.rank()) receive(rank, part(rank));
  }
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    if (rank != group_.rank()) send(rank, part(group_.rank()));
  }
}

}  // namespace pipesim::exec
