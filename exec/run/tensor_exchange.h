// What tensor-parallel ranks exchange within an action, over the messages of their group.
//
// Each exchange is waited for where it stands; meanwhile what goes on beside the actions does so.
// It is recorded as a part of the action that it stands in. Where the host does not reach the
// device's memory, messages pass through copies on the host. One rank, one thread.
#pragma once

#include "exec/model/tensor_group.h"
#include "exec/run/beside.h"
#include "exec/run/recorder.h"
#include "exec/transport/group.h"

namespace pipesim::exec {

class TensorExchange final : public TensorGroup {
 public:
  // All outlive it.
  TensorExchange(GroupTransport& group, Pool& pool, Recorder& recorder, Beside& beside)
      : group_(group), pool_(pool), recorder_(recorder), beside_(beside) {}

  int ranks() const override { return group_.ranks(); }
  int rank() const override { return group_.rank(); }
  void all_reduce(const Slice& numbers) override;
  void reduce_scatter(const Slice& numbers) override;
  void all_gather(const Slice& numbers) override;

 private:
  Tensor room_for(const Slice& numbers) const;
  void run(GroupExchange what, const Slice& numbers, Steps steps);

  GroupTransport& group_;
  Pool& pool_;
  Recorder& recorder_;
  Beside& beside_;
};

}  // namespace pipesim::exec
