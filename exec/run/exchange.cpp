#include "exec/run/exchange.h"

#include <algorithm>
#include <utility>

namespace pipesim::exec {

SharedArray in_equal_parts(const Slice& numbers, int ranks) {
  SharedArray array{numbers, {}};
  const std::int64_t each = numbers.size() / ranks;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    array.parts.push_back({rank * each, (rank + 1) * each});
  }
  return array;
}

Exchange::Exchange(Transport& group, Pool& pool, SharedArray array, int tag)
    : group_(group),
      pool_(pool),
      array_(std::move(array)),
      tag_(tag),
      in_place_(pool.device().host_reaches_memory()) {}

std::span<std::byte> Exchange::host(const Range& range) {
  const Slice numbers = slice(range);
  const auto bytes = static_cast<std::size_t>(numbers.bytes());
  if (in_place_) return {static_cast<std::byte*>(numbers.memory()), bytes};
  if (copy_.empty()) copy_.resize(static_cast<std::size_t>(array_.numbers.bytes()));
  const auto first = static_cast<std::size_t>(range.begin * bytes_of(numbers.data().type));
  return std::span(copy_).subspan(first, bytes);
}

void Exchange::put(const Range& range) {
  if (in_place_) return;
  const std::span<std::byte> bytes = host(range);
  device().upload(slice(range).memory(), bytes.data(), static_cast<std::int64_t>(bytes.size()));
}

void Exchange::fetch(const Range& range) {
  if (in_place_ || range.size() == 0) return;
  const std::span<std::byte> bytes = host(range);
  device().download(bytes.data(), slice(range).memory(), static_cast<std::int64_t>(bytes.size()));
}

void Exchange::send(int to, const Range& range) {
  if (range.size() == 0) return;
  const std::span<std::byte> bytes = host(range);
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
  open_.push_back({ticket, none});
  sent_bytes_ += sent_bytes;
}

void Exchange::run() {
  start();
  for (std::vector<Ticket> tickets; !is_done(); tickets.clear()) {
    collect(tickets);
    settle(group_.wait_any(tickets));
  }
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
    own_room_ =
        pool_.take((group_.ranks() - 1) * own.size(), Use::workspace, array().numbers.data().type);
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
    if (rank == group_.rank()) continue;
    fetch(part(rank));
    send(rank, part(rank));
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

// In floating point (a + b) + c is not a + (b + c): parts are added in the order of ranks.
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

void LibraryReduction::start() {
  const Slice& all = array().numbers;
  std::vector<std::int64_t> counts;
  for (const Range& one : array().parts) counts.push_back(one.size());
  // A lower bound on the bytes sent by a rank.
  await(counts.empty() ? library_.all_reduce(all.floats(), all.size())
                       : library_.reduce_scatter(all.floats(), counts),
        all.bytes() - all.bytes() / group_.ranks());
}

void AllGather::start() {
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    if (rank != group_.rank()) receive(rank, part(rank));
  }
  if (group_.ranks() > 1) fetch(part(group_.rank()));
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    if (rank != group_.rank()) send(rank, part(group_.rank()));
  }
}

void LibraryGather::start() {
  const Slice& all = array().numbers;
  std::vector<std::int64_t> bytes;
  for (const Range& one : array().parts) bytes.push_back(slice(one).bytes());
  await(library_.all_gather(all.memory(), bytes),
        (group_.ranks() - 1) * bytes[static_cast<std::size_t>(group_.rank())]);
}

void run(const Steps& steps) {
  for (const auto& step : steps) step->run();
}

Steps all_reduce(Transport& group, Pool& pool, const Slice& numbers, int tag, const Slice& room) {
  SharedArray array{numbers, {}};
  const Parts parts({numbers.size()}, group.ranks());
  for (int rank = 0; rank < group.ranks(); ++rank) array.parts.push_back(parts.part(0, rank));
  Steps steps;
  steps.push_back(std::make_unique<ReduceScatter>(group, pool, array, tag, room));
  steps.push_back(std::make_unique<AllGather>(group, pool, std::move(array), tag + 1));
  return steps;
}

Broadcast::Broadcast(Transport& group, Pool& pool, const Slice& numbers, int root, int tag)
    : Exchange(group, pool, {numbers, {}}, tag),
      root_(root),
      place_((group.rank() + group.ranks() - root) % group.ranks()) {}

// An index gets the numbers from the index without its lowest bit.
void Broadcast::start() {
  if (place_ > 0) {
    receive((root_ + (place_ & (place_ - 1))) % group_.ranks(), all());
    return;
  }
  if (group_.ranks() > 1) fetch(all());
  pass_on();
}

void Broadcast::arrived(int /*from*/) {
  pass_on();
  put(all());
}

void Broadcast::pass_on() {
  const int ranks = group_.ranks();
  int bit = place_ & -place_;
  if (place_ == 0) {
    for (bit = 1; bit < ranks;) bit *= 2;
  }
  while ((bit /= 2) > 0) {  // those that pass on the most come first
    if (place_ + bit < ranks) send((root_ + place_ + bit) % ranks, all());
  }
}

AllToAll::AllToAll(Transport& group, Pool& pool, SharedArray given, SharedArray taken, int tag)
    : Exchange(group, pool, std::move(given), tag), taken_(std::move(taken)) {}

Slice AllToAll::taken(int from) const {
  const Range& range = taken_.parts[static_cast<std::size_t>(from)];
  return taken_.numbers.part(range.begin, range.size());
}

void AllToAll::start() {
  const int own = group_.rank();
  const int ranks = group_.ranks();
  staged_.resize(static_cast<std::size_t>(ranks));
  const bool in_place = device().host_reaches_memory();
  for (int i = 1; i < ranks; ++i) {
    const int from = (own + ranks - i) % ranks;
    const Slice numbers = taken(from);
    if (numbers.size() == 0) continue;
    const auto bytes = static_cast<std::size_t>(numbers.bytes());
    std::vector<std::byte>& staged = staged_[static_cast<std::size_t>(from)];
    if (!in_place) staged.resize(bytes);
    receive(from, in_place ? std::span(static_cast<std::byte*>(numbers.memory()), bytes)
                           : std::span(staged));
  }
  for (int i = 1; i < ranks; ++i) {  // not all to one at the same time
    const int to = (own + i) % ranks;
    fetch(part(to));
    send(to, part(to));
  }
  const Slice kept = slice(part(own));
  if (kept.size() > 0) device().copy(kept.size(), kept.data(), taken(own).data());
}

void AllToAll::arrived(int from) {
  std::vector<std::byte>& staged = staged_[static_cast<std::size_t>(from)];
  if (staged.empty()) return;
  device().upload(taken(from).memory(), staged.data(), taken(from).bytes());
  staged = {};
}

}  // namespace pipesim::exec
