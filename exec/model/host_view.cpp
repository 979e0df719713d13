#include "exec/model/host_view.h"

namespace pipesim::exec {

HostView::HostView(Device& device, const Slice& numbers) : device_(&device) {
  const auto size = static_cast<std::size_t>(numbers.bytes());
  if (device.host_reaches_memory()) {
    bytes_ = {static_cast<std::byte*>(numbers.memory()), size};
  } else {
    there_ = numbers.memory();
    copy_.resize(size);
    bytes_ = copy_;
  }
}

void HostView::fetch() {
  if (there_ != nullptr) {
    device_->download(bytes_.data(), there_, static_cast<std::int64_t>(bytes_.size()));
  }
}

void HostView::put() {
  if (there_ != nullptr) {
    device_->upload(there_, bytes_.data(), static_cast<std::int64_t>(bytes_.size()));
  }
}

}  // namespace pipesim::exec
