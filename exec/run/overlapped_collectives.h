// The collectives of a rank that overlap its compute.
// A collective is an action of a stage, such as a REDUCE_GRAD, and has parts that are exchanged
// concurrently, or in turn, one at a time among all collectives; a part is a sequence of exchanges
// and then a function to call. Of concurrent ones, a bounded number is in progress; others wait,
// all in the order in which they were added, so that what each message takes doesn't grow with the
// number of parts. They progress whenever the rank's thread calls poll(), and while it
// waits for anything: a wait for other messages includes those of collectives (collect(),
// settle()). All ranks of a group start theirs in the same order. One rank, one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/run/exchange.h"
#include "exec/run/recorder.h"

namespace pipesim::exec {

class OverlappedCollectives {
 public:
  // `transport` is the one below all groups; both must outlive it.
  OverlappedCollectives(Transport& transport, Recorder& recorder)
      : transport_(transport), recorder_(recorder) {}

  struct Part {
    Steps steps;
    std::function<void()> end;  // or none
    bool in_turn = false;       // begins when all earlier ones in turn have ended
  };
  using Id = std::int64_t;
  // Opens a collective. Parts are added until it is closed; it is done when the last one is.
  // Without an action it is not recorded.
  Id open(const std::optional<Action>& action);
  void add(Id id, Part part);
  void close(Id id);
  bool is_done(Id id) const;

  // Advances everything that has arrived.
  void poll();
  // Block; TimedOut names the action.
  void wait_for(Id id);
  void wait_for_all();
  // Blocks until `is_so`, which the end of a part must bring about.
  void wait_until(const std::function<bool()>& is_so);

  // Also calls `drive` during waits; it returns whether it must be called again soon. An exception
  // from it ends the wait.
  void also_drive(std::function<bool()> drive) { drive_ = std::move(drive); }

  // Appends the messages in flight; and tells that the one at that index among them has ended.
  void collect(std::vector<Ticket>& tickets) const;
  void settle(std::size_t place);

  // The first tag for a new exchange, the same on all ranks of the group.
  int next_tag(int count = 1);
  // Expects all to be done; restarts the tags.
  void start_iteration() { tags_ = 0; }

 private:
  struct Open {
    Id id;
    std::optional<Action> action;
    ActionNote note;
    bool is_closed = false;
    std::size_t unfinished = 0;  // parts
  };
  struct Pending {
    Id id;
    Part part;
  };
  // Parts that have not begun, and how many have and may have.
  struct Lane {
    std::size_t most;
    std::size_t begun = 0;
    std::deque<Pending> waiting{};
  };
  Open& find(Id id);
  Lane& lane_of(const Part& part) { return part.in_turn ? in_turn_ : at_once_; }
  // Call after something has ended, or been added. Returns whether a part has ended.
  bool go_on();
  bool has_ended(Pending& one);
  bool begin_waiting(Lane& lane);
  void drop_done();
  void wait_for_one();
  // Throws TimedOut, which names the action.
  [[noreturn]] void lose_patience(Ticket ticket);

  Transport& transport_;
  Recorder& recorder_;
  std::deque<Open> open_;       // in the order in which they began
  std::vector<Pending> begun_;  // parts whose first step is in progress
  Lane at_once_{.most = 64};
  Lane in_turn_{.most = 1};
  std::function<bool()> drive_;
  Id next_ = 0;
  int tags_ = 0;
};

}  // namespace pipesim::exec
