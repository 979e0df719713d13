// A queue of events in the total order (time, sequence),
// where sequence is the order of pushing.
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the
// shortest path problem", 1990): time never runs back, so an event can wait in
// the bucket of the highest bit in which its time differs from now, and moves
// to a lower bucket only as now comes nearer. Buckets keep the order of
// pushing, which is why no sequence number is stored. Push is O(1), take
// amortised O(log of the time ahead). Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipesim {

template <typename Payload>
class EventQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::int64_t now_ns() const { return now_; }

  // `time_ns`: not before now.
  void push(std::int64_t time_ns, const Payload& payload) {
    assert(time_ns >= now_ && "time runs back");
    ++size_;
    place({time_ns, payload});
  }

  // Makes the earliest time now and replaces `out` by its events, in order. An
  // event pushed at now from here on belongs to the next call. Returns now.
  // Not to be called on an empty queue.
  std::int64_t take_instant(std::vector<Payload>& out) {
    assert(!empty());
    if (due_.empty()) approach();
    out.clear();
    std::swap(out, due_);
    size_ -= out.size();
    return now_;
  }

 private:
  struct Entry {
    std::int64_t time_ns;
    Payload payload;
  };
  static constexpr int bucket_count = 63;  // the bits of a time, which is not negative

  void place(const Entry& entry) {
    const auto difference = static_cast<std::uint64_t>(entry.time_ns ^ now_);
    if (difference == 0) {
      due_.push_back(entry.payload);
      return;
    }
    const auto bucket = static_cast<std::size_t>(std::bit_width(difference)) - 1;
    buckets_[bucket].push_back(entry);
    filled_ |= std::uint64_t{1} << bucket;
  }

  // Empties the lowest bucket, which holds the earliest events: all of them
  // fit into lower ones once their earliest time is now.
  void approach() {
    const auto lowest = static_cast<std::size_t>(std::countr_zero(filled_));
    filled_ &= filled_ - 1;
    auto& bucket = buckets_[lowest];
    now_ = std::ranges::min_element(bucket, {}, &Entry::time_ns)->time_ns;
    for (const Entry& entry : bucket) place(entry);
    bucket.clear();
  }

  std::int64_t now_ = 0;
  std::size_t size_ = 0;
  std::uint64_t filled_ = 0;  // a bit for each bucket that holds something
  std::vector<Payload> due_;  // the events at now
  std::array<std::vector<Entry>, bucket_count> buckets_;
};

}  // namespace pipesim
