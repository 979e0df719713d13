// Links whose bandwidth is shared max-min fairly by the flows that cross them.
//
// A flow crosses all links of its route at once, at one rate. Rates are the
// max-min fair ones: none can grow without shrinking another that is not
// larger (Bertsekas, Gallager, "Data Networks", 2nd ed., section 6.5.2,
// progressive filling). They change only when a flow starts or its last byte
// leaves, and only for flows that are joined to it by a chain of shared links:
// a change costs what those links carry, whatever else is under way.
//
// Between whole nanoseconds the network is a fluid in continuous time; what it
// reports is the first whole nanosecond at which the last byte has left. A
// flow that keeps a link to itself takes ceil(bytes x 1e9 / rate) exactly;
// shared ones are computed in double precision, and an instant that lies less
// than a millionth of a nanosecond (and 1e-13 of the time since the rate's
// last change) above a whole one counts as that. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pipesim {

using LinkId = std::uint32_t;

class FlowNetwork {
 public:
  // A request to be called again: wake() at `time_ns`. A later one for the
  // same flow replaces it; the network knows by the version.
  struct Alarm {
    std::int64_t time_ns;
    std::uint32_t flow;
    std::uint32_t version;
  };

  LinkId add_link(std::int64_t bytes_per_second);

  // Starts a flow of `bytes` > 0 over `route`, which is not empty, names no
  // link twice and outlives the flow. `key` is the caller's name for it.
  void start(std::uint32_t key, std::span<const LinkId> route, std::int64_t bytes,
             std::int64_t now_ns);

  // Call at each alarm's time, in the order of time. Appends the keys of the
  // flows whose last byte has left by then.
  void wake(const Alarm& alarm, std::vector<std::uint32_t>& finished);

  // The alarms that were set since the last call.
  std::vector<Alarm>& alarms() { return alarms_; }

  // The rate at which a link is crossed now, bytes per second.
  double load(LinkId link) const;

 private:
  struct Link {
    std::int64_t bytes_per_second = 0;
    std::vector<std::uint32_t> flows;
    double spare = 0;           // while rates are found: not given to a flow yet
    std::uint32_t unfixed = 0;  // while rates are found: flows without a rate
    std::uint64_t seen = 0;     // the last search that met it
  };
  struct Flow {
    std::uint32_t key = 0;
    std::uint32_t version = 0;  // of its alarm; grows with each
    std::span<const LinkId> route;
    std::int64_t bytes = 0;
    double remaining = 0;  // bytes, at `since`
    double rate = 0;       // bytes per second, from `since` on
    double new_rate = 0;   // while rates are found
    // Continuous time: whole nanoseconds and a fraction.
    std::int64_t since_ns = 0;
    double since_fraction = 0;
    // The rate, where the flow has had a link of this rate to itself since it
    // started at a whole nanosecond; else 0.
    std::int64_t whole_rate = 0;
    std::int64_t end_ns = 0;  // the first whole nanosecond after its end
    double end_fraction = 0;  // the end, relative to since_ns
    std::uint64_t seen = 0;
    bool fixed = false;
  };

  // An instant of continuous time.
  struct Instant {
    std::int64_t ns;
    double fraction;
  };

  void collect(std::span<const LinkId> links);
  void find_rates();
  void fix(Flow& flow, double rate);
  void apply_rates(const Instant& at);
  static bool is_all_gone(const Flow& flow, const Instant& at);
  void set_alarm(std::uint32_t index);
  void remove(std::uint32_t index);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;  // indices of flows that have ended
  std::vector<Alarm> alarms_;

  // What a chain of shared links joins, found by collect().
  std::uint64_t search_ = 0;
  std::vector<LinkId> joined_links_;
  std::vector<std::uint32_t> joined_flows_;
  std::vector<std::pair<double, LinkId>> tightest_;  // a heap by fair share
};

}  // namespace pipesim
