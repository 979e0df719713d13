#include "exec/run/agreement.h"

#include <fmt/format.h>

#include <exception>

#include "exec/transport/collectives.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

Bytes to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string to_string(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The first character is the exit status as a digit; empty on success.
std::string failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& thrown) {
    const Error error = as_error(thrown);
    return fmt::format("{}{}", error.exit_status(), error.what());
  }
  return {};
}

}  // namespace

void agree(Transport& transport, const std::function<void()>& work) {
  const std::string own = failure_of(work);
  const std::vector<Bytes> all = gather(transport, to_bytes(own));
  std::string first;
  for (std::size_t rank = 0; rank < all.size() && first.empty(); ++rank) {
    first = to_string(all[rank]);
    if (!first.empty() && rank > 0) first.insert(1, fmt::format("rank {}: ", rank));
  }
  first = to_string(broadcast(transport, to_bytes(first)));
  if (first.empty()) return;
  throw AgreedError(first.front() == '2' ? Error::Cause::input : Error::Cause::work,
                    first.substr(1));
}

void agree_on(Transport& transport, const std::string& what, const std::string& text) {
  const std::string expected = to_string(broadcast(transport, to_bytes(text)));
  agree(transport, [&] {
    if (text != expected) {
      throw input_error(
          fmt::format("{} differs from rank 0's; start all ranks with the same command", what));
    }
  });
}

}  // namespace pipesim::exec
