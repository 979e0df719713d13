// An action's exchange, on a lane of its rank's courier.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exec/input_pipeline/courier.h"
#include "exec/input_pipeline/input_workload.h"

namespace pipesim::exec {

// Any thread, one per lane at a time. `what` names it in errors.
class LaneExchange final : public InputExchange {
 public:
  LaneExchange(Courier& courier, int lane, std::string what)
      : courier_(courier), lane_(lane), what_(std::move(what)) {}

  int rank() const override { return courier_.rank(); }
  int ranks() const override { return courier_.ranks(); }
  std::vector<Bytes> all_to_all(std::vector<Bytes> given) override {
    return courier_.exchange(lane_, what_, std::move(given));
  }

 private:
  Courier& courier_;
  int lane_;
  std::string what_;
};

// Called on the transport's thread, on all ranks: runs work with exchanges on a separate thread,
// and carries them. Throws the error of either, preferably the work's.
void exchange_apart(Transport& transport, const std::string& what,
                    const std::function<void(InputExchange&)>& work);

}  // namespace pipesim::exec
