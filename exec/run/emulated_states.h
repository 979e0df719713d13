// The states of a stage on an emulated device, as far as replicas exchange them: arrays of as many
// numbers as the stage has parameters, which are never computed. Arrays have a separate pool: a
// rank's memory is counted by its costs. One rank, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/model/tensor.h"
#include "exec/run/shared_states.h"

namespace pipesim::exec {

class EmulatedStates final : public SharedStates {
 public:
  struct Setup {
    int stage = 0;
    std::vector<std::int64_t> layer_parameters;
    StateSplit split;
    Cuts cuts;
    Number weights = Number::float32;
    std::int64_t unsharded_bytes = 0;  // in addition, while weights are whole
  };
  // `arrays` holds them; `pool` counts the costs' bytes. Both must outlive it.
  EmulatedStates(const Setup& setup, Pool& arrays, Pool& pool);

  int index() const override { return setup_.stage; }
  const Parts& parts() const override { return parts_; }
  const StateSplit& split() const override { return setup_.split; }
  Slice gradients(std::size_t segment) const override { return of(gradients_, segment); }
  Slice operands(std::size_t segment) const override { return of(weights_, segment); }
  void keep_gradients(std::size_t /*segment*/) override {}
  void start_sums() override {}
  std::optional<std::size_t> gradient_place(std::size_t /*segment*/) const override { return {}; }
  void make_all_gradients() override {}
  bool is_whole() const override { return !setup_.split.splits(3) || is_whole_; }
  void make_whole() override;
  void release_whole() override;

 private:
  Slice of(const Tensor& array, std::size_t segment) const;

  Setup setup_;
  Pool& pool_;
  Parts parts_;
  Tensor gradients_, weights_;
  bool is_whole_ = false;
};

}  // namespace pipesim::exec
