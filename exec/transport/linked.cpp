#include "exec/transport/linked.h"

#include <utility>

namespace pipesim::exec {

LinkedTransport::LinkedTransport(Transport& control, std::unique_ptr<DeviceLink> link,
                                 std::string name)
    : control_(control), link_(std::move(link)), name_(std::move(name)) {
  if (control.patience()) set_patience(*control.patience());
}

}  // namespace pipesim::exec
