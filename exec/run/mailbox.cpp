#include "exec/run/mailbox.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "exec/run/channels.h"
#include "exec/transport/back_off.h"
#include "exec/transport/collectives.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/dependency.h"

namespace pipesim::exec {
namespace {

[[noreturn]] void misused(const Action& action, const char* what) {
  throw work_error(fmt::format("{}: {}", to_text(action), what));
}

}  // namespace

Mailbox::Mailbox(const Placement& placement, int microbatches, std::vector<std::int64_t> bytes,
                 Number type, Transport& transport, Pool& pool, Recorder& recorder,
                 OverlappedCollectives& beside)
    : placement_(placement),
      microbatches_(microbatches),
      bytes_(std::move(bytes)),
      type_(type),
      transport_(transport),
      pool_(pool),
      device_(pool.device()),
      link_(transport.link()),
      staged_(!device_.host_reaches_memory() && link_ == nullptr),
      staging_(device_),
      recorder_(recorder),
      beside_(beside),
      chunks_(placement.stages_of(transport.rank()).size()),
      in_(2 * chunks_ * static_cast<std::size_t>(microbatches)),
      out_(in_.size()) {}

Mailbox::~Mailbox() {
  transport_.abandon();
  if (link_ != nullptr && !under_way_.empty()) link_->abort();
}

Mailbox::Item Mailbox::item_of_transfer(const Action& transfer) {
  const Action send = is_send(transfer.kind) ? transfer : peer_of(transfer);
  return {send.kind == Kind::SEND_F, send.stage, send.microbatch};
}

std::size_t Mailbox::index(const Item& item, int own_stage) const {
  const std::size_t chunk = static_cast<std::size_t>(placement_.chunk_of(own_stage));
  return ((item.forward ? 0 : chunks_) + chunk) * static_cast<std::size_t>(microbatches_) +
         static_cast<std::size_t>(item.microbatch);
}

int Mailbox::tag(const Item& item) const {
  const int place = (item.forward ? 0 : placement_.stages()) + item.stage;
  return first_free_tag + place * microbatches_ + item.microbatch;
}

void Mailbox::post(const Action& receive) {
  const Item item = item_of_transfer(receive);
  Buffer& own = incoming(item);
  if (own.state != State::free) return;  // posted ahead
  own.state = State::posted;
  own.note = {receive, recorder_.now(), {}, {}, bytes_of(item)};
  own.note.start = own.note.reached;
  const std::int64_t each = exec::bytes_of(type_);
  own.tensor = pool_.take((own.note.bytes + each - 1) / each, Use::receive_buffer, type_);
  if (staged_ || link_ != nullptr) own.usable = device_.mark();
  under_way_.push_back(&own);
  if (link_ != nullptr) {
    start_linked(own);
    return;
  }
  own.message = message_of(own);
  own.ticket = transport_.receive(peer(item, item.stage), tag(item), own.message);
}

void Mailbox::send(const Action& send) {
  const Item item = item_of_transfer(send);
  Buffer& own = outgoing(item);
  if (own.state != State::full) misused(send, "there is nothing to send");
  own.state = State::posted;
  own.note.action = send;
  own.note.start = recorder_.mark();
  own.note.bytes = bytes_of(item);
  own.ticket.reset();
  under_way_.push_back(&own);
  if (link_ != nullptr) {
    start_linked(own);
    return;
  }
  own.message = message_of(own);
  if (staged_) {
    own.copied = device_.start_download(own.message.data(), own.tensor.memory(), own.note.bytes);
  } else {
    start_send(own);
  }
}

std::span<std::byte> Mailbox::message_of(const Buffer& buffer) {
  if (staged_) return staging_.take(buffer.note.bytes);
  return {static_cast<std::byte*>(buffer.tensor.memory()),
          static_cast<std::size_t>(buffer.note.bytes)};
}

void Mailbox::start_send(Buffer& buffer) {
  const Item item = item_of_transfer(buffer.note.action);
  buffer.ticket = transport_.send(peer(item, item.consumer()), tag(item), buffer.message);
}

bool Mailbox::start_copied() {
  bool copies = false;
  for (Buffer* buffer : under_way_) {
    if (buffer->ticket) continue;
    if (device_.has_passed(buffer->copied)) {
      start_send(*buffer);
    } else {
      copies = true;
    }
  }
  return copies;
}

bool Mailbox::look_after() {
  if (link_ == nullptr) return start_copied();
  poll_link();
  return !under_way_.empty();
}

void Mailbox::await(const Action& transfer) {
  const Item item = item_of_transfer(transfer);
  const Buffer& own = is_send(transfer.kind) ? outgoing(item) : incoming(item);
  if (link_ != nullptr) {
    device_.follow(own.copied);
    return;
  }
  while (own.state == State::posted) wait_for_one();
  if (staged_ && is_receive(transfer.kind)) device_.follow(own.copied);
}

Tensor Mailbox::take_input(const Action& action) {
  const Item item{action.kind == Kind::F, input_stage(action), action.microbatch};
  if (!exists(item.stage)) return {};
  Buffer& own = incoming(item);
  try {
    while (own.state == State::posted) wait_for_one();
  } catch (const TimedOut& error) {
    throw TimedOut(
        fmt::format("{} needs {}: {}", to_text(action), to_text(own.note.action), error.what()));
  }
  if (own.state != State::full) misused(action, "its input was not received");
  own.state = State::owned;
  if (link_ != nullptr && !is_local(item)) {
    own.awaited = device_.mark();
    own.consumer = action;
  }
  if ((staged_ || link_ != nullptr) && !is_local(item)) device_.follow(own.copied);
  own.tensor.serve_as(Use::activations);
  return std::move(own.tensor);
}

void Mailbox::put_output(const Action& action, Tensor result, Instant there) {
  const Item item{action.kind == Kind::F, action.stage, action.microbatch};
  if (!exists(item.consumer())) return;
  const bool local = is_local(item);
  Buffer& own = local ? incoming(item) : outgoing(item);
  if (own.state != State::free) misused(action, "its result was there already");
  own.state = State::full;
  own.note.action = action;
  own.tensor = std::move(result);
  own.tensor.serve_as(local ? Use::activations : Use::send_buffer);
  own.note.reached = there;
}

// After a transfer: a RECV's buffer is full, a SEND's free again.
void Mailbox::settle(Buffer& buffer) {
  const bool receives = is_receive(buffer.note.action.kind);
  buffer.state = receives ? State::full : State::free;
  buffer.note.end = recorder_.now();
  if (staged_ && receives) {
    buffer.copied = device_.start_upload(buffer.tensor.memory(), buffer.message.data(),
                                         buffer.note.bytes, buffer.usable);
    buffer.note.end = {buffer.copied, true};
    staging_.give_back(buffer.message, buffer.copied);
  } else if (staged_) {
    staging_.give_back(buffer.message);
  }
  buffer.message = {};
  if (!receives) buffer.tensor = {};
  recorder_.add(buffer.note);
}

// A receive starts once its memory is free for it, a send when its result is ready.
void Mailbox::start_linked(Buffer& buffer) {
  ActionNote& note = buffer.note;
  const Channel channel = channel_of(placement_, note.action);
  buffer.waited_since.reset();
  buffer.awaited.reset();  // until something needs it
  if (is_send(note.action.kind)) {
    buffer.copied = link_->send(channel, buffer.tensor.memory(), note.bytes, note.start.value);
  } else {
    note.reached = note.start = {buffer.usable, true};
    buffer.copied = link_->receive(channel, buffer.tensor.memory(), note.bytes, buffer.usable);
    buffer.state = State::full;
  }
  note.end = {buffer.copied, true};
}

void Mailbox::settle_linked(Buffer& buffer) {
  recorder_.add(buffer.note);
  if (is_receive(buffer.note.action.kind)) return;
  buffer.state = State::free;
  buffer.tensor = {};
}

void Mailbox::poll_link() {
  try {
    link_->check();
  } catch (const PeerLost& error) {
    const auto waited = std::ranges::find_if(
        under_way_, [](const Buffer* buffer) { return buffer->waited_since.has_value(); });
    if (waited == under_way_.end()) throw;
    throw PeerLost(fmt::format("{}: {}", purpose(**waited), error.what()));
  }
  std::vector<Buffer*> rest;
  for (Buffer* buffer : under_way_) {
    if (device_.has_passed(buffer->copied)) {
      settle_linked(*buffer);
    } else {
      rest.push_back(buffer);
    }
  }
  under_way_ = std::move(rest);
  for (Buffer* buffer : under_way_) check_patience(*buffer);
}

// Patience begins when the device has nothing left to do before the end of the message, however far
// ahead the rank's thread is.
void Mailbox::check_patience(Buffer& buffer) {
  const auto patience = transport_.patience();
  if (!patience || !buffer.awaited) return;
  const Time now = std::chrono::steady_clock::now();
  if (!buffer.waited_since && device_.has_passed(*buffer.awaited)) buffer.waited_since = now;
  if (!buffer.waited_since || now - *buffer.waited_since < *patience) return;
  const Channel channel = channel_of(placement_, buffer.note.action);
  throw TimedOut(fmt::format(
      "{}: waited {} for {}", purpose(buffer), format_time(patience->count()),
      is_receive(buffer.note.action.kind) ? a_message_from(channel.from) : a_taker_at(channel.to)));
}

std::string Mailbox::purpose(const Buffer& buffer) const {
  const Action& transfer = buffer.note.action;
  if (is_send(transfer.kind)) return to_text(transfer);
  return fmt::format("{} needs {}", to_text(buffer.consumer), to_text(transfer));
}

void Mailbox::poll() {
  if (link_ != nullptr) {
    poll_link();
    return;
  }
  start_copied();
  std::erase_if(under_way_, [&](Buffer* buffer) {
    if (!buffer->ticket || !transport_.test(*buffer->ticket)) return false;
    settle(*buffer);
    return true;
  });
}

// Waits for any of them, so that each end is noticed at once. Receives come first: if patience
// ends, the rank has waited for them.
void Mailbox::wait_for_one() {
  std::stable_partition(under_way_.begin(), under_way_.end(),
                        [](const Buffer* buffer) { return is_receive(buffer->note.action.kind); });
  std::vector<Buffer*> waiting;
  std::vector<Ticket> tickets;
  for (BackOff pause;;) {
    const bool copies = start_copied();
    waiting.clear();
    tickets.clear();
    for (Buffer* buffer : under_way_) {
      if (!buffer->ticket) continue;
      waiting.push_back(buffer);
      tickets.push_back(*buffer->ticket);
    }
    if (tickets.empty()) {
      pause.pause();
      continue;
    }
    const std::size_t own = tickets.size();
    beside_.collect(tickets);
    constexpr std::chrono::microseconds turn(20);  // then copies may have run
    const std::size_t done =
        copies ? transport_.wait_any_until(tickets, std::chrono::steady_clock::now() + turn)
               : transport_.wait_any(tickets);
    if (done == tickets.size()) continue;
    if (done >= own) {
      beside_.settle(done - own);
      continue;
    }
    settle(*waiting[done]);
    std::erase(under_way_, waiting[done]);
    return;
  }
}

void Mailbox::wait_for(Mark mark) {
  for (BackOff pause; !device_.has_passed(mark); pause.pause()) poll();
}

void Mailbox::finish_iteration() {
  for (Buffer& buffer : in_) {
    if (buffer.state == State::posted || buffer.state == State::full) {
      misused(buffer.note.action, "received, but never used");
    }
    buffer.state = State::free;
  }
  while (link_ == nullptr && !under_way_.empty()) wait_for_one();
  // Now the rank only waits for the receivers of its messages.
  for (Buffer* buffer : under_way_) {
    if (!buffer->awaited) buffer->awaited = device_.mark();
  }
  for (BackOff pause; !under_way_.empty(); pause.pause()) poll_link();
  for (const Buffer& buffer : out_) {
    if (buffer.state != State::free) misused(buffer.note.action, "made, but never sent");
  }
}

}  // namespace pipesim::exec
