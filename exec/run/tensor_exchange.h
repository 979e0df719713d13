// Exchanges of tensor-parallel ranks within an action, by messages of their group.
// While a rank waits for an exchange, everything that overlaps its actions progresses, including
// messages of the pipeline. Each exchange is recorded as a part of its action. If the host can't
// access the device's memory, messages pass through copies on the host. One rank, one thread.
#pragma once

#include <optional>

#include "exec/model/tensor_group.h"
#include "exec/run/overlapped_collectives.h"
#include "exec/run/recorder.h"
#include "exec/transport/group.h"

namespace pipesim::exec {

class TensorExchange final : public TensorGroup {
 public:
  // All must outlive it.
  TensorExchange(GroupTransport& group, Pool& pool, Recorder& recorder,
                 OverlappedCollectives& beside)
      : group_(group), pool_(pool), recorder_(recorder), beside_(beside) {}

  int ranks() const override { return group_.ranks(); }
  int rank() const override { return group_.rank(); }
  void start_sum(const Slice& numbers, Keeps keeps) override;
  void finish_sum() override;
  void poll() override;
  void all_gather(const Slice& numbers) override;

 private:
  struct Open {
    ExchangeNote note;
    OverlappedCollectives::Id id;
    Tensor room;  // for the others' numbers of the rank's part
  };
  Open start(GroupExchange what, const Slice& numbers, Steps steps);
  void finish(Open open);

  GroupTransport& group_;
  Pool& pool_;
  Recorder& recorder_;
  OverlappedCollectives& beside_;
  std::optional<Open> sum_;
};

}  // namespace pipesim::exec
