#include "exec/run/tensor_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "exec/transport/collectives.h"

namespace pipesim::exec {
namespace {

// Two ranks of such a group are together in no other whose messages are under way then, and one
// exchange follows the other.
constexpr int tag = first_free_tag;

Steps one(std::unique_ptr<Exchange> exchange) {
  Steps steps;
  steps.push_back(std::move(exchange));
  return steps;
}

}  // namespace

void TensorExchange::all_reduce(const Slice& numbers) {
  const Tensor room = room_for(numbers);
  run(GroupExchange::all_reduce, numbers,
      exec::all_reduce(group_, pool_, numbers, tag, room.all()));
}

void TensorExchange::reduce_scatter(const Slice& numbers) {
  const Tensor room = room_for(numbers);
  run(GroupExchange::reduce_scatter, numbers,
      one(std::make_unique<ReduceScatter>(group_, pool_, in_equal_parts(numbers, ranks()), tag,
                                          room.all())));
}

// For what the others have of the rank's part, which all_reduce() may round up.
Tensor TensorExchange::room_for(const Slice& numbers) const {
  const std::int64_t part = Parts({numbers.size()}, ranks()).part(0, 0).size();
  return pool_.take((ranks() - 1) * part, Use::receive_buffer, numbers.data().type);
}

void TensorExchange::all_gather(const Slice& numbers) {
  run(GroupExchange::all_gather, numbers,
      one(std::make_unique<AllGather>(group_, pool_, in_equal_parts(numbers, ranks()), tag)));
}

void TensorExchange::run(GroupExchange what, const Slice& numbers, Steps steps) {
  const Instant start = recorder_.now();
  const Beside::Id id = beside_.open(std::nullopt);
  beside_.add(id, {std::move(steps), {}});
  beside_.close(id);
  try {
    recorder_.wait([&] { beside_.wait_for(id); });
  } catch (const TimedOut& error) {
    throw TimedOut(fmt::format("{}, {} of tensor-parallel ranks: {}", to_text(recorder_.action()),
                               name_of(what), error.what()));
  }
  const Instant end = recorder_.now();
  recorder_.add({what, ranks(), numbers.bytes(), start, end, end.value - start.value});
}

}  // namespace pipesim::exec
