// Links whose bandwidth is shared max-min fairly by the flows that cross them.
//
// A flow crosses all links of its route at once, at one rate. Rates are the
// max-min fair ones: none can grow without shrinking another that is not
// larger (Bertsekas, Gallager, "Data Networks", 2nd ed., section 6.5.2,
// progressive filling). Flows of one route always have one rate, so the network
// keeps routes, each with the bytes that it has served to every flow on it, and
// a flow ends when that reaches what it was at its start plus its own bytes.
// Rates change only when a flow starts or its last byte leaves, and only on
// routes connected to it by a chain of shared links: the cost of a change depends only on
// the flows over those links.
//
// Between whole nanoseconds the network is a fluid in continuous time; what it
// reports is the first whole nanosecond at which the last byte has left. A flow
// that has its links to itself takes ceil(bytes x 1e9 / rate) exactly; shared
// rates are in extended precision, and an end that lies less than 1e-12 ns (and
// 1e-17 of the time since the rate's last change, and the time of 2^-58 bytes)
// above a whole nanosecond counts as that. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace pipesim {

using LinkId = std::uint32_t;
using RouteId = std::uint32_t;

class FlowNetwork {
 public:
  // A request for a call of wake() at `time_ns`, when a flow on that
  // route may end. A later one for the same route replaces it; the version
  // tells them apart.
  struct Alarm {
    std::int64_t time_ns;
    RouteId route;
    std::uint32_t version;
  };

  LinkId add_link(std::int64_t bytes_per_second);
  // The route over these links, at least one, each once; the same number for
  // the same links.
  RouteId add_route(const std::vector<LinkId>& links);

  // Starts a flow of `bytes` > 0. `key` is the caller's name for it.
  void start(std::uint32_t key, RouteId route, std::int64_t bytes, std::int64_t now_ns);

  // Call at each alarm's time, in the order of time. Appends the keys of the
  // flows whose last byte has left by then.
  void wake(const Alarm& alarm, std::vector<std::uint32_t>& finished);

  // The alarms that were set since the caller cleared them.
  std::vector<Alarm>& alarms() { return alarms_; }

  // The rate at which a link is crossed now, bytes per second.
  double load(LinkId link) const;

 private:
  using Real = long double;
  __extension__ using Service = __int128;  // bytes, in units of 2^-60

  struct Link {
    std::int64_t bytes_per_second = 0;
    std::vector<RouteId> routes;  // those with flows
    // While rates are found: bandwidth not given away, flows without a rate.
    Real spare = 0;
    std::size_t unfixed = 0;
    std::uint64_t seen = 0;  // the last search that met it
  };
  struct Flow {
    Service end;  // of its service
    std::uint64_t sequence;
    std::uint32_t key;

    bool operator>(const Flow& other) const {
      return end != other.end ? end > other.end : sequence > other.sequence;
    }
  };
  // An instant of continuous time: whole nanoseconds and a fraction.
  struct Instant {
    std::int64_t ns = 0;
    Real fraction = 0;
  };
  struct Route {
    std::vector<LinkId> links;
    std::vector<Flow> flows;  // a heap, the first to end on top
    Service served = 0;       // to each flow, until `since`
    Instant since;
    Real rate = 0;                // of each flow from `since` on, bytes per second
    std::int64_t whole_rate = 0;  // the same where it is all of a link's, else 0
    Real end_fraction = 0;        // of the first flow to end, in ns from since.ns on
    std::int64_t end_ns = 0;      // the first whole nanosecond not before that
    std::int64_t alarm_ns = no_alarm;
    std::uint32_t alarm_version = 0;  // grows with each
    Real new_rate = 0;                // while rates are found
    bool fixed = false;
    std::uint64_t seen = 0;
  };
  static constexpr std::int64_t no_alarm = std::numeric_limits<std::int64_t>::max();

  void collect(RouteId route);
  void find_rates();
  void fix(Route& route, Real rate);
  void apply_rates(const Instant& at);
  void set_alarms();
  static Service given(const Route& route, const Instant& at);
  static void advance(Route& route, const Instant& at);
  static void find_end(Route& route);
  void end_flows(Route& route, RouteId id, const Instant& at, std::vector<std::uint32_t>& finished);

  std::vector<Link> links_;
  std::vector<Route> routes_;
  std::map<std::vector<LinkId>, RouteId> route_of_links_;
  std::uint64_t started_ = 0;  // flows so far
  std::vector<Alarm> alarms_;

  // What a chain of shared links joins, found by collect().
  std::uint64_t search_ = 0;
  std::vector<LinkId> joined_links_;
  std::vector<RouteId> joined_routes_;
  std::vector<std::pair<Real, LinkId>> tightest_;  // a heap by fair share
};

}  // namespace pipesim
