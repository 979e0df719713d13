#include "exec/model/tensor.h"

#include <numeric>
#include <utility>

namespace pipesim::exec {

std::int64_t UsedBytes::total() const {
  return std::accumulate(by_use.begin(), by_use.end(), std::int64_t{0});
}

StateBytes UsedBytes::states() const {
  return {(*this)[Use::weights], (*this)[Use::gradients], (*this)[Use::optimizer]};
}

WorkingBytes UsedBytes::working() const {
  return {(*this)[Use::activations],    (*this)[Use::residue],   (*this)[Use::send_buffer],
          (*this)[Use::receive_buffer], (*this)[Use::unsharded], (*this)[Use::workspace]};
}

Tensor::Tensor(Tensor&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      type_(other.type_),
      use_(other.use_) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  Tensor taken(std::move(other));  // frees the former block of this one
  std::swap(pool_, taken.pool_);
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(type_, taken.type_);
  std::swap(use_, taken.use_);
  return *this;
}

Tensor::~Tensor() {
  if (data_ != nullptr) pool_->give_back(data_, bytes(), use_);
}

void Tensor::serve_as(Use use) {
  if (data_ == nullptr || use == use_) return;
  pool_->used_[use_] -= bytes();
  pool_->count(use, bytes());
  use_ = use;
}

Pool::~Pool() {
  for (const auto& [bytes, blocks] : free_) {
    for (void* block : blocks) device_.release(block);
  }
}

Tensor Pool::take(std::int64_t size, Use use, Number type) {
  Tensor tensor;
  if (size == 0) return tensor;
  const std::int64_t bytes = size * bytes_of(type);
  std::vector<void*>& blocks = free_[bytes];
  if (blocks.empty()) blocks.push_back(device_.allocate(bytes));
  tensor.pool_ = this;
  tensor.data_ = blocks.back();
  tensor.size_ = size;
  tensor.type_ = type;
  tensor.use_ = use;
  blocks.pop_back();
  count(use, bytes);
  return tensor;
}

void Pool::count(Use use, std::int64_t bytes) {
  used_[use] += bytes;
  if (used_.total() > peak_.total()) peak_ = used_;
}

void Pool::give_back(void* data, std::int64_t bytes, Use use) {
  used_[use] -= bytes;
  free_[bytes].push_back(data);
}

}  // namespace pipesim::exec
