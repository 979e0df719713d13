#include "exec/run/emulated_states.h"

#include <numeric>

namespace pipesim::exec {
namespace {

std::vector<std::int64_t> ends_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> ends(sizes.size());
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  return ends;
}

}  // namespace

EmulatedStates::EmulatedStates(const Setup& setup, Pool& arrays, Pool& pool)
    : setup_(setup),
      pool_(pool),
      parts_(cut(ends_of(setup.layer_parameters), setup.cuts), setup.split.parts()) {
  const std::int64_t numbers = parts_.segment(parts_.segments() - 1).end;
  Device& device = arrays.device();
  const auto zeros = [&](Use use, Number type) {
    Tensor array = arrays.take(numbers, use, type);
    const std::vector<std::byte> zero(static_cast<std::size_t>(array.bytes()));
    if (!zero.empty()) device.upload(array.memory(), zero.data(), array.bytes());
    return array;
  };
  gradients_ = zeros(Use::gradients, Number::float32);
  if (setup.split.splits(1)) weights_ = zeros(Use::weights, setup.weights);
}

Slice EmulatedStates::of(const Tensor& array, std::size_t segment) const {
  const Range range = parts_.segment(segment);
  return array.all().part(range.begin, range.size());
}

void EmulatedStates::make_whole() {
  is_whole_ = true;
  pool_.charge(Use::unsharded, setup_.unsharded_bytes);
}

void EmulatedStates::release_whole() {
  is_whole_ = false;
  pool_.charge(Use::unsharded, -setup_.unsharded_bytes);
}

}  // namespace pipesim::exec
