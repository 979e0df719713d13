// Links that transfers share max-min fairly: when each transfer ends.
// Bytes cross all links of a transfer at once, at any time at the rate of the most contended. Has
// no clock: its owner advances the time. For one thread at a time.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "sim/input_pipeline/input_costs.h"

namespace pipesim::exec {

class FairLinks {
 public:
  struct Transfer {
    std::span<const std::uint32_t> links;
    double left = 0;                     // bytes
    double rate = 0;                     // bytes per nanosecond
    std::optional<std::int64_t> end_ns;  // once it is over
  };
  using Place = std::list<Transfer>::iterator;

  explicit FairLinks(const std::vector<InputLink>& links);

  // Starts at `start_ns`, or at the current time if that is later. Over one link or more, which
  // must outlive it.
  Place add(std::span<const std::uint32_t> links, std::int64_t bytes, std::int64_t start_ns);
  void remove(Place transfer);
  // When it ends if nothing else begins or ends before.
  std::int64_t expected_end_ns(Place transfer) const { return end_ns(*transfer); }
  // Advances the time. Transfers that end on the way leave their share to the others.
  void pass_until(std::int64_t time_ns);

 private:
  std::int64_t end_ns(const Transfer& transfer) const;
  void share_out();

  std::vector<double> rates_;  // by link, bytes a nanosecond
  std::list<Transfer> transfers_;
  std::int64_t passed_ns_ = 0;  // the current time
};

}  // namespace pipesim::exec
