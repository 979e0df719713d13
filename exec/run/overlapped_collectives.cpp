#include "exec/run/overlapped_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "exec/transport/collectives.h"

namespace pipesim::exec {

OverlappedCollectives::Id OverlappedCollectives::open(const std::optional<Action>& action) {
  Open one{next_++, action, {}};
  one.note.action = action.value_or(Action());
  one.note.reached = one.note.start = recorder_.now();
  open_.push_back(std::move(one));
  return open_.back().id;
}

OverlappedCollectives::Open& OverlappedCollectives::find(Id id) {
  return *std::ranges::find(open_, id, &Open::id);
}

bool OverlappedCollectives::is_done(Id id) const {
  return std::ranges::find(open_, id, &Open::id) == open_.end();
}

void OverlappedCollectives::add(Id id, Part part) {
  ++find(id).unfinished;
  Lane& lane = lane_of(part);
  lane.waiting.push_back({id, std::move(part)});
  go_on();
}

void OverlappedCollectives::close(Id id) {
  find(id).is_closed = true;
  drop_done();
}

// Starts its next steps while earlier ones are done: a step without messages is done as it starts.
bool OverlappedCollectives::has_ended(Pending& one) {
  Steps& steps = one.part.steps;
  while (!steps.empty() && steps.front()->is_done()) {
    find(one.id).note.bytes += steps.front()->sent_bytes();
    steps.erase(steps.begin());
    if (!steps.empty()) steps.front()->start();
  }
  if (!steps.empty()) return false;
  if (one.part.end) one.part.end();
  --lane_of(one.part).begun;
  --find(one.id).unfinished;
  return true;
}

// Begins those for which there is room; returns whether there are any.
bool OverlappedCollectives::begin_waiting(Lane& lane) {
  bool any = false;
  for (; !lane.waiting.empty() && lane.begun < lane.most; any = true) {
    ++lane.begun;
    begun_.push_back(std::move(lane.waiting.front()));
    lane.waiting.pop_front();
    begun_.back().part.steps.front()->start();
  }
  return any;
}

bool OverlappedCollectives::go_on() {
  bool any = false;
  for (bool begins = true; begins;) {
    any |= std::erase_if(begun_, [&](Pending& one) { return has_ended(one); }) > 0;
    const bool at_once = begin_waiting(at_once_);
    begins = begin_waiting(in_turn_) || at_once;
  }
  return any;
}

void OverlappedCollectives::drop_done() {
  std::erase_if(open_, [&](Open& one) {
    if (!one.is_closed || one.unfinished > 0) return false;
    one.note.end = recorder_.now();
    if (one.action) recorder_.add(one.note);
    return true;
  });
}

void OverlappedCollectives::poll() {
  do {
    for (Pending& one : begun_) one.part.steps.front()->poll();
  } while (go_on());
  drop_done();
}

void OverlappedCollectives::collect(std::vector<Ticket>& tickets) const {
  for (const Pending& one : begun_) one.part.steps.front()->collect(tickets);
}

void OverlappedCollectives::settle(std::size_t place) {
  for (Pending& one : begun_) {
    Exchange& step = *one.part.steps.front();
    if (place < step.messages()) {
      step.settle(place);
      go_on();
      drop_done();
      return;
    }
    place -= step.messages();
  }
}

// The driven function may progress forever: patience covers the whole wait.
void OverlappedCollectives::wait_for_one() {
  using Time = Transport::Time;
  constexpr std::chrono::microseconds turn(20);
  std::vector<Ticket> tickets;
  collect(tickets);
  const auto patience = transport_.patience();
  const Time until = patience ? std::chrono::steady_clock::now() + *patience : Time::max();
  for (bool is_driven = true; is_driven;) {
    is_driven = drive_ && drive_();
    const Time now = std::chrono::steady_clock::now();
    const std::size_t done =
        transport_.wait_any_until(tickets, is_driven ? std::min(now + turn, until) : until);
    if (done < tickets.size()) return settle(done);
    if (now >= until) break;
  }
  lose_patience(tickets.front());
}

void OverlappedCollectives::lose_patience(Ticket ticket) {
  try {
    transport_.lose_patience(ticket);
  } catch (const TimedOut& error) {
    const std::optional<Action>& action = open_.front().action;
    throw TimedOut(action ? fmt::format("{}: {}", to_text(*action), error.what())
                          : std::string(error.what()));
  }
}

void OverlappedCollectives::wait_for(Id id) {
  while (!is_done(id)) wait_for_one();
}

void OverlappedCollectives::wait_until(const std::function<bool()>& is_so) {
  while (!is_so()) wait_for_one();
}

void OverlappedCollectives::wait_for_all() {
  while (!open_.empty()) wait_for_one();
}

int OverlappedCollectives::next_tag(int count) {
  return first_free_tag + std::exchange(tags_, tags_ + count);
}

}  // namespace pipesim::exec
