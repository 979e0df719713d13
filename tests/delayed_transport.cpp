#include "tests/delayed_transport.h"

#include <algorithm>

namespace pipesim::testing {

using exec::Ticket;

template <typename Work>
auto DelayedTransport::guarded(Work work) {
  try {
    return work();
  } catch (...) {
    abandon();
    throw;
  }
}

DelayedTransport::DelayedTransport(exec::Transport& inner, unsigned seed, int most)
    : inner_(inner), random_(seed), most_(most) {}

Ticket DelayedTransport::send(int to, int tag, std::span<const std::byte> bytes) {
  return guarded([&] {
    pass_time();
    return open({true, to, tag, bytes, {}});
  });
}

Ticket DelayedTransport::receive(int from, int tag, std::span<std::byte> bytes) {
  return guarded([&] {
    pass_time();
    return open({false, from, tag, {}, bytes});
  });
}

Ticket DelayedTransport::open(Message message) {
  message.held = draw();
  message.denials = draw();
  Ticket ticket = messages_.size();
  if (free_.empty()) {
    messages_.push_back(message);
  } else {
    ticket = free_.back();
    free_.pop_back();
    messages_[ticket] = message;
  }
  const Route route{message.sends, message.peer, message.tag};
  const auto before = held_.find(route);
  if (message.held == 0 && before == held_.end()) {
    start(messages_[ticket]);
  } else {
    held_[route].push_back(ticket);
    ++delays_;
  }
  return ticket;
}

void DelayedTransport::start(Message& message) {
  message.inner = message.sends ? inner_.send(message.peer, message.tag, message.out)
                                : inner_.receive(message.peer, message.tag, message.in);
  message.started = true;
}

// Of every route the first moves on; those behind it follow when it has started.
void DelayedTransport::pass_time() {
  for (auto at = held_.begin(); at != held_.end();) {
    auto& queue = at->second;
    if (Message& first = messages_[queue.front()]; --first.held <= 0) {
      start(first);
      queue.pop_front();
    }
    at = queue.empty() ? held_.erase(at) : std::next(at);
  }
}

bool DelayedTransport::test(Ticket ticket) {
  return guarded([&] {
    pass_time();
    Message& own = messages_[ticket];
    if (!own.started) return false;
    if (own.denials > 0) {
      --own.denials;
      ++delays_;
      return false;
    }
    if (!inner_.test(own.inner)) return false;
    free_.push_back(ticket);
    return true;
  });
}

// Blocks only once nothing is held back: another rank may need it.
std::size_t DelayedTransport::wait_any_until(std::span<const Ticket> tickets, Time until) {
  const auto denied = [&](Ticket ticket) { return messages_[ticket].denials > 0; };
  while (!held_.empty() || std::ranges::any_of(tickets, denied)) {
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      if (test(tickets[i])) return i;
    }
  }
  std::vector<Ticket> inner;
  for (const Ticket ticket : tickets) inner.push_back(messages_[ticket].inner);
  const std::size_t done = guarded([&] { return inner_.wait_any_until(inner, until); });
  if (done < tickets.size()) free_.push_back(tickets[done]);
  return done;
}

void DelayedTransport::abandon() {
  inner_.abandon();
  held_.clear();
  messages_.clear();
  free_.clear();
}

}  // namespace pipesim::testing
