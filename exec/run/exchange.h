// What a group of ranks exchanges beside what they compute: reduce-scatters, all-gathers,
// all-reduces, broadcasts and all-to-alls of arrays in a device's memory, made of messages, or
// sums that a library makes.
//
// An exchange has an array of which parts belong to ranks of its group. Sums are added up by the
// rank that a part belongs to, in the order of ranks, so that they depend on values alone.
// There is no thread of its own: it goes on whenever its rank's thread looks, between two
// layers, between two actions, and while it waits for anything. All ranks of a group start the
// same exchanges in the same order. Until one is done its arrays are its own. Where the host
// does not reach the device's memory, messages pass through copies on the host. One rank, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/model/parameters.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

// One array to exchange, and which of its numbers is whose, by place in the group.
struct SharedArray {
  Slice numbers;
  std::vector<Range> parts;
};
// As many numbers for each of so many ranks, which divide them.
SharedArray in_equal_parts(const Slice& numbers, int ranks);

class Exchange {
 public:
  // `tag` is the exchange's alone among those under way.
  Exchange(Transport& group, Pool& pool, SharedArray array, int tag);
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual void start() = 0;
  // Starts it and waits for all of it, as long as the transport's patience lasts.
  void run();
  // Looks at its messages; whether all is done.
  bool poll();
  // The messages that it waits for, and that one of them has ended.
  void collect(std::vector<Ticket>& tickets) const;
  void settle(std::size_t message);
  bool is_done() const { return open_.empty(); }
  std::size_t messages() const { return open_.size(); }
  // Of those that this rank sends.
  std::int64_t sent_bytes() const { return sent_bytes_; }

 protected:
  // Before the first send of a range: what messages are read from has its numbers.
  void fetch(const Range& range);
  void send(int to, const Range& range);
  // Into the array, or elsewhere on the host.
  void receive(int from, const Range& range);
  void receive(int from, std::span<std::byte> bytes);
  // What is no message, and which so many bytes leave this rank for.
  void await(Ticket ticket, std::int64_t sent_bytes);
  virtual void arrived(int from) = 0;

  const SharedArray& array() const { return array_; }
  Device& device() const { return pool_.device(); }
  Slice slice(const Range& range) const { return array_.numbers.part(range.begin, range.size()); }
  const Range& part(int rank) const { return array_.parts[static_cast<std::size_t>(rank)]; }
  // What messages of the range are read from and written to, and that they have been written.
  std::span<std::byte> host(const Range& range);
  void put(const Range& range);

  Transport& group_;
  Pool& pool_;

 private:
  struct Message {
    Ticket ticket;
    int from;  // or none: of a send
  };
  static constexpr int none = -1;

  SharedArray array_;
  int tag_;
  bool in_place_;                // the host reaches the array
  std::vector<std::byte> copy_;  // of it, where not, from the first message on
  std::vector<Message> open_;
  std::int64_t sent_bytes_ = 0;
};

// Afterwards the rank's own part is the sum of all ranks'; what the others are is not said.
class ReduceScatter final : public Exchange {
 public:
  // In `room`, so many times the rank's part as there are others, stands what they send; where
  // it is empty it takes its own.
  ReduceScatter(Transport& group, Pool& pool, SharedArray array, int tag, const Slice& room = {})
      : Exchange(group, pool, std::move(array), tag), room_(room) {}
  void start() override;

 private:
  void arrived(int from) override;
  void add_in_order();

  Tensor own_room_;
  Slice room_;
  std::vector<Slice> theirs_;  // by rank
  std::vector<bool> is_there_;
  std::vector<std::vector<std::byte>> staged_;  // where the host does not reach the device
  int next_ = 0;                                // the rank whose part is to be added
  Slice sum_;                                   // of those before this rank
};

// The same by a library's own sums over the group. Of an array without parts the whole is summed,
// for all of its ranks.
class LibraryReduction final : public Exchange {
 public:
  LibraryReduction(Transport& group, Pool& pool, SharedArray array, int tag, LibrarySums& sums);
  void start() override;

 private:
  void arrived(int /*from*/) override {}

  LibrarySums& library_;
};

// Afterwards each part is what the rank has that it belongs to.
class AllGather final : public Exchange {
 public:
  using Exchange::Exchange;
  void start() override;

 private:
  void arrived(int from) override { put(part(from)); }
};

// The same by a library's own gathers over the group, of parts one behind the other.
class LibraryGather final : public Exchange {
 public:
  LibraryGather(Transport& group, Pool& pool, SharedArray array, int tag, LibraryGathers& gathers)
      : Exchange(group, pool, std::move(array), tag), library_(gathers) {}
  void start() override;

 private:
  void arrived(int /*from*/) override {}

  LibraryGathers& library_;
};

// Exchanges of which each starts when the one before is done.
using Steps = std::vector<std::unique_ptr<Exchange>>;
// Starts them and waits for all.
void run(const Steps& steps);

// Afterwards all ranks have the sums of their numbers: a reduce-scatter of
// nearly equal parts, in `room`, and an all-gather. Its tags are that one and the next.
Steps all_reduce(Transport& group, Pool& pool, const Slice& numbers, int tag,
                 const Slice& room = {});

// Afterwards all ranks have the numbers of one. They pass from rank to rank by a binomial tree:
// none sends more than log2 of the ranks, rounded up, of them.
class Broadcast final : public Exchange {
 public:
  Broadcast(Transport& group, Pool& pool, const Slice& numbers, int root, int tag);
  void start() override;

 private:
  void arrived(int from) override;
  Range all() const { return {0, array().numbers.size()}; }
  // To those that have the numbers from here.
  void pass_on();

  int root_;
  int place_;  // after the root, around the group
};

// Each rank gives every rank a part of an array, and takes a part of another from it: those
// given stay as they are. What one gives the other must take as many numbers of; parts may have
// any sizes, none among them.
class AllToAll final : public Exchange {
 public:
  AllToAll(Transport& group, Pool& pool, SharedArray given, SharedArray taken, int tag);
  void start() override;

 private:
  void arrived(int from) override;
  Slice taken(int from) const;

  SharedArray taken_;
  std::vector<std::vector<std::byte>> staged_;  // where the host does not reach the device
};

}  // namespace pipesim::exec
