// Exchanges of a group of ranks that overlap compute: reduce-scatters, all-gathers, all-reduces,
// broadcasts and all-to-alls of arrays in a device's memory, made of messages, or a library's sums
// and gathers. An exchange has an array whose parts belong to ranks of its group. The owner of a
// part adds it up, in the order of ranks, so that sums depend only on values. There is no thread:
// it progresses whenever its rank's thread polls, between two layers, between two actions, and
// while it waits for anything. All ranks of a group start the same exchanges in the same order. Do
// not touch the arrays until it is done. If the host can't access the device's memory, messages
// pass through copies on the host. One rank, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/model/parameters.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

// One array to exchange, and its parts by index in the group.
struct SharedArray {
  Slice numbers;
  std::vector<Range> parts;
};
// Equal parts for each of so many ranks, which must divide the size.
SharedArray in_equal_parts(const Slice& numbers, int ranks);

class Exchange {
 public:
  // `tag` must be unique among those in progress.
  Exchange(Transport& group, Pool& pool, SharedArray array, int tag);
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual void start() = 0;
  // Starts it and waits until it is done, as long as the transport's patience lasts.
  void run();
  // Advances its messages; returns whether it is done.
  bool poll();
  // Appends the messages that it waits for; and tells that one of them has ended.
  void collect(std::vector<Ticket>& tickets) const;
  void settle(std::size_t message);
  bool is_done() const { return open_.empty(); }
  std::size_t messages() const { return open_.size(); }
  // Bytes that this rank sends.
  std::int64_t sent_bytes() const { return sent_bytes_; }

 protected:
  // Call before the first send of a range: makes its numbers available to messages.
  void fetch(const Range& range);
  void send(int to, const Range& range);
  // Into the array, or elsewhere on the host.
  void receive(int from, const Range& range);
  void receive(int from, std::span<std::byte> bytes);
  // Waits for a ticket that is not a message, and counts the bytes that it sends.
  void await(Ticket ticket, std::int64_t sent_bytes);
  virtual void arrived(int from) = 0;

  const SharedArray& array() const { return array_; }
  Device& device() const { return pool_.device(); }
  Slice slice(const Range& range) const { return array_.numbers.part(range.begin, range.size()); }
  const Range& part(int rank) const { return array_.parts[static_cast<std::size_t>(rank)]; }
  // The memory that messages of the range are read from and written to; and tells that they have
  // been written.
  std::span<std::byte> host(const Range& range);
  void put(const Range& range);

  Transport& group_;
  Pool& pool_;

 private:
  struct Message {
    Ticket ticket;
    int from;  // none for a send
  };
  static constexpr int none = -1;

  SharedArray array_;
  int tag_;
  bool in_place_;                // the host can access the array
  std::vector<std::byte> copy_;  // of it, if not, from the first message on
  std::vector<Message> open_;
  std::int64_t sent_bytes_ = 0;
};

// Afterwards the rank's own part is the sum of all ranks'; the other parts are unspecified.
class ReduceScatter final : public Exchange {
 public:
  // `room` receives the others' numbers: the size of the rank's part for each of them; if it is
  // empty, it is allocated.
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
  std::vector<std::vector<std::byte>> staged_;  // if the host can't access the device's memory
  int next_ = 0;                                // the rank whose part is added next
  Slice sum_;                                   // of the ranks before this one
};

// The same by a library's sums over the group. An array without parts is summed whole, for all
// ranks.
class LibraryReduction final : public Exchange {
 public:
  LibraryReduction(Transport& group, Pool& pool, SharedArray array, int tag, LibrarySums& sums);
  void start() override;

 private:
  void arrived(int /*from*/) override {}

  LibrarySums& library_;
};

// Afterwards each part has its owner's numbers.
class AllGather final : public Exchange {
 public:
  using Exchange::Exchange;
  void start() override;

 private:
  void arrived(int from) override { put(part(from)); }
};

// The same by a library's gathers over the group, of consecutive parts.
class LibraryGather final : public Exchange {
 public:
  LibraryGather(Transport& group, Pool& pool, SharedArray array, int tag, LibraryGathers& gathers)
      : Exchange(group, pool, std::move(array), tag), library_(gathers) {}
  void start() override;

 private:
  void arrived(int /*from*/) override {}

  LibraryGathers& library_;
};

// Exchanges in sequence: each starts when the previous one is done.
using Steps = std::vector<std::unique_ptr<Exchange>>;
// Runs them and waits until all are done.
void run(const Steps& steps);

// Afterwards all ranks have the sums of their numbers: a reduce-scatter of nearly equal parts, in
// `room`, and an all-gather. Uses `tag` and the next one.
Steps all_reduce(Transport& group, Pool& pool, const Slice& numbers, int tag,
                 const Slice& room = {});

// Afterwards all ranks have the root's numbers. They are passed on in a binomial tree: no rank
// sends them more than log2 of the number of ranks, rounded up, times.
class Broadcast final : public Exchange {
 public:
  Broadcast(Transport& group, Pool& pool, const Slice& numbers, int root, int tag);
  void start() override;

 private:
  void arrived(int from) override;
  Range all() const { return {0, array().numbers.size()}; }
  // Sends to the ranks that get the numbers from this one.
  void pass_on();

  int root_;
  int place_;  // distance from the root, around the group
};

// Each rank gives every rank a part of one array, and takes a part of another from it; the given
// parts are unchanged. The sizes of a given and its taken part must match; parts may have any
// sizes, including none.
class AllToAll final : public Exchange {
 public:
  AllToAll(Transport& group, Pool& pool, SharedArray given, SharedArray taken, int tag);
  void start() override;

 private:
  void arrived(int from) override;
  Slice taken(int from) const;

  SharedArray taken_;
  std::vector<std::vector<std::byte>> staged_;  // if the host can't access the device's memory
};

}  // namespace pipesim::exec
