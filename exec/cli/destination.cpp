#include "exec/cli/destination.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace pipesim::exec {

Destination::Destination(int descriptor, bool launched) : descriptor_(descriptor) {
  if (!launched) return;
  const std::string path = fmt::format("/proc/{}/fd/{}", ::getppid(), descriptor);
  opened_ = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  descriptor_ = opened_;  // -1 if it can't be opened: no terminal
}

Destination::~Destination() {
  if (opened_ >= 0) ::close(opened_);
}

}  // namespace pipesim::exec
