// Ranks as threads of one process, exchanging bytes through its memory.
// The world is made first and must outlive its threads; each thread calls the transport of its own
// rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "exec/transport/transport.h"

namespace pipesim::exec {

class LocalWorld {
 public:
  // Sends below the eager limit are copied and complete at once; without a limit, all do.
  explicit LocalWorld(int ranks, std::optional<std::int64_t> eager_limit_bytes = {});
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  Transport& transport(int rank);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace pipesim::exec
