// The collectives of a rank that go on beside what it computes.
//
// One is an action of a stage, such as a REDUCE_GRAD, and has parts that are exchanged side
// by side, or in turn, one after the other of all collectives; a part is exchanges one after the
// other, and then something to do. They go on
// whenever the rank's thread calls poll(), and while it waits for anything: a wait for
// messages of another kind takes those of collectives along (collect(), settle()). All ranks
// of a group start theirs in the same order. One rank, one thread.
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

class Beside {
 public:
  // `transport` is the one below all groups; both outlive it.
  Beside(Transport& transport, Recorder& recorder) : transport_(transport), recorder_(recorder) {}

  struct Part {
    Steps steps;
    std::function<void()> end;  // or none
    bool in_turn = false;       // begins when those before it that are so have ended
    bool has_begun = false;
  };
  using Id = std::int64_t;
  // A collective begins, of which parts are added until it is closed; it is done with the last.
  // What is no action of its own is in no record.
  Id open(const std::optional<Action>& action);
  void add(Id id, Part part);
  void close(Id id);
  bool is_done(Id id) const;

  // Goes on with all that has arrived.
  void poll();
  // Wait; TimedOut says for which action.
  void wait_for(Id id);
  void wait_for_all();
  // Until that is so, which the end of a part brings about.
  void wait_until(const std::function<bool()>& is_so);

  // What has to be looked after during waits, too: whether it has to be again soon. What it throws
  // ends the wait.
  void also_drive(std::function<bool()> drive) { drive_ = std::move(drive); }

  // The messages under way, and that the one at a place among them has ended.
  void collect(std::vector<Ticket>& tickets) const;
  void settle(std::size_t place);

  // For an exchange that is about to be made: the first of its tags, as on all ranks of the group.
  int next_tag(int count = 1);
  // All are done; tags begin anew.
  void start_iteration() { tags_ = 0; }

 private:
  struct Open {
    Id id;
    std::optional<Action> action;
    ActionNote note;
    bool is_closed = false;
    std::deque<Part> parts;  // of those that have begun the first step is under way
  };
  Open& find(Id id);
  // After something of it has ended.
  void go_on(Open& one);
  static void begin(Part& part);
  // Begins the next part that waits for its turn, if none has it.
  void give_turn();
  void drop_done();
  void wait_for_one();
  // TimedOut, which says for which action.
  [[noreturn]] void lose_patience(Ticket ticket);

  Transport& transport_;
  Recorder& recorder_;
  std::deque<Open> open_;  // in the order in which they began
  std::deque<Id> turns_;   // of parts in turn that have not ended, in their order; the first has it
  std::function<bool()> drive_;
  Id next_ = 0;
  int tags_ = 0;
};

}  // namespace pipesim::exec
