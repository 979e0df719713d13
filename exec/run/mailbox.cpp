#include "exec/run/mailbox.h"

#include <fmt/format.h>

#include <utility>

#include "exec/transport/collectives.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

[[noreturn]] void misused(const Action& action, const char* what) {
  throw work_error(fmt::format("{}: {}", to_text(action), what));
}

}  // namespace

Mailbox::Mailbox(const Placement& placement, int microbatches, std::vector<std::int64_t> bytes,
                 Transport& transport, Pool& pool, Recorder& recorder)
    : placement_(placement),
      microbatches_(microbatches),
      bytes_(std::move(bytes)),
      transport_(transport),
      pool_(pool),
      recorder_(recorder),
      chunks_(placement.stages_of(transport.rank()).size()),
      in_(2 * chunks_ * static_cast<std::size_t>(microbatches)),
      out_(in_.size()) {}

Mailbox::~Mailbox() { transport_.abandon(); }

Mailbox::Item Mailbox::item_of_transfer(const Action& transfer) {
  const Action send = is_send(transfer.kind) ? transfer : peer_of(transfer);
  return {send.kind == Kind::SEND_F, send.stage, send.microbatch};
}

std::size_t Mailbox::place(const Item& item, int own_stage) const {
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
  own.tensor = pool_.take(floats_for(bytes_of(item)), Use::receive_buffer);
  own.record = {receive, recorder_.now_ns(), 0, 0, bytes_of(item)};
  own.record.start_ns = own.record.reached_ns;
  own.message = HostView(pool_.device(), own.tensor, own.record.bytes);
  own.ticket = transport_.receive(placement_.rank_of(item.stage), tag(item), own.message.bytes());
  under_way_.push_back(&own);
}

void Mailbox::send(const Action& send) {
  const Item item = item_of_transfer(send);
  Buffer& own = outgoing(item);
  if (own.state != State::full) misused(send, "there is nothing to send");
  own.state = State::posted;
  own.record.action = send;
  own.record.start_ns = recorder_.now_ns();
  own.record.bytes = bytes_of(item);
  own.message = HostView(pool_.device(), own.tensor, own.record.bytes);
  own.message.fetch();
  own.ticket = transport_.send(placement_.rank_of(item.consumer()), tag(item), own.message.bytes());
  under_way_.push_back(&own);
}

Tensor Mailbox::take_input(const Action& action) {
  const bool forward = action.kind == Kind::F;
  const Item item{forward, forward ? action.stage - 1 : action.stage + 1, action.microbatch};
  if (!exists(item.stage)) return {};
  Buffer& own = incoming(item);
  try {
    while (own.state == State::posted) wait_for_one();
  } catch (const TimedOut& error) {
    throw TimedOut(
        fmt::format("{} needs {}: {}", to_text(action), to_text(own.record.action), error.what()));
  }
  if (own.state != State::full) misused(action, "its input was not received");
  own.state = State::owned;
  own.tensor.serve_as(Use::activations);
  return std::move(own.tensor);
}

void Mailbox::put_output(const Action& action, Tensor result) {
  const Item item{action.kind == Kind::F, action.stage, action.microbatch};
  if (!exists(item.consumer())) return;
  const bool local = is_local(item);
  Buffer& own = local ? incoming(item) : outgoing(item);
  if (own.state != State::free) misused(action, "its result was there before");
  own.state = State::full;
  own.record.action = action;
  own.tensor = std::move(result);
  own.tensor.serve_as(local ? Use::activations : Use::send_buffer);
  own.record.reached_ns = recorder_.now_ns();
}

// Of a transfer that is done: a RECV's buffer is full, a SEND's free again.
void Mailbox::settle(Buffer& buffer) {
  const bool receives = is_receive(buffer.record.action.kind);
  buffer.state = receives ? State::full : State::free;
  if (receives) buffer.message.put();
  buffer.message = {};
  if (!receives) buffer.tensor = {};
  buffer.record.end_ns = recorder_.now_ns();
  recorder_.add(buffer.record);
}

void Mailbox::poll() {
  std::erase_if(under_way_, [&](Buffer* buffer) {
    if (!transport_.test(buffer->ticket)) return false;
    settle(*buffer);
    return true;
  });
}

// Whichever it is, so that each is seen to end when it does. Receives come
// first: where patience ends, it is them that the rank has waited for.
void Mailbox::wait_for_one() {
  std::stable_partition(under_way_.begin(), under_way_.end(), [](const Buffer* buffer) {
    return is_receive(buffer->record.action.kind);
  });
  std::vector<Ticket> tickets;
  for (const Buffer* buffer : under_way_) tickets.push_back(buffer->ticket);
  const auto done = under_way_.begin() + static_cast<std::ptrdiff_t>(transport_.wait_any(tickets));
  settle(**done);
  under_way_.erase(done);
}

void Mailbox::finish_iteration() {
  for (Buffer& buffer : in_) {
    if (buffer.state == State::posted || buffer.state == State::full) {
      misused(buffer.record.action, "received, but never used");
    }
    buffer.state = State::free;
  }
  while (!under_way_.empty()) wait_for_one();
  for (const Buffer& buffer : out_) {
    if (buffer.state != State::free) misused(buffer.record.action, "made, but never sent");
  }
}

}  // namespace pipesim::exec
