#include "exec/run/beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "exec/transport/collectives.h"

namespace pipesim::exec {

Beside::Id Beside::open(const std::optional<Action>& action) {
  Open one{next_++, action, {}, false, {}};
  one.note.action = action.value_or(Action());
  one.note.reached = one.note.start = recorder_.now();
  open_.push_back(std::move(one));
  return open_.back().id;
}

Beside::Open& Beside::find(Id id) { return *std::ranges::find(open_, id, &Open::id); }

bool Beside::is_done(Id id) const { return std::ranges::find(open_, id, &Open::id) == open_.end(); }

void Beside::add(Id id, Part part) {
  Open& one = find(id);
  const bool in_turn = part.in_turn;
  one.parts.push_back(std::move(part));
  if (in_turn) {
    turns_.push_back(id);
    give_turn();
    return;
  }
  begin(one.parts.back());
  go_on(one);
}

void Beside::begin(Part& part) {
  part.has_begun = true;
  part.steps.front()->start();
}

// A part without exchanges ends as it begins.
void Beside::give_turn() {
  while (!turns_.empty()) {
    const std::size_t waiting = turns_.size();
    Open& one = find(turns_.front());
    const auto next = std::ranges::find_if(one.parts, &Part::in_turn);
    if (next->has_begun) return;
    begin(*next);
    go_on(one);
    if (turns_.size() == waiting) return;
  }
}

void Beside::close(Id id) {
  Open& one = find(id);
  one.is_closed = true;
  drop_done();
}

void Beside::go_on(Open& one) {
  for (Part& part : one.parts) {
    if (!part.has_begun) continue;
    while (!part.steps.empty() && part.steps.front()->is_done()) {
      one.note.bytes += part.steps.front()->sent_bytes();
      part.steps.erase(part.steps.begin());
      if (!part.steps.empty()) {
        part.steps.front()->start();
        continue;
      }
      if (part.end) part.end();
      if (part.in_turn) turns_.pop_front();
    }
  }
  std::erase_if(one.parts, [](const Part& part) { return part.steps.empty(); });
}

void Beside::drop_done() {
  std::erase_if(open_, [&](Open& one) {
    if (!one.is_closed || !one.parts.empty()) return false;
    one.note.end = recorder_.now();
    if (one.action) recorder_.add(one.note);
    return true;
  });
}

void Beside::poll() {
  for (std::size_t waiting = turns_.size() + 1; turns_.size() < waiting;) {
    waiting = turns_.size();
    for (Open& one : open_) {
      for (Part& part : one.parts) {
        if (part.has_begun) part.steps.front()->poll();
      }
      go_on(one);
    }
    give_turn();
  }
  drop_done();
}

void Beside::collect(std::vector<Ticket>& tickets) const {
  for (const Open& one : open_) {
    for (const Part& part : one.parts) {
      if (part.has_begun) part.steps.front()->collect(tickets);
    }
  }
}

void Beside::settle(std::size_t place) {
  for (Open& one : open_) {
    for (Part& part : one.parts) {
      if (!part.has_begun) continue;
      Exchange& step = *part.steps.front();
      if (place < step.messages()) {
        step.settle(place);
        go_on(one);
        give_turn();
        drop_done();
        return;
      }
      place -= step.messages();
    }
  }
}

// The driven function may progress forever: patience covers the whole wait.
void Beside::wait_for_one() {
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

void Beside::lose_patience(Ticket ticket) {
  try {
    transport_.lose_patience(ticket);
  } catch (const TimedOut& error) {
    const std::optional<Action>& action = open_.front().action;
    throw TimedOut(action ? fmt::format("{}: {}", to_text(*action), error.what())
                          : std::string(error.what()));
  }
}

void Beside::wait_for(Id id) {
  while (!is_done(id)) wait_for_one();
}

void Beside::wait_until(const std::function<bool()>& is_so) {
  while (!is_so()) wait_for_one();
}

void Beside::wait_for_all() {
  while (!open_.empty()) wait_for_one();
}

int Beside::next_tag(int count) { return first_free_tag + std::exchange(tags_, tags_ + count); }

}  // namespace pipesim::exec
