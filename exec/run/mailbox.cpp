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

Mailbox::Mailbox(const Placement& placement, int microbatches, std::int64_t size,
                 Transport& transport, Pool& pool, Recorder& recorder)
    : placement_(placement),
      microbatches_(microbatches),
      size_(size),
      transport_(transport),
      pool_(pool),
      recorder_(recorder),
      in_(std::size_t{2} * static_cast<std::size_t>(placement.stages()) *
          static_cast<std::size_t>(microbatches)),
      out_(in_.size()) {}

Mailbox::~Mailbox() { transport_.abandon(); }

Mailbox::Item Mailbox::item_of_transfer(const Action& transfer) {
  const Action send = is_send(transfer.kind) ? transfer : peer_of(transfer);
  return {send.kind == Kind::SEND_F, send.stage, send.microbatch};
}

Mailbox::Buffer& Mailbox::buffer(std::vector<Buffer>& buffers, const Item& item) {
  const int place = (item.forward ? 0 : placement_.stages()) + item.stage;
  return buffers[static_cast<std::size_t>(place) * static_cast<std::size_t>(microbatches_) +
                 static_cast<std::size_t>(item.microbatch)];
}

int Mailbox::tag(const Item& item) const {
  const int place = (item.forward ? 0 : placement_.stages()) + item.stage;
  return first_free_tag + place * microbatches_ + item.microbatch;
}

void Mailbox::post(const Action& receive) {
  const Item item = item_of_transfer(receive);
  Buffer& own = buffer(in_, item);
  if (own.state != State::free) return;  // posted ahead
  own.state = State::posted;
  own.tensor = pool_.take(size_, Use::receive_buffer);
  own.record = {receive, now_ns(), 0, 0, own.tensor.bytes()};
  own.record.start_ns = own.record.reached_ns;
  own.ticket = transport_.receive(
      placement_.rank_of(item.stage), tag(item),
      std::as_writable_bytes(std::span(own.tensor.data(), static_cast<std::size_t>(size_))));
  posted_in_.push_back(&own);
}

void Mailbox::send(const Action& send) {
  const Item item = item_of_transfer(send);
  Buffer& own = buffer(out_, item);
  if (own.state != State::full) misused(send, "there is nothing to send");
  own.state = State::posted;
  own.record.action = send;
  own.record.start_ns = now_ns();
  own.record.bytes = own.tensor.bytes();
  own.ticket =
      transport_.send(placement_.rank_of(item.consumer()), tag(item),
                      std::as_bytes(std::span(own.tensor.data(), static_cast<std::size_t>(size_))));
  posted_out_.push_back(&own);
}

Tensor Mailbox::take_input(const Action& action) {
  const bool forward = action.kind == Kind::F;
  const Item item{forward, forward ? action.stage - 1 : action.stage + 1, action.microbatch};
  if (!exists(item.stage)) return {};
  Buffer& own = buffer(in_, item);
  if (own.state == State::posted) {
    transport_.wait(own.ticket);
    std::erase(posted_in_, &own);
    arrived(own);
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
  Buffer& own = buffer(local ? in_ : out_, item);
  if (own.state != State::free) misused(action, "its result was there before");
  own.state = State::full;
  own.tensor = std::move(result);
  own.tensor.serve_as(local ? Use::activations : Use::send_buffer);
  own.record.reached_ns = now_ns();
}

void Mailbox::arrived(Buffer& buffer) {
  buffer.state = State::full;
  buffer.record.end_ns = now_ns();
  recorder_.add(buffer.record);
}

void Mailbox::left(Buffer& buffer) {
  buffer.state = State::free;
  buffer.tensor = {};
  buffer.record.end_ns = now_ns();
  recorder_.add(buffer.record);
}

void Mailbox::poll() {
  const auto finish_those_done = [&](std::vector<Buffer*>& posted, auto finish) {
    std::erase_if(posted, [&](Buffer* buffer) {
      if (!transport_.test(buffer->ticket)) return false;
      finish(*buffer);
      return true;
    });
  };
  finish_those_done(posted_in_, [&](Buffer& buffer) { arrived(buffer); });
  finish_those_done(posted_out_, [&](Buffer& buffer) { left(buffer); });
}

void Mailbox::finish_iteration() {
  for (Buffer* buffer : std::exchange(posted_out_, {})) {
    transport_.wait(buffer->ticket);
    left(*buffer);
  }
  for (Buffer& buffer : in_) {
    if (buffer.state == State::posted || buffer.state == State::full) {
      misused(buffer.record.action, "received, but never used");
    }
    buffer.state = State::free;
  }
  for (const Buffer& buffer : out_) {
    if (buffer.state != State::free) misused(buffer.record.action, "made, but never sent");
  }
}

}  // namespace pipesim::exec
