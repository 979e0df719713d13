#include "exec/run/tensor_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "exec/transport/collectives.h"

namespace pipesim::exec {
namespace {

// Two ranks of such a group share no other group with messages in flight then, and exchanges follow
// each other.
constexpr int tag = first_free_tag;

Steps one(std::unique_ptr<Exchange> exchange) {
  Steps steps;
  steps.push_back(std::move(exchange));
  return steps;
}

}  // namespace

void TensorExchange::start_sum(const Slice& numbers, Keeps keeps) {
  // If all ranks keep everything, a part may be rounded up.
  const std::int64_t part = keeps == Keeps::all ? Parts({numbers.size()}, ranks()).part(0, 0).size()
                                                : numbers.size() / ranks();
  Tensor room = pool_.take((ranks() - 1) * part, Use::receive_buffer, numbers.data().type);
  if (keeps == Keeps::all) {
    sum_ = start(GroupExchange::all_reduce, numbers,
                 all_reduce(group_, pool_, numbers, tag, room.all()));
  } else {
    sum_ = start(GroupExchange::reduce_scatter, numbers,
                 one(std::make_unique<ReduceScatter>(
                     group_, pool_, in_equal_parts(numbers, ranks()), tag, room.all())));
  }
  sum_->room = std::move(room);
}

void TensorExchange::finish_sum() {
  sum_->note.awaited = recorder_.mark();
  finish(std::move(*sum_));
  sum_.reset();
}

void TensorExchange::poll() { beside_.poll(); }

void TensorExchange::all_gather(const Slice& numbers) {
  finish(start(
      GroupExchange::all_gather, numbers,
      one(std::make_unique<AllGather>(group_, pool_, in_equal_parts(numbers, ranks()), tag))));
}

TensorExchange::Open TensorExchange::start(GroupExchange what, const Slice& numbers, Steps steps) {
  Open open{recorder_.exchange(what, ranks(), numbers.bytes()), beside_.open(std::nullopt), {}};
  beside_.add(open.id, {std::move(steps), {}});
  beside_.close(open.id);
  open.note.begun = open.note.awaited = recorder_.now();
  return open;
}

void TensorExchange::finish(Open open) {
  try {
    recorder_.wait([&] { beside_.wait_for(open.id); });
  } catch (const TimedOut& error) {
    throw TimedOut(fmt::format("{}, {} of tensor-parallel ranks: {}", to_text(open.note.action),
                               name_of(open.note.what), error.what()));
  }
  open.note.end = recorder_.now();
  recorder_.add(open.note);
}

}  // namespace pipesim::exec
