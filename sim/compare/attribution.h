// Each of several changes' share in a difference, independent of their order.
//
// The effect of one change depends on which others were made before it: of two slow stages
// either one hides the other. The share of a change is its mean effect over
// all orders of making them, its Shapley value (Shapley, "A value for
// n-person games", 1953); shares sum to the effect of all together. Plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipesim {

// Changes that can be made and undone, in any combination. None is made at first, and
// none is left made.
class Changes {
 public:
  virtual ~Changes() = default;
  virtual std::size_t count() const = 0;
  virtual void make(std::size_t change) = 0;
  virtual void undo(std::size_t change) = 0;
  // What is looked at, with those that are made now.
  virtual std::int64_t value() = 0;
};

// Over all orders; sums to the nanosecond. Asks for 2^count values: at most 2^8.
std::vector<std::int64_t> shares_of(Changes& changes);

struct SampledShare {
  std::int64_t share_ns = 0;
  std::int64_t error_ns = 0;  // standard error of the mean over the orders tried
};
// Over so many pairs of an order and its reverse, always the same ones: exact where no
// more than two changes have to do with each other.
std::vector<SampledShare> sampled_shares(Changes& changes, std::size_t pairs);

}  // namespace pipesim
